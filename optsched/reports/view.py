"""View of a plan for all reports: rectangles, live bytes, and the buffers live at the peak.

A plan of a graph and a packing of given live ranges both become a :class:`View`; pictures, pages
and traces are made from views only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optsched.check.inplace import dying_pairs, shared_spans
from optsched.check.packing import check_packing
from optsched.check.plan import check_plan
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.limits import buffer_count
from optsched.model.liveness import live_ranges, timeline
from optsched.model.packing_problem import PackingProblem, Parts
from optsched.model.plan import Plan
from optsched.model.reductions import ByPool
from optsched.model.steps import steps_of
from optsched.runtime.bytes import format_bytes
from optsched.runtime.text import counted, readable

DRAWN = 5_000
"""Maximum number of rectangles in a picture; a browser pans and zooms this many smoothly."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The graph or packing problem that plans belong to, in the terms that all reports use."""

    name: str
    memory_model: str
    """Memory model of the graph or of the live ranges."""
    counts: str
    """Size as text: `3 ops and 5 buffers`."""
    buffers: tuple[str, ...]
    """Names of buffers, by id."""
    sizes: IntArray
    kinds: tuple[str, ...] = ()
    """Origin of each buffer: an op type, "graph input" or "workspace"; empty if unknown."""
    makers: tuple[str, ...] = ()
    """Op that makes each buffer, with its type; empty if unknown."""
    kept: tuple[bool, ...] = ()
    """One flag per buffer: True if it stays live until the end."""

    @property
    def is_packing(self) -> bool:
        """True if live ranges are given, which leaves no order to choose."""
        return not self.kinds


@dataclass(frozen=True, slots=True)
class Slab:
    """The rectangles of one slab of a plan. Arrays have shape `(k,)`, ascending by offset."""

    pool: str
    """Name of the slab; empty if there is only one."""
    size: int
    buffers: IntArray
    start: IntArray
    end: IntArray
    """Half-open range of steps in which each buffer needs bytes of its own; a buffer that is
    written in place and freed in the same step has no such range and is left out."""
    offset: IntArray
    """First byte of each buffer."""
    bytes: IntArray


@dataclass(frozen=True, slots=True)
class Load:
    """Live bytes over the steps: `live[i]` from step `start[i]` until before `end[i]`, no gaps.

    Arrays have shape `(k,)` and are ascending in steps.
    """

    start: IntArray
    end: IntArray
    live: IntArray


@dataclass(frozen=True, slots=True)
class View:
    """A checked plan, prepared for display."""

    name: str
    subject: Subject
    peak: int
    slab: int
    """Bytes of the slab, and `peak` in bytes, as measured by the independent checker."""
    steps: tuple[tuple[str, str], ...]
    """Name and type of the op of each step; empty if live ranges are given."""
    load: Load
    """Live bytes by step."""
    peak_step: int
    """First step at which the live bytes are largest."""
    ranges: IntArray
    """Half-open live range of each buffer, shape `(m, 2)`."""
    live: tuple[int, ...]
    """Ids of the buffers live at the peak, largest first."""
    slabs: tuple[Slab, ...]
    """One slab per pool."""

    @property
    def length(self) -> int:
        """Number of steps in pictures."""
        return int(self.load.end[-1])

    def step_text(self, step: int) -> str:
        """Return a text with a step and the op that runs in it."""
        op = f", while op {readable(self.steps[step][0])} runs" if self.steps else ""
        return f"step {step:,}{op}"

    def lifetime(self, buffer: int) -> str:
        """Return a text with the first and last step of a buffer's live range."""
        start, end = (int(x) for x in self.ranges[buffer])
        kept = ", to the end" if self.subject.kept and self.subject.kept[buffer] else ""
        return (f"steps {start:,} to {end - 1:,}" if end - 1 > start else f"step {start:,}") + kept


def graph_subject(graph: Graph) -> Subject:
    """Return the subject of reports about a graph."""
    count = range(len(graph.buffers))

    def maker(b: int) -> str:
        producer = graph.producers[b]
        if producer is None:
            return "graph input"
        op = graph.ops[producer]
        return ", ".join(map(readable, (op.name, op.kind) if op.kind else (op.name,)))

    return Subject(
        graph.name,
        graph.model_name,
        f"{counted(len(graph.ops), 'op')} and {counted(buffer_count(graph), 'buffer')}",
        tuple(buffer.name for buffer in graph.buffers),
        graph.arrays.size,
        tuple(kind_of(graph, b) for b in count),
        tuple(maker(b) for b in count),
        tuple(graph.kept[b] for b in count),
    )


def plan_view(graph: Graph, plan: Plan, name: str, subject: Subject | None = None) -> View:
    """Check a plan and return its view; raise :class:`PlanError` if it breaks a rule.

    Plans of one graph that are shown side by side share a `subject`.
    """
    subject = subject or graph_subject(graph)
    checked = check_plan(graph, plan)
    graph = plan.placed(graph)
    ranges = live_ranges(graph, plan.order)
    running = timeline(graph, plan.order).running
    # Without an op only inputs are live.
    if not len(running):
        running = np.array([graph.arrays.initial], np.int64)
    # Steps with the same live bytes become one bar.
    changes = np.flatnonzero(np.diff(running, prepend=-1))
    load = Load(changes, np.append(changes[1:], len(running)), running[changes])
    spans = {
        b: (int(ranges[b, 0]), int(ranges[b, 1]))
        for b in np.flatnonzero((graph.arrays.size > 0) & (ranges[:, 1] > ranges[:, 0])).tolist()
        if plan.offsets[b] is not None and graph.roots[b] == b
    }
    # An output in place takes over the bytes of a dying input in that step.
    dying = dying_pairs(graph, steps_of(graph, plan.order).tolist(), spans)
    spans = shared_spans(plan.offsets, dying, spans)
    rows = [
        (graph.buffers[b].pool, plan.offsets[b] or 0, b, *span, graph.buffers[b].size)
        for b, span in spans.items()
    ]
    steps = tuple((graph.ops[v].name, graph.ops[v].kind) for v in plan.order)
    return _view(name, subject, checked.peak, checked.slab, steps, load, ranges, rows)


def packing_view(
    problem: PackingProblem, offsets: IntArray, name: str, pools: Sequence[str] = ()
) -> View:
    """Check a packing and return its view.

    `offsets` are the first bytes of the buffers, `name` is the name of the packing, and `pools` has
    the pool of each buffer if there are several. :class:`PlanError` is raised if two buffers
    overlap or another rule is broken.
    """
    own_pools = list(pools) or [""] * len(problem)
    pieces = ByPool.of(own_pools).pieces(problem, offsets)
    slab = sum(check_packing(part, own.tolist()) for part, own in pieces)
    parts = problem.parts
    rows = [
        (own_pools[i], int(offsets[i]) + low, i, start, end, high - low)
        for i, start, end, low, high in zip(
            *(x.tolist() for x in (parts.owner, parts.start, parts.end, parts.low, parts.high)),
            strict=True,
        )
        # Parts without steps or bytes cannot be seen.
        if start < end and low < high
    ]
    # Buffers of a group share memory, so a group counts as one buffer.
    load = load_of(problem.joined.problem.parts)
    counts = counted(len(problem), "buffer")
    subject = Subject(problem.name, problem.memory_model, counts, problem.names, problem.size)
    ranges = np.stack([problem.start, problem.end], 1)
    return _view(name, subject, int(load.live.max()), slab, (), load, ranges, rows)


def load_of(parts: Parts) -> Load:
    """Return the total bytes of parts over the steps, from step 0."""
    # Steps 0 and 1, so that even an empty packing has a step.
    steps = np.unique(np.concatenate([[0, 1], parts.start, parts.end]))
    change = np.zeros(len(steps), np.int64)
    np.add.at(change, np.searchsorted(steps, parts.start), parts.high - parts.low)
    np.subtract.at(change, np.searchsorted(steps, parts.end), parts.high - parts.low)
    return Load(steps[:-1], steps[1:], np.cumsum(change)[:-1])


def _view(
    name: str,
    subject: Subject,
    peak: int,
    slab: int,
    steps: tuple[tuple[str, str], ...],
    load: Load,
    ranges: IntArray,
    rows: Sequence[tuple[str, int, int, int, int, int]],
) -> View:
    """Return a view from its parts; `rows` are `(pool, offset, buffer, start, end, bytes)`."""
    peak_step = int(load.start[np.argmax(load.live)])
    size = subject.sizes
    there = (size > 0) & (ranges[:, 0] <= peak_step) & (peak_step < ranges[:, 1])
    live = sorted(np.flatnonzero(there).tolist(), key=lambda b: (-int(size[b]), b))
    pools: dict[str, list[tuple[int, ...]]] = {}
    for pool, *row in rows:
        # A range of no steps has no rectangle.
        if row[2] < row[3]:
            pools.setdefault(pool, []).append(tuple(row))
    slabs = []
    for pool in sorted(pools):
        offset, ids, start, end, count = np.array(sorted(pools[pool]), np.int64).T
        slabs.append(Slab(pool, int((offset + count).max()), ids, start, end, offset, count))
    return View(
        name, subject, peak, slab, steps, load, peak_step, ranges, tuple(live), tuple(slabs)
    )


def thinned(shown: View, slab: Slab, most: int = DRAWN) -> tuple[Slab, float]:
    """Return a slab with at most `most` rectangles, and the share of the area that is left out.

    Buffers live at the peak are kept first, then those with the most bytes times steps.
    """
    area = slab.bytes.astype(float) * (slab.end - slab.start)
    if len(area) <= most:
        return slab, 0.0
    # Last key first: buffers live at the peak, then by area.
    rank = np.lexsort((-area, ~np.isin(slab.buffers, shown.live)))
    rows = np.sort(rank[:most])
    arrays = (slab.buffers, slab.start, slab.end, slab.offset, slab.bytes)
    kept = Slab(slab.pool, slab.size, *(array[rows] for array in arrays))
    return kept, 1 - float(area[rows].sum() / max(1.0, area.sum()))


def bars(load: Load, most: int = DRAWN) -> Load:
    """Return live bytes as at most `most` bars.

    If there are more, neighbors are merged. Each bar is as high as its highest part, so a peak is
    never hidden.
    """
    if len(load.live) <= most:
        return load
    # Evenly spaced positions, without repeats.
    first = np.unique(np.linspace(0, len(load.live), most, endpoint=False).astype(np.int64))
    start = load.start[first]
    end = np.append(start[1:], load.end[-1])
    return Load(start, end, np.maximum.reduceat(load.live, first))


def kind_of(graph: Graph, buffer: int) -> str:
    """Return the origin of a buffer: an op type, "graph input" or "workspace"."""
    producer = graph.producers[buffer]
    if producer is None:
        return "graph input"
    op = graph.ops[producer]
    return "workspace" if op.workspace == buffer else op.kind or "op of unknown type"


def both(count: int) -> str:
    """Return a byte count in a readable unit and exactly."""
    return f"{count:,} B" if count < 1024 else f"{format_bytes(count)} ({count:,} B)"
