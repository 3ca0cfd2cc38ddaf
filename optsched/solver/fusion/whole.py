"""Fused nodes, all whole, in the best order known: what a split is compared with.

An order of the search, or of a file, may be far from the best one, and a saving against it would
be that of the order. So orders near to those of splits are tried, too, and a search of limited
work, whose answer does not depend on the speed of the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from optsched.model.fused import FusedGraph
from optsched.model.fusion import merge, whole_split
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.fusion.oracle import Oracle, follow
from optsched.solver.fusion.result import FusionResult, Point
from optsched.solver.fusion.search import measured

LIMITS = Limits(work=50_000)
"""Limit of the search."""
MOST_SEARCHED = 3_000
"""Number of groups up to which this work takes less than a second."""


def least_whole(fused: FusedGraph, near: Iterable[Sequence[Sequence[int]]] = ()) -> Point:
    """Return the whole nodes in the best order known.

    `fused`: the fused graph. `near`: orders of groups, such as those of splits, whose nodes are
    tried in the nearest order.
    """
    split = whole_split(fused)
    orders = dict.fromkeys(tuple(map(tuple, groups)) for groups in near)
    graph = merge(fused, split) if orders else None
    found = [follow(fused, split, groups, graph) for groups in orders]
    if len(split) <= MOST_SEARCHED or not found:
        found.append(Oracle(fused, Clock.of(LIMITS)).solve(split))
    return measured(fused, min(found, key=lambda x: x.peak))


def against_least_whole(result: FusionResult) -> FusionResult:
    """Return a result whose whole nodes have the best order known.

    A split is given up if they then need no more than it does.
    """
    is_large = len(result.whole.groups) > MOST_SEARCHED
    if result.whole.peak <= result.bound or (is_large and result.saved <= 0):
        return result
    least = least_whole(result.fused, [result.best.groups])
    if least.peak >= result.whole.peak:
        return result
    best = result.best if result.best.peak < least.peak else least
    return replace(result, whole=least, best=best)
