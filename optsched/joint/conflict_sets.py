"""Sets of items that no packing fits: why an order does not pack into a capacity.

Let an order not pack. The exact packing search finds a range of steps that alone does not, and
items are left out of it one by one, as long as it is proved that the rest does not pack. The rest
is a *conflict set*: the pairs of its items that overlap in time, or are kept apart, refute the
order. Any order in which all of these pairs overlap does not pack either: a packing of that
order would, restricted to the set, keep every one of the pairs apart, and so be a packing of the
set, but the set has no packing.

Example: the capacity is 4, and `x`, `y`, `z` of 2 bytes each are live together. The set is `x`,
`y`, `z` with all three pairs; every order below 4 bytes must release one of them before another
one is allocated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from optsched.joint.oracle import GiveUpError, PackingOracle, clip
from optsched.model.packing_problem import PackingProblem
from optsched.model.selection import select

Pairs = frozenset[tuple[int, int]]
"""Pairs of buffers, by position in the packing problem, that overlap in time."""


def conflict_sets(problem: PackingProblem, capacity: int, oracle: PackingOracle) -> Iterator[Pairs]:
    """Yield sets of pairs, each a reason why the order of a problem does not pack.

    The ranges of steps from which they are taken do not overlap.

    `problem`: live ranges of one order, of one pool and without groups; no packing is within
    `capacity`. `capacity`: bytes of the slab. `oracle`: decides packings, each within a short
    limit.
    """
    low, last = 0, int(problem.end.max())
    while low < last:
        part = clip(problem, low, last)
        try:
            # The first stretch is known not to pack; the rest of the steps may.
            if low and oracle.within(part, capacity) is not None:
                return
            first, end = oracle.stretch(part, capacity)
        except GiveUpError:
            if low:
                return
            # No stretch was found in time: the whole range is a valid reason, if a weak one.
            first, end = low, last
        first = max(first, low)
        part = clip(problem, first, end)
        yield overlapping(part, _smallest(part, capacity, oracle))
        low = end


def overlapping(problem: PackingProblem, rows: Sequence[int]) -> Pairs:
    """Return the pairs of some buffers that overlap in time."""
    start, end = problem.start, problem.end
    return frozenset(
        (i, j)
        for at, j in enumerate(rows)
        for i in rows[:at]
        if start[i] < end[j] and start[j] < end[i]
    )


def _smallest(problem: PackingProblem, capacity: int, oracle: PackingOracle) -> list[int]:
    """Return buffers without which the rest would pack, small ones left out first."""
    # Buffers without bytes refute nothing.
    live = np.flatnonzero((problem.end > problem.start) & (problem.size > 0))
    kept: list[int] = sorted(live.tolist(), key=lambda i: int(problem.size[i]))
    # Quarters first, then halves of these, down to single buffers, as in delta debugging.
    step = max(1, len(kept) // 4)
    while step:
        at = 0
        while at < len(kept):
            rest = kept[:at] + kept[at + step :]
            if rest and _refuted(select(problem, np.array(rest)), capacity, oracle):
                kept = rest
            else:
                at += step
        step //= 2
    return sorted(kept)


def _refuted(problem: PackingProblem, capacity: int, oracle: PackingOracle) -> bool:
    try:
        return oracle.within(problem, capacity) is None
    except GiveUpError:
        return False
