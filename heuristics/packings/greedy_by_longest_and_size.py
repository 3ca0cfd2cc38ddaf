"""Greedy by longest and size: TorchScript's packing with the longest-lived buffers first."""

from __future__ import annotations

import numpy as np

from heuristics.packings.common import place_in_turn
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem


def greedy_by_longest_and_size(problem: PackingProblem) -> IntArray:
    """Place the longest-lived first, the larger among equals, each into the smallest hole.

    What is equal in both too: the earlier start first. Where no hole is large enough, the buffer
    goes above the top of the highest that it meets.

    References
    ----------
    PyTorch pull request 64347, torch/csrc/jit/passes/memory_planning/greedy_by_size.cpp.
    """
    sequence = np.lexsort((problem.start, -problem.size, problem.start - problem.end))
    return place_in_turn(problem, sequence, tightest=True)
