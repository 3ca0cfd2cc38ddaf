"""The local buffer on which a search branches: the one whose decision raises the bound most.

Undecided buffers near the peak of the bound's order come first. A few of them are tried: kept and
cut, each by the closure bound (:mod:`optsched.ordering.bound.closure`), which takes much less time
than a search of orders. Among equals the largest buffer is taken.

Example: `t` and `u` are undecided at the peak. No order within the best known peak keeps `t`, while
`u` may stay or be cut. So the search branches on `t`, and one of its two nodes ends at once.
"""

from __future__ import annotations

import numpy as np

from optsched.model.allowances import relaxation
from optsched.model.fused import FusedGraph
from optsched.model.fusion import finest_split, inner_buffers
from optsched.model.liveness import live_ranges, timeline
from optsched.ordering.bound.closure import closure_bound
from optsched.solver.fusion.oracle import Oracle, Solved, following

MOST_TRIED = 16
"""Most buffers whose decisions are tried for one branch."""


def next_buffer(
    oracle: Oracle, solved: Solved, stay: frozenset[int], cut: frozenset[int], peak: int
) -> int | None:
    """Return the buffer to branch on; None if all are decided.

    `oracle`, `solved`: the oracle, and the relaxation that it solved for the decisions so far.
    `stay`, `cut`: local buffers decided to stay inside groups, and to be cut. `peak`: bytes of the
    best split; a larger bound is as good as this.
    """
    found = near_peak(oracle.fused, solved, cut)
    tried = found[:MOST_TRIED]
    if len(tried) < 2:
        return found[0] if found else None
    scores: list[tuple[int, int]] = []
    for b in tried:
        if oracle.clock.expired():
            break
        kept = quick_bound(oracle, solved, stay | {b}, cut, peak, solved.above > 0)
        left = quick_bound(oracle, solved, stay, cut | {b}, peak, solved.above > 0)
        scores.append((min(kept, left), max(kept, left)))
    # `index` finds the first of equal ones.
    return tried[scores.index(max(scores))] if scores else tried[0]


def near_peak(fused: FusedGraph, solved: Solved, cut: frozenset[int]) -> list[int]:
    """Return undecided buffers, those that are live at the peak first, the largest ones first."""
    left = fused.local - cut - inner_buffers(fused, solved.split)
    ranges = live_ranges(solved.graph, solved.order)
    peak = int(np.argmax(timeline(solved.graph, solved.order).running))

    def rank(b: int) -> tuple[int, int, int]:
        buffer = fused.graph.buffers[b]
        start, end = ranges[solved.graph.buffer_ids[buffer.name]]
        return max(0, int(start) - peak, peak - int(end) + 1), -buffer.size, b

    return sorted(left, key=rank)


def quick_bound(
    oracle: Oracle,
    solved: Solved,
    stay: frozenset[int],
    cut: frozenset[int],
    peak: int,
    allowed: bool,
) -> int:
    """Return a bound on the choices that agree with decisions, by flows; the peak if none agree."""
    split = finest_split(oracle.fused, stay)
    if cut & inner_buffers(oracle.fused, split):
        return peak
    graph, above = relaxation(oracle.fused, split, cut, allowed=allowed)
    order = following(graph, split, solved.groups, last=True)
    return min(peak, closure_bound(graph, [order], clock=oracle.clock).value - above)
