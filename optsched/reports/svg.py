"""SVG pictures without a library: a packed slab, and plans of one instance side by side.

Steps run to the right and bytes upwards. A rectangle is a buffer, which has the same color in every
picture of its graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from optsched.model.graph import Graph
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan
from optsched.reports.view import View, both
from optsched.runtime.bytes import format_bytes
from optsched.runtime.text import readable

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 440, 300, 72, 44, 40
"""Pixels of a panel, and of its margins."""
_MOST_BLOCKS = 4_000
_EXACT = 10**7
"""Bytes up to which a label on the axis has all digits: more do not fit into the margin."""
_MOST_LABELS = 40
"""Maximum number of steps for which op names are drawn."""


@dataclass(frozen=True, slots=True)
class Block:
    """A buffer in a panel: steps `[start, end)`, bytes `[low, high)`, its id and its tooltip."""

    name: str
    number: int
    start: int
    end: int
    low: int
    high: int
    label: str


@dataclass(frozen=True, slots=True)
class Panel:
    """The picture of one plan: title, blocks, number of steps, and a label per step."""

    title: str
    blocks: tuple[Block, ...]
    steps: int
    labels: tuple[str, ...]

    @property
    def top(self) -> int:
        """End of the highest block, in bytes."""
        return max((block.high for block in self.blocks), default=0)


def slab_panel(title: str, shown: View) -> Panel:
    """Return the packed slab of a plan; slabs of several pools are stacked."""
    ground, blocks = 0, []
    for slab in shown.slabs:
        rows = zip(
            *(x.tolist() for x in (slab.buffers, slab.start, slab.end, slab.offset, slab.bytes)),
            strict=True,
        )
        for b, start, end, offset, size in rows:
            label = f"{both(size)}, {shown.lifetime(b)}, offset {offset:,}"
            low = ground + offset
            blocks.append(Block(shown.subject.buffers[b], b, start, end, low, low + size, label))
        ground += slab.size
    return Panel(title, tuple(blocks), shown.length, tuple(name for name, _ in shown.steps))


def order_panel(title: str, graph: Graph, plan: Plan) -> Panel:
    """Return the live bytes of an order: the buffers of each step, stacked.

    If there are too many blocks, each step becomes one block.
    """
    problem, ids = packing_problem(graph, plan.order)
    labels = tuple(graph.ops[v].name for v in plan.order)
    # Older buffers below: a buffer keeps its place in the stack while nothing below it ends.
    rows = [(problem.names[i], int(ids[i]), i) for i in np.argsort(problem.start, kind="stable")]
    # Thousands of rectangles make a page slow, so that a step becomes one bar.
    whole = int((problem.end - problem.start).sum()) > _MOST_BLOCKS
    blocks = []
    for step in range(len(graph.ops)):
        low = 0
        for name, number, i in rows:
            if problem.start[i] <= step < problem.end[i]:
                high = low + int(problem.size[i])
                if not whole:
                    label = f"{high - low:,} bytes, step {step:,}"
                    blocks.append(Block(name, number, step, step + 1, low, high, label))
                low = high
        if whole:
            blocks.append(Block("live bytes", 0, step, step + 1, 0, low, f"{low:,} bytes"))
    return Panel(title, tuple(blocks), len(graph.ops), labels)


def contrast_picture(panels: Sequence[Panel], level: int, *, stacked: bool = False) -> str:
    """Return an SVG of panels at one scale, with a dashed line at `level` bytes.

    With `stacked` they are one above the other, so that a phone shows their labels large enough.
    """
    # One scale for all panels: their heights can be compared by eye.
    top = max(1, level, *(panel.top for panel in panels))
    columns, rows = (1, len(panels)) if stacked else (len(panels), 1)
    row_height = _TOP + _HEIGHT + _BOTTOM
    width, height = columns * (_LEFT + _WIDTH) + _LEFT // 2, rows * row_height
    heading, small = (18, 16) if stacked else (13, 11)
    body = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    for place, panel in enumerate(panels):
        column, row = (0, place) if stacked else (place, 0)
        left, head = _LEFT + column * (_LEFT + _WIDTH), _TOP + row * row_height
        floor = head + _HEIGHT
        scale = _Scale(left, floor, _WIDTH / max(1, panel.steps), _HEIGHT / top)
        title = escape(readable(panel.title))
        at = f'x="{left}" y="{head - 20}" font-size="{heading}"'
        body += f'<text {at} font-weight="600">{title}</text>'
        body += "".join([*_blocks(panel, scale), *_labels(panel, scale)])
        body += f'<path d="M{left} {head}V{floor}H{left + _WIDTH}" fill="none" stroke="#333"/>'
        # The dashed line, the floor and the panel's own top.
        for value in sorted({0, level, panel.top}):
            y, end = scale.y(value), left - 5
            label = f"{value:,}" if value < _EXACT else format_bytes(value)
            body += f'<text x="{end}" y="{y}" text-anchor="end" font-size="{small}">{label}</text>'
        body += (
            f'<path d="M{left} {scale.y(level)}h{_WIDTH}" stroke="#b00" stroke-dasharray="5 4"/>'
        )
    label = " / ".join(readable(panel.title) for panel in panels)
    return _svg(width, height, label, body, 'xmlns="http://www.w3.org/2000/svg" ')


def _svg(width: int, height: int, label: str, body: str, extra: str = "") -> str:
    return (
        f'<svg {extra}viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" '
        f'font-size="13" role="img" aria-label="{escape(label)}">{body}</svg>'
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """Conversion of steps and bytes to pixels."""

    left: int
    floor: int
    across: float
    up: float

    def x(self, step: float) -> str:
        return f"{self.left + step * self.across:.2f}"

    def y(self, value: float) -> str:
        return f"{self.floor - value * self.up:.2f}"


def _blocks(panel: Panel, scale: _Scale) -> Iterator[str]:
    """Yield rectangles, and names on those with enough room."""
    yield '<g stroke="#0003" stroke-width=".5">'
    for b in panel.blocks:
        yield (
            f'<rect x="{scale.x(b.start)}" y="{scale.y(b.high)}" '
            f'width="{(b.end - b.start) * scale.across:.2f}" '
            f'height="{(b.high - b.low) * scale.up:.2f}" '
            # The golden angle: neighbors in number are far apart in color, and a buffer has the
            # same color in each panel.
            f'fill="hsl({b.number * 137 % 360} 55% 70%)">'
            f"<title>{escape(readable(b.name))}: {escape(b.label)}</title></rect>"
        )
    yield '</g><g text-anchor="middle" pointer-events="none">'
    for b in panel.blocks:
        wide, high = (b.end - b.start) * scale.across, (b.high - b.low) * scale.up
        # Eight pixels per letter are enough for most fonts.
        if wide > 8 * len(b.name) and high > 14:
            x, y = scale.x((b.start + b.end) / 2), scale.y((b.low + b.high) / 2 - 4 / scale.up)
            yield f'<text x="{x}" y="{y}">{escape(readable(b.name))}</text>'
    yield "</g>"


def _labels(panel: Panel, scale: _Scale) -> Iterator[str]:
    """Yield the names of ops below the steps, if there is room."""
    if len(panel.labels) > _MOST_LABELS:
        return
    for step, label in enumerate(panel.labels):
        x, y = scale.x(step + 0.5), scale.floor + 14
        # Names wider than a step would run into each other.
        turned = len(label) * 8 > scale.across
        turn = f' transform="rotate(-35 {x} {y})"' if turned else ""
        anchor = "end" if turned else "middle"
        name = escape(readable(label, 24))
        yield f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="11"{turn}>{name}</text>'
