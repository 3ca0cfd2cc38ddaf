"""The independent checker: replays a plan step by step in plain integers.

It reads the graph's ops and buffers and nothing that a solver or the flat arrays computed, so an
error there can not hide here. Short enough to be read in one sitting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING

from optsched.check.inplace import bytes_spared, shared_spans
from optsched.check.lives import Spans, live_spans
from optsched.check.overlap import (
    Extent,
    Rectangle,
    check_overlap,
    check_pairs,
    check_same_offset,
    filled_rectangles,
    whole_extents,
)
from optsched.check.streams import Precedence, check_sharing, most_in_conflict
from optsched.errors import PlanError, UsageError, expect
from optsched.model.graph import Graph
from optsched.runtime.keywords import keywords

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from optsched.model.packing_problem import PackingProblem
    from optsched.model.plan import Plan


@dataclass(frozen=True, slots=True)
class Checked:
    """What the replay measured, in bytes.

    Parameters
    ----------
    peak
        Most live bytes of a step, of all pools together; on several streams the largest total
        size of buffers that pairwise may be in use at once.
    slabs
        The slab of each pool that a buffer with an offset lies in.
    """

    peak: int
    slabs: dict[str, int]

    @property
    def slab(self) -> int:
        """Bytes of all slabs together."""
        return sum(self.slabs.values())


@keywords
def check_plan(
    graph: Graph,
    plan: Plan,
    *,
    peak: int | None = None,
    slab: int | None = None,
    slabs: Mapping[str, int] | None = None,
    capacities: Mapping[str, int] | None = None,
) -> Checked:
    """Replay a plan and return its true peak and slabs (rung L0).

    Parameters
    ----------
    graph, plan
        What was planned.
    peak, slab, slabs
        Bytes that the plan claims; compared if given. `slab` is of all pools together.
    capacities
        Bytes that the slabs of some pools may have.

    Raises
    ------
    PlanError
        On the first broken rule, naming op, buffer and bytes.
    """
    expect("check_plan", graph, Graph)
    if not hasattr(plan, "placed"):
        raise UsageError(f"check_plan wants a Plan, got {type(plan).__name__}")
    graph = plan.placed(graph)
    step = _check_order(graph, plan.order)
    spans = live_spans(graph, step)
    found = Checked(
        _peak(graph, plan.order, step, spans), _check_offsets(graph, plan.offsets, step, spans)
    )
    claims = [("peak", peak, found.peak), ("slab", slab, found.slab)]
    for pool, claim in (slabs or {}).items():
        claims.append((f"slab in pool {pool!r}", claim, found.slabs.get(pool, 0)))
    for what, claimed, bytes_ in claims:
        if claimed is not None and claimed != bytes_:
            raise PlanError(f"plan claims a {what} of {claimed} bytes, the replay gives {bytes_}")
    for pool, capacity in (capacities or {}).items():
        if found.slabs.get(pool, 0) > capacity:
            raise PlanError(
                f"slab of {found.slabs[pool]} bytes in pool {pool!r} exceeds its {capacity}"
            )
    return found


def check_order(graph: Graph, order: Sequence[int]) -> int:
    """Replay an order alone and return its peak memory."""
    step = _check_order(graph, order)
    return _peak(graph, order, step, live_spans(graph, step))


def _peak(graph: Graph, order: Sequence[int], step: list[int], spans: Spans) -> int:
    if graph.on_streams:
        return most_in_conflict(graph, Precedence(graph, order), spans)
    return _replay(graph, step, spans)


def _check_order(graph: Graph, order: Sequence[int]) -> list[int]:
    step: list[int | None] = [None] * len(graph.ops)
    for position, v in enumerate(order):
        if not 0 <= v < len(graph.ops):
            raise PlanError(f"step {position}: there is no op number {v}")
        if step[v] is not None:
            raise PlanError(f"op {graph.ops[v].name!r} runs twice, at steps {step[v]}, {position}")
        for u in graph.predecessors[v]:
            if step[u] is None:
                raise PlanError(
                    f"op {graph.ops[v].name!r} (step {position}) runs before "
                    f"{graph.ops[u].name!r}, which it needs"
                )
        step[v] = position
    steps = [s for s in step if s is not None]
    if len(steps) != len(graph.ops):
        missing = graph.ops[step.index(None)].name
        raise PlanError(f"op {missing!r} is not in the order")
    return steps


def _replay(graph: Graph, step: list[int], spans: Spans) -> int:
    """Largest number of live bytes over the steps, each less what its op writes in place."""
    change = [0] * (max(1, len(graph.ops)) + 1)
    for b, (start, end) in spans.items():
        size = graph.buffers[b].size
        change[start] += size
        change[end] -= size
    spared = bytes_spared(graph, step, spans)
    live = peak = 0
    for at, delta in enumerate(change):
        live += delta
        peak = max(peak, live - spared.get(at, 0))
    return peak


def _as_integer(offset: int) -> int:
    """Return an offset as Python's integer: sums of numpy's could pass their range unseen."""
    try:
        return index(offset)
    except TypeError:
        raise PlanError(f"offset {offset!r} is no integer") from None


def _check_offsets(
    graph: Graph,
    offsets: Sequence[int | None],
    step: list[int],
    spans: Spans,
) -> dict[str, int]:
    """Check the offsets, each in its own pool, and return the slabs."""
    if len(offsets) != len(graph.buffers):
        raise PlanError(f"plan has {len(offsets)} offsets, the graph {len(graph.buffers)} buffers")
    ends: dict[str, list[int]] = {}
    own, roots = shared_spans(graph, offsets, step, spans), graph.roots
    for b, (buffer, offset) in enumerate(zip(graph.buffers, offsets, strict=True)):
        if roots[b] != b:
            root = roots[b]
            if offset != offsets[root]:
                raise PlanError(
                    f"buffer {buffer.name!r} at {offset} is a view of "
                    f"{graph.buffers[root].name!r} at {offsets[root]}"
                )
            continue
        if offset is None:
            if b in spans and buffer.size:
                raise PlanError(f"buffer {buffer.name!r} of {buffer.size} bytes has no offset")
            continue
        if buffer.external:
            raise PlanError(f"buffer {buffer.name!r} lies outside the slab but has offset {offset}")
        _check_place(buffer.name, offset, buffer.alignment, buffer.pin)
        ends.setdefault(buffer.pool, []).append(offset + buffer.size)
    _check_bytes(graph, offsets, own)
    if graph.on_streams:
        _check_streams(graph, offsets, step, own)
    return {pool: max(rows) for pool, rows in ends.items()}


def _check_streams(
    graph: Graph, offsets: Sequence[int | None], step: Sequence[int], spans: Spans
) -> None:
    """Check pool by pool that buffers which share bytes come one before the other."""
    known = Precedence(graph, sorted(range(len(step)), key=step.__getitem__))
    shared: dict[str, dict[int, int]] = {}
    for b, (start, end) in spans.items():
        offset, buffer = offsets[b], graph.buffers[b]
        if offset is not None and start < end and buffer.size:
            shared.setdefault(buffer.pool, {})[b] = offset
    for placed in shared.values():
        check_sharing(graph, known, placed)


def _check_bytes(graph: Graph, offsets: Sequence[int | None], spans: Spans) -> None:
    """Check that buffers share bytes only where they may."""
    buffers = graph.buffers
    extent = _extents(graph, offsets, spans)
    apart = ((a, b) for a, b in graph.keep_apart if buffers[a].pool == buffers[b].pool)
    check_pairs(apart, extent)
    pools: dict[str, list[Rectangle]] = {}
    for b, (low, high, name) in extent.items():
        pools.setdefault(buffers[b].pool, []).append((*spans[b], low, high, name))
    for rows in pools.values():
        check_overlap(rows)


def _extents(graph: Graph, offsets: Sequence[int | None], spans: Spans) -> dict[int, Extent]:
    """Check the groups, and return the bytes of every buffer that is live at some step.

    Each member of a group fills as many bytes as its largest member.
    """
    buffers, names = graph.buffers, [buffer.name for buffer in graph.buffers]
    placed: dict[int, int] = {}
    for b, (start, end) in spans.items():
        offset = offsets[b]
        if offset is not None and buffers[b].size and start < end:
            placed[b] = offset
    size = {b: buffers[b].size for b in placed}
    for group in graph.must_share:
        members = [b for b in group if b in placed]
        check_same_offset(members, placed, names)
        largest = max((size[b] for b in members), default=0)
        size.update(dict.fromkeys(members, largest))
    return {b: (at, at + size[b], names[b]) for b, at in placed.items()}


def _check_place(name: str, offset: int, alignment: int, pin: int | None) -> None:
    if offset < 0:
        raise PlanError(f"buffer {name!r} has the negative offset {offset}")
    if offset % alignment:
        raise PlanError(f"buffer {name!r} at {offset} is not aligned to {alignment}")
    if pin is not None and offset != pin:
        raise PlanError(f"buffer {name!r} at {offset} is pinned to {pin}")


@keywords
def check_packing(
    problem: PackingProblem,
    offsets: Sequence[int] | npt.NDArray[np.int64],
    *,
    slab: int | None = None,
    capacity: int | None = None,
) -> int:
    """Check the offsets of a packing problem and return its slab size.

    Raises
    ------
    PlanError
        On an overlap, a pair that shares bytes, a group that does not share its offset, a missed
        alignment or pin, a wrong or too large slab.
    """
    if len(offsets) != len(problem):
        raise PlanError(f"{len(offsets)} offsets for {len(problem)} buffers")
    place = [_as_integer(x) for x in offsets]
    columns = (problem.start, problem.end, problem.size, problem.alignment, problem.pin)
    found = 0
    # As lists: numpy's integers could pass their range unseen, and take longer one by one.
    rows = zip(problem.names, place, *(column.tolist() for column in columns), strict=True)
    for name, at, start, end, size, alignment, pin in rows:
        _check_place(name, at, alignment, None if pin < 0 else pin)
        if end > start:
            found = max(found, at + size)
    for group in problem.must_share:
        check_same_offset(group, place, problem.names)
    check_overlap([row for row, _ in filled_rectangles(problem, place)])
    if len(problem.keep_apart):
        check_pairs(problem.keep_apart.tolist(), whole_extents(problem, place))
    if slab is not None and slab != found:
        raise PlanError(f"packing claims a slab of {slab} bytes, its offsets give {found}")
    if capacity is not None and found > capacity:
        raise PlanError(f"slab of {found} bytes exceeds the capacity of {capacity}")
    return found
