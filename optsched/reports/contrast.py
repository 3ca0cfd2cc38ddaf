"""Two plans of one instance side by side, as a picture: what each keeps where, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import live_ranges, timeline
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.plan import Plan
from optsched.runtime.text import readable

_WIDTH, _HEIGHT, _TOP, _LEFT, _BOTTOM = 440, 300, 44, 48, 40
_MOST_BLOCKS = 4_000
_MOST_LABELS = 40
"""Steps that still have room for their ops' names."""


@dataclass(frozen=True, slots=True)
class Block:
    """A buffer in a panel: steps `[start, end)`, bytes `[low, high)`, and its number."""

    name: str
    number: int
    start: int
    end: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Panel:
    """One plan: a title, its blocks, its steps and what stands below each."""

    title: str
    blocks: tuple[Block, ...]
    steps: int
    labels: tuple[str, ...] = ()

    @property
    def height(self) -> int:
        """Bytes up to the top of the highest block."""
        return max((block.high for block in self.blocks), default=0)


def order_panel(title: str, graph: Graph, plan: Plan) -> Panel:
    """Return the live bytes of an order: the buffers of each step on top of each other.

    Where that makes too many of them, each step is one block.
    """
    problem, ids = packing_problem(graph, plan.order)
    labels = tuple(graph.ops[v].name for v in plan.order)
    if int((problem.end - problem.start).sum()) > _MOST_BLOCKS:
        running = timeline(graph, plan.order).running.tolist()
        whole = [Block("live bytes", 0, at, at + 1, 0, live) for at, live in enumerate(running)]
        return Panel(title, tuple(whole), len(graph.ops), labels)
    blocks = []
    for step in range(len(graph.ops)):
        low = 0
        for i in np.argsort(problem.start, kind="stable"):
            if not problem.start[i] <= step < problem.end[i]:
                continue
            high = low + int(problem.size[i])
            blocks.append(Block(problem.names[i], int(ids[i]), step, step + 1, low, high))
            low = high
    return Panel(title, tuple(blocks), len(graph.ops), labels)


def slab_panel(title: str, graph: Graph, plan: Plan) -> Panel:
    """Return the packed slab of a plan."""
    ranges = live_ranges(graph, plan.order)
    blocks = [
        Block(buffer.name, b, int(ranges[b, 0]), int(ranges[b, 1]), offset, offset + buffer.size)
        for b, (buffer, offset) in enumerate(zip(graph.buffers, plan.offsets, strict=True))
        if offset is not None and graph.roots[b] == b
    ]
    labels = tuple(graph.ops[v].name for v in plan.order)
    return Panel(title, tuple(blocks), len(graph.ops), labels)


def packing_panel(title: str, problem: PackingProblem, offsets: IntArray) -> Panel:
    """Return a packing."""
    rows = zip(
        problem.names,
        problem.start.tolist(),
        problem.end.tolist(),
        problem.size.tolist(),
        offsets.tolist(),
        strict=True,
    )
    blocks = [
        Block(name, i, start, end, offset, offset + size)
        for i, (name, start, end, size, offset) in enumerate(rows)
        if start < end
    ]
    return Panel(title, tuple(blocks), max((b.end for b in blocks), default=0))


def contrast_picture(panels: Sequence[Panel], level: int) -> str:
    """Return an SVG of panels in one scale, with a dashed line at `level` bytes.

    Steps go to the right, bytes upwards; a buffer has the same colour in every panel.
    """
    top = max(1, level, *(panel.height for panel in panels))
    width = (_LEFT + _WIDTH) * len(panels) + _LEFT // 2
    height = _TOP + _HEIGHT + _BOTTOM
    body = "".join(
        shape
        for place, panel in enumerate(panels)
        for shape in _draw(panel, _LEFT + place * (_LEFT + _WIDTH), top, level)
    )
    title = " / ".join(panel.title for panel in panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" font-size="13" role="img" '
        f'aria-label="{escape(title)}"><rect width="{width}" height="{height}" fill="#fff"/>'
        f"{body}</svg>\n"
    )


def _draw(panel: Panel, left: int, top: int, level: int) -> Iterator[str]:
    across, up = _WIDTH / max(1, panel.steps), _HEIGHT / top
    floor = _TOP + _HEIGHT

    def y(value: int) -> str:
        return f"{floor - value * up:.1f}"

    yield f'<text x="{left}" y="{_TOP - 20}" font-weight="600">{escape(panel.title)}</text>'
    yield '<g stroke="#fff" stroke-width=".7">'
    for b in panel.blocks:
        title = f"{readable(b.name)}: {b.high - b.low:,} bytes, steps {b.start} to {b.end - 1}"
        yield (
            f'<rect x="{left + b.start * across:.1f}" y="{y(b.high)}" '
            f'width="{(b.end - b.start) * across:.1f}" height="{(b.high - b.low) * up:.1f}" '
            f'fill="hsl({b.number * 137 % 360} 55% 70%)"><title>{escape(title)}</title></rect>'
        )
    yield "</g>"
    yield from _names(panel, left, across, up)
    yield f'<path d="M{left} {_TOP}V{floor}H{left + _WIDTH}" fill="none" stroke="#333"/>'
    for value in sorted({0, level, panel.height}):
        yield f'<text x="{left - 5}" y="{y(value)}" text-anchor="end" font-size="11">{value}</text>'
    yield (f'<path d="M{left} {y(level)}H{left + _WIDTH}" stroke="#b00" stroke-dasharray="5 4"/>')


def _names(panel: Panel, left: int, across: float, up: float) -> Iterator[str]:
    """Names on the blocks that have room for them, and of the ops below the steps."""
    floor = _TOP + _HEIGHT
    for b in panel.blocks:
        wide = (b.end - b.start) * across > 8 * len(b.name)
        if wide and (b.high - b.low) * up > 12:
            x = left + (b.start + b.end) / 2 * across
            y = floor - (b.low + b.high) / 2 * up + 4
            name = escape(readable(b.name))
            yield f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{name}</text>'
    if len(panel.labels) > _MOST_LABELS:
        return
    for step, label in enumerate(panel.labels):
        x, y = left + (step + 0.5) * across, floor + 14
        turned = len(label) * 8 > across
        turn = f' transform="rotate(-35 {x:.1f} {y})"' if turned else ""
        anchor = "end" if turned else "middle"
        yield (
            f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" font-size="11"{turn}>'
            f"{escape(readable(label, 24))}</text>"
        )
