"""Linear scan: one sweep over time with a list of free bytes."""

from __future__ import annotations

import numpy as np

from heuristics.packings.common import place_by_start
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem


def linear_scan(problem: PackingProblem) -> IntArray:
    """Walk over the starts, free what has ended, take the lowest free bytes that are enough.

    Equal starts keep their order. What an allocator does at run time that knows nothing of the
    future, except that pins, the fixed intervals of register allocation, are booked ahead.
    O(k h) time with h holes in the list.

    References
    ----------
    M. Poletto, V. Sarkar, "Linear scan register allocation", TOPLAS 21(5), 1999.
    C. Wimmer, H. Moessenboeck, "Optimized interval splitting in a linear scan register
    allocator", VEE 2005: fixed intervals.
    """
    return place_by_start(problem, np.argsort(problem.start, kind="stable"), tightest=False)
