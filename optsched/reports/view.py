"""What a report shows of a plan: rectangles, live bytes by step, who is live at the peak."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.check.inplace import shared_spans
from optsched.check.plan import check_plan
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import live_ranges, steps_of, timeline
from optsched.model.plan import Plan
from optsched.runtime.bytes import format_bytes
from optsched.runtime.text import readable

DRAWN = 5_000
"""Rectangles in a picture at most: a browser pans and zooms this many without a stutter."""


@dataclass(frozen=True, slots=True)
class Slab:
    """The rectangles of one slab of a plan. Arrays have shape `(k,)`, by offset ascending.

    Parameters
    ----------
    pool
        Name of the slab; empty where there is only one.
    size
        Bytes.
    buffers
        Ids.
    start, end
        Half-open steps in which each needs bytes that no other has; a buffer that is written in
        place and gone in the same step has none, and is not here.
    offset, bytes
        First byte and size of each.
    """

    pool: str
    size: int
    buffers: IntArray
    start: IntArray
    end: IntArray
    offset: IntArray
    bytes: IntArray


@dataclass(frozen=True, slots=True)
class View:
    """A checked plan, made ready to be shown.

    Parameters
    ----------
    name
        Of the plan.
    plan
        The plan.
    peak, slab
        Bytes, as the independent checker measured them.
    running
        Shape `(steps,)`: live bytes while each step runs.
    peak_step
        The first step at which they are most.
    ranges
        Shape `(m, 2)`: half-open live ranges.
    live
        Ids of the buffers live at the peak, largest first.
    slabs
        One for each pool.
    """

    name: str
    plan: Plan
    peak: int
    slab: int
    running: IntArray
    peak_step: int
    ranges: IntArray
    live: tuple[int, ...]
    slabs: tuple[Slab, ...]


def view(graph: Graph, plan: Plan, name: str) -> View:
    """Check a plan and make it ready to be shown.

    Parameters
    ----------
    graph, plan, name
        What was planned, and what the plan is called.

    Raises
    ------
    PlanError
        If the plan breaks a rule.
    """
    checked = check_plan(graph, plan)
    graph = plan.placed(graph)
    ranges = live_ranges(graph, plan.order)
    running = timeline(graph, plan.order).running
    if not len(running):
        running = np.array([graph.arrays.initial], np.int64)
    peak_step = int(np.argmax(running))
    size = graph.arrays.size
    there = (size > 0) & (ranges[:, 0] <= peak_step) & (peak_step < ranges[:, 1])
    live = sorted(np.flatnonzero(there).tolist(), key=lambda b: (-int(size[b]), b))
    slabs = _slabs(graph, plan, ranges)
    return View(
        name, plan, checked.peak, checked.slab, running, peak_step, ranges, tuple(live), slabs
    )


def _slabs(graph: Graph, plan: Plan, ranges: IntArray) -> tuple[Slab, ...]:
    spans = {
        b: (int(ranges[b, 0]), int(ranges[b, 1]))
        for b in np.flatnonzero((graph.arrays.size > 0) & (ranges[:, 1] > ranges[:, 0])).tolist()
        if plan.offsets[b] is not None and graph.roots[b] == b
    }
    spans = shared_spans(graph, plan.offsets, steps_of(graph, plan.order).tolist(), spans)
    pools: dict[str, list[tuple[int, int, int, int, int]]] = {}
    for b, span in spans.items():
        buffer, offset = graph.buffers[b], plan.offsets[b]
        if span[0] < span[1]:
            pools.setdefault(buffer.pool, []).append((offset or 0, b, *span, buffer.size))
    slabs = []
    for pool in sorted(pools):
        offset, ids, start, end, size = np.array(sorted(pools[pool]), np.int64).T
        slabs.append(Slab(pool, int((offset + size).max()), ids, start, end, offset, size))
    return tuple(slabs)


def thinned(shown: View, slab: Slab, most: int = DRAWN) -> tuple[Slab, float]:
    """Return a slab with so many rectangles at most, and the share of the area that is left out.

    Those of the buffers live at the peak come first, then those of most bytes times steps.
    """
    area = slab.bytes.astype(float) * (slab.end - slab.start)
    if len(area) <= most:
        return slab, 0.0
    rank = np.lexsort((-area, ~np.isin(slab.buffers, shown.live)))
    rows = np.sort(rank[:most])
    arrays = (slab.buffers, slab.start, slab.end, slab.offset, slab.bytes)
    kept = Slab(slab.pool, slab.size, *(array[rows] for array in arrays))
    return kept, 1 - float(area[rows].sum() / max(1.0, area.sum()))


def bars(running: IntArray, most: int = DRAWN) -> tuple[IntArray, IntArray, IntArray]:
    """Return `(start, end, live)`: steps of equal live bytes joined, shape `(k,)` each.

    Where that leaves more than `most`, so many neighbours are joined that it does not, and each
    bar is as high as its highest: a peak is never hidden.
    """
    edges = np.flatnonzero(np.diff(running, prepend=-1))
    if len(edges) > most:
        edges = np.unique(np.linspace(0, len(running), most, endpoint=False).astype(np.int64))
    end = np.append(edges[1:], len(running))
    return edges, end, np.maximum.reduceat(running, edges)


def kind_of(graph: Graph, buffer: int) -> str:
    """Return what made a buffer: an op type, "graph input" or "workspace"."""
    producer = graph.producers[buffer]
    if producer is None:
        return "graph input"
    op = graph.ops[producer]
    return "workspace" if op.workspace == buffer else op.kind or "op of unknown type"


def both(count: int) -> str:
    """Return a byte count in human units and exactly."""
    return f"{count:,} B" if count < 1024 else f"{format_bytes(count)} ({count:,} B)"


def maker(graph: Graph, buffer: int) -> str:
    """Return the op that makes a buffer, and its type."""
    producer = graph.producers[buffer]
    if producer is None:
        return "graph input"
    op = graph.ops[producer]
    return readable(op.name) + (f", {readable(op.kind)}" if op.kind else "")


def lifetime(graph: Graph, view: View, buffer: int) -> str:
    """Return the steps of a buffer's live range, first and last."""
    start, end = (int(x) for x in view.ranges[buffer])
    kept = ", to the end" if graph.is_kept(buffer) else ""
    return (f"steps {start:,} to {end - 1:,}" if end - 1 > start else f"step {start:,}") + kept
