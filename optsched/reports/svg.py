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
from optsched.reports.colours import BOUND
from optsched.reports.view import Load, View, bars, both
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
    says: str


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
            says = f"{both(size)}, {shown.lifetime(b)}, offset {offset:,}"
            low = ground + offset
            blocks.append(Block(shown.subject.buffers[b], b, start, end, low, low + size, says))
        ground += slab.size
    return Panel(title, tuple(blocks), shown.length, tuple(name for name, _ in shown.steps))


def order_panel(title: str, graph: Graph, plan: Plan) -> Panel:
    """Return the live bytes of an order: the buffers of each step, stacked.

    If there are too many blocks, each step becomes one block.
    """
    problem, ids = packing_problem(graph, plan.order)
    labels = tuple(graph.ops[v].name for v in plan.order)
    rows = [(problem.names[i], int(ids[i]), i) for i in np.argsort(problem.start, kind="stable")]
    whole = int((problem.end - problem.start).sum()) > _MOST_BLOCKS
    blocks = []
    for step in range(len(graph.ops)):
        low = 0
        for name, number, i in rows:
            if problem.start[i] <= step < problem.end[i]:
                high = low + int(problem.size[i])
                if not whole:
                    says = f"{high - low:,} bytes, step {step:,}"
                    blocks.append(Block(name, number, step, step + 1, low, high, says))
                low = high
        if whole:
            blocks.append(Block("live bytes", 0, step, step + 1, 0, low, f"{low:,} bytes"))
    return Panel(title, tuple(blocks), len(graph.ops), labels)


def contrast_picture(panels: Sequence[Panel], level: int) -> str:
    """Return an SVG of panels at one scale, with a dashed line at `level` bytes."""
    top = max(1, level, *(panel.top for panel in panels))
    width, floor = len(panels) * (_LEFT + _WIDTH) + _LEFT // 2, _TOP + _HEIGHT
    height = floor + _BOTTOM
    body = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    for place, panel in enumerate(panels):
        left = _LEFT + place * (_LEFT + _WIDTH)
        scale = _Scale(left, floor, _WIDTH / max(1, panel.steps), _HEIGHT / top)
        title = escape(readable(panel.title))
        body += f'<text x="{left}" y="{_TOP - 20}" font-weight="600">{title}</text>'
        body += "".join([*_blocks(panel, scale), *_labels(panel, scale)])
        body += f'<path d="M{left} {_TOP}V{floor}H{left + _WIDTH}" fill="none" stroke="#333"/>'
        for value in sorted({0, level, panel.top}):
            y, end = scale.y(value), left - 5
            label = f"{value:,}" if value < _EXACT else format_bytes(value)
            body += f'<text x="{end}" y="{y}" text-anchor="end" font-size="11">{label}</text>'
        body += (
            f'<path d="M{left} {scale.y(level)}h{_WIDTH}" stroke="#b00" stroke-dasharray="5 4"/>'
        )
    says = " / ".join(readable(panel.title) for panel in panels)
    return _svg(width, height, says, body, 'xmlns="http://www.w3.org/2000/svg" ')


def slab_picture(shown: View, bound: int) -> str:
    """Return an SVG of one packed slab; a buffer's tooltip has its name, bytes, steps and offset.

    The line shows the live bytes during each step: where it touches the top, the slab is full. The
    dashed line is the proved bound on the slab.
    """
    panel = slab_panel("", shown)
    scale = _Scale(0, 360, 960 / max(1, panel.steps), 355 / max(1, panel.top))
    body = "".join(_blocks(panel, scale)) + _line(bars(shown.load), scale)
    body += (
        f'<path d="M0 {scale.y(bound)}H960" stroke="{BOUND}" stroke-width="2" '
        f'stroke-dasharray="7 5"><title>proven bound: {both(bound)}</title></path>'
    )
    return _svg(960, 360, f"packed slab of {readable(shown.subject.name)}", body)


def _svg(width: int, height: int, says: str, body: str, extra: str = "") -> str:
    return (
        f'<svg {extra}viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" '
        f'font-size="13" role="img" aria-label="{escape(says)}">{body}</svg>'
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
            f'fill="hsl({b.number * 137 % 360} 55% 70%)">'
            f"<title>{escape(readable(b.name))}: {escape(b.says)}</title></rect>"
        )
    yield '</g><g text-anchor="middle" pointer-events="none">'
    for b in panel.blocks:
        wide, high = (b.end - b.start) * scale.across, (b.high - b.low) * scale.up
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
        turned = len(label) * 8 > scale.across
        turn = f' transform="rotate(-35 {x} {y})"' if turned else ""
        anchor = "end" if turned else "middle"
        name = escape(readable(label, 24))
        yield f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="11"{turn}>{name}</text>'


def _line(load: Load, scale: _Scale) -> str:
    """Return the live bytes as a line."""
    rows = zip(load.start, load.end, load.live, strict=True)
    points = " ".join(
        f"{scale.x(x)},{scale.y(live)}" for start, end, live in rows for x in (start, end)
    )
    return f'<polyline points="{points}" fill="none" stroke="#000" stroke-width="1.2"/>'
