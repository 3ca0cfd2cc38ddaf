"""Hill climbing over the sequences in which first fit places the buffers.

Example: first fit in the sequence a, b, c gives 14 bytes, because `c` ends at 14. Exchanging `c`
with an earlier buffer that overlaps it gives the sequence c, b, a; it is kept if the slab shrinks.
"""

from __future__ import annotations

from random import Random

import numpy as np
import numpy.typing as npt

from heuristics.packings import sequences
from heuristics.packings.common import place_in_turn
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem

ATTEMPTS = 100
PLACEMENTS = 50_000
"""Upper limit of attempts times buffers."""


def hill_climb(problem: PackingProblem) -> IntArray:
    """Improve first fit by size by exchanging buffers in its sequence.

    An attempt exchanges a buffer that ends at the top of the slab with an earlier one that overlaps
    it in time, or one step further. The exchange is kept if the slab does not grow. Attempts and
    placements are limited, so with more than about ten thousand buffers the result is close to that
    of first fit by size.

    References
    ----------
    Apache TVM, Unified Static Memory Planner, `hill_climb`.
    """
    sequence = sequences.by_size(problem)
    attempts = min(ATTEMPTS, PLACEMENTS // max(1, len(problem)))
    offsets = place_in_turn(problem, sequence, tightest=False)
    slab = problem.slab_size(offsets)
    turn = np.empty(len(problem), np.int64)
    turn[sequence] = np.arange(len(problem))
    solid = (problem.size > 0) & (problem.start < problem.end)
    movable = solid & (problem.pin < 0)
    # A fixed seed: a packing is a function of its problem.
    rng = Random(0)
    for _ in range(attempts):
        tops = np.flatnonzero(movable & (offsets + problem.size == slab))
        # The load of the fullest step is reached: nothing can be smaller.
        if slab == problem.max_load or len(tops) == 0:
            break
        i = _any(tops, rng)
        rivals = _earlier(problem, turn, movable, i)
        if len(rivals) and rng.random() < 0.5:
            # One step further: a buffer that overlaps one of the rivals.
            i = _any(rivals, rng)
            rivals = _earlier(problem, turn, movable, i)
        if len(rivals) == 0:
            continue
        j = _any(rivals, rng)
        sequence[turn[i]], sequence[turn[j]] = j, i
        found = place_in_turn(problem, sequence, tightest=False, times=attempts)
        # Equal slabs are kept too, so that the search can drift.
        if problem.slab_size(found) <= slab:
            offsets, slab = found, problem.slab_size(found)
            turn[i], turn[j] = turn[j], turn[i]
        else:
            sequence[turn[i]], sequence[turn[j]] = i, j
    return offsets


def _earlier(
    problem: PackingProblem, turn: IntArray, movable: npt.NDArray[np.bool_], i: int
) -> IntArray:
    """Return the movable buffers placed before `i` that overlap it in time."""
    meets = (problem.start < problem.end[i]) & (problem.end > problem.start[i])
    return np.flatnonzero(meets & movable & (turn < turn[i]))


def _any(buffers: IntArray, rng: Random) -> int:
    # Python guarantees reproducible values only for `Random.random`.
    return int(buffers[int(rng.random() * len(buffers))])
