"""Skyline packing: the best-fit heuristic of strip packing, with live ranges as abscissae."""

from __future__ import annotations

import numpy as np

from heuristics.kernels.skyline import run_skyline
from heuristics.packings.common import is_plain, place_in_turn, sections_of
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem


def skyline(problem: PackingProblem) -> IntArray:
    """Fill the lowest gap with the longest-lived buffer that fits; ties go to the larger buffer.

    If no remaining buffer fits in the gap, the gap is filled up to the lower one of its sides. If
    there are pins, pairs or limits, buffers are placed by first fit in the sequence of these
    offsets. If sizes exceed 64-bit arithmetic, first fit by descending lifetime is used. O(k log^2
    k) time, O(k log k) memory.

    References
    ----------
    E. Burke, G. Kendall, G. Whitwell, "A new placement heuristic for the orthogonal stock-cutting
    problem", Operations Research 52(4), 2004. M. Sekiyama, T. Imai, Y. Negishi, "Profile-guided
    memory optimization for deep neural networks", arXiv:1804.10001: the same for buffers, whose
    abscissae are fixed.
    """
    solid = np.flatnonzero((problem.size > 0) & (problem.start < problem.end))
    duration = problem.end[solid] - problem.start[solid]
    wanted = solid[np.lexsort((-problem.size[solid], -duration))]
    # Offsets beyond 64 bits: first fit in Python integers takes over.
    if not problem.is_in_range:
        everyone = np.argsort(problem.start - problem.end, kind="stable")
        return place_in_turn(problem, everyone, tightest=False)
    starts, first, last = sections_of(problem)
    offsets = np.zeros(len(problem), np.int64)
    by_start = np.argsort(first[wanted], kind="stable")
    begun = np.searchsorted(first[wanted][by_start], np.arange(len(starts) + 1))
    offsets[wanted] = run_skyline.for_work(len(wanted) * len(wanted).bit_length())(
        by_start,
        begun,
        first[wanted],
        last[wanted],
        problem.size[wanted],
        problem.alignment[wanted],
    )
    if is_plain(problem):
        return offsets
    # The kernel's offsets still give a good sequence for first fit.
    return place_in_turn(problem, np.argsort(offsets, kind="stable"), tightest=False)
