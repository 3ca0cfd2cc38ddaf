"""Sequences in which buffers are placed; remaining ties go to the lower number.

Example: sizes 4, 8, 4 with lifetimes 3, 1, 5. By size: buffers 1, 2, 0; by lifetime: 2, 0, 1; by
area (12, 8, 20): 2, 0, 1.
"""

from __future__ import annotations

import numpy as np

from heuristics.packings.common import sections_of
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem


def by_size(problem: PackingProblem) -> IntArray:
    """Sort by descending size, then by descending lifetime."""
    return np.lexsort((problem.start - problem.end, -problem.size))


def by_area(problem: PackingProblem) -> IntArray:
    """Sort by descending product of size and lifetime."""
    duration = problem.end - problem.start
    most = int(problem.size.max(initial=0)) * int(duration.max(initial=0))
    # The product may exceed 64 bits; Python integers are exact.
    size = problem.size if most < 2**63 else problem.size.astype(object)
    return np.argsort(-(size * duration), kind="stable")


def by_start(problem: PackingProblem) -> IntArray:
    """Sort by ascending start, then by descending size."""
    return np.lexsort((-problem.size, problem.start))


def by_arrival(problem: PackingProblem) -> IntArray:
    """Sort by ascending start, then in listing order."""
    return np.argsort(problem.start, kind="stable")


def by_lifetime(problem: PackingProblem) -> IntArray:
    """Sort by descending lifetime, then by descending size."""
    return np.lexsort((-problem.size, problem.start - problem.end))


def by_conflicts(problem: PackingProblem) -> IntArray:
    """Sort by descending number of buffers that overlap in time, then by descending size."""
    return np.lexsort((-problem.size, -conflicts(problem)))


def by_breadth(problem: PackingProblem) -> IntArray:
    """Sort by steps: buffers of the step with the most live bytes first, and so on.

    Buffers of the same step are sorted by descending size; steps with equal live bytes by time.
    """
    starts, first, last = sections_of(problem)
    load = np.zeros(len(starts) + 1, np.int64)
    np.add.at(load, first, problem.size)
    np.subtract.at(load, last, problem.size)
    # Stable, so that of steps with equal load the earlier one comes first.
    heaviest = np.argsort(-np.cumsum(load)[:-1], kind="stable")
    rank = np.empty(len(starts), np.int64)
    rank[heaviest] = np.arange(len(starts))
    return np.lexsort((-problem.size, _least(rank, first, last)))


def by_own_breadth(problem: PackingProblem) -> IntArray:
    """Sort by ops: buffers of the op that reads and writes the most bytes first, and so on.

    Buffers of the same op are sorted by descending size, then by ascending start, then by ascending
    end; ops with equal bytes by time. Buffers that no op uses come last.
    """
    owners, steps = problem.use_entries()
    known, place = np.unique(steps, return_inverse=True)
    breadth = np.zeros(len(known), np.int64)
    np.add.at(breadth, place, problem.size[owners])
    rank = np.empty(len(known), np.int64)
    rank[np.argsort(-breadth, kind="stable")] = np.arange(len(known))
    turn = np.full(len(problem), len(known), np.int64)
    np.minimum.at(turn, owners, rank[place])
    return np.lexsort((problem.end, problem.start, -problem.size, turn))


def conflicts(problem: PackingProblem) -> IntArray:
    """Return the number of buffers that each one overlaps in time, itself included.

    The number is 0 for a buffer that is never live.
    """
    live = problem.start < problem.end
    # Overlaps are all that have begun by its end, less those that ended by its start.
    begun = np.searchsorted(np.sort(problem.start[live]), problem.end)
    ended = np.searchsorted(np.sort(problem.end[live]), problem.start, side="right")
    return np.where(live, begun - ended, 0)


def _least(values: IntArray, first: IntArray, last: IntArray) -> IntArray:
    """Return `min(values[first:last])` for each range; for an empty range, a larger number.

    Tables of the minima over all windows of 1, 2, 4, ... values answer each range by two lookups.
    """
    least = np.full(len(first), len(values), np.int64)
    length, width = last - first, 1
    while len(values) > 0:
        ours = (width <= length) & (length < 2 * width)
        least[ours] = np.minimum(values[first[ours]], values[last[ours] - width])
        kept = max(0, len(values) - width)
        values = np.minimum(values[:kept], values[width : width + kept])
        width *= 2
    return least
