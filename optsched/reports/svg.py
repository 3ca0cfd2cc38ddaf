"""A packed slab as a picture: steps to the right, addresses upwards, one rectangle a buffer."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from optsched.model.graph import Graph
from optsched.model.liveness import live_ranges, timeline
from optsched.model.plan import Plan
from optsched.runtime.bytes import format_bytes
from optsched.runtime.text import readable

_WIDTH, _HEIGHT = 960, 360


def slab_picture(graph: Graph, plan: Plan) -> str:
    """Return an SVG of the slab; hovering over a buffer names it, its bytes, steps and offset.

    Where there are several pools their slabs are drawn one above the other. The line is the live
    bytes while each step runs: where it touches the top, the slab is full.
    """
    graph = plan.placed(graph)
    steps = max(1, len(graph.ops))
    slab = max(1, plan.slab(graph))
    across, up = _WIDTH / steps, _HEIGHT / slab
    ranges = live_ranges(graph, plan.order)
    shapes, ground = [], _grounds(plan.slabs(graph))
    for b, (buffer, offset) in enumerate(zip(graph.buffers, plan.offsets, strict=True)):
        if offset is None or graph.roots[b] != b:
            continue
        start, end = (int(x) for x in ranges[b])
        title = (
            f"{readable(buffer.name)}: {buffer.size:,} B ({format_bytes(buffer.size)}), "
            f"steps {start} to {end - 1}, offset {offset:,}"
        )
        shapes.append(
            f'<rect x="{start * across:.2f}" '
            f'y="{_HEIGHT - (ground[buffer.pool] + offset + buffer.size) * up:.2f}" '
            f'width="{(end - start) * across:.2f}" height="{buffer.size * up:.2f}" '
            f'fill="hsl({(b * 137) % 360} 55% 70%)"><title>{escape(title)}</title></rect>'
        )
    running = timeline(graph, plan.order).running.tolist()
    points = " ".join(
        f"{x * across:.2f},{_HEIGHT - live * up:.2f}"
        for step, live in enumerate(running)
        for x in (step, step + 1)
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="packed slab of {escape(readable(graph.name))}">'
        f'<g stroke="#0003" stroke-width=".4">{"".join(shapes)}</g>'
        f'<polyline points="{points}" fill="none" stroke="#000" stroke-width="1.2"/></svg>'
    )


def _grounds(slabs: Mapping[str, int]) -> dict[str, int]:
    """Where the slab of each pool begins."""
    found, top = {}, 0
    for pool, slab in slabs.items():
        found[pool], top = top, top + slab
    return found
