"""Linear scan: one sweep over time with a set of free regions, as TorchScript's planner has it."""

from __future__ import annotations

import numpy as np

from heuristics.packings.common import scan
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem


def linear_scan(problem: PackingProblem) -> IntArray:
    """Walk over the starts; take the smallest free region that is enough, else grow at the end.

    Equal starts: the earlier end first. What has ended becomes a free region, regions that touch
    become one, and what a buffer leaves of its region stays free. A region at the end of the slab
    is not extended: a buffer that fits nowhere lies above all bytes ever used. An allocator at
    run time that keeps them as they arrive and takes the lowest is `first_fit_arrival`.
    O(k h) time with h regions.

    References
    ----------
    PyTorch pull request 64347, torch/csrc/jit/passes/memory_planning/linear_scan.cpp.
    C. Wimmer, H. Moessenboeck, "Optimized interval splitting in a linear scan register
    allocator", VEE 2005.
    """
    return scan(problem, np.lexsort((problem.end, problem.start)))
