"""Greedy by size: AITemplate's packing."""

from __future__ import annotations

import numpy as np

from heuristics.packings.common import place_in_turn
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem


def greedy_by_size(problem: PackingProblem) -> IntArray:
    """Place the largest first, each into the smallest hole that holds it.

    Equal sizes keep their order. A hole lies between buffers placed before that overlap in time;
    where none is large enough, the buffer goes above the top of the highest.

    References
    ----------
    Y. Pisarchyk, J. Lee, "Efficient Memory Management for Deep Neural Net Inference",
    arXiv:2001.03288. aitemplate/compiler/transform/memory_planning.py.
    """
    sequence = np.argsort(-problem.size, kind="stable")
    return place_in_turn(problem, sequence, tightest=True)
