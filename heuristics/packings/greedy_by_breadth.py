"""Greedy by breadth: the buffers of the widest op first, by two meanings of an op's breadth."""

from __future__ import annotations

from heuristics.packings import sequences
from heuristics.packings.common import place_in_turn
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem


def greedy_by_breadth(problem: PackingProblem) -> IntArray:
    """Take the ops by the bytes they read and write, most first; place each one's, largest first.

    A buffer goes into the smallest hole that holds it, else above all it meets. Which ops read and
    write a buffer says `problem.uses`; live ranges without a graph are taken as written at their
    first step and read at their last.

    References
    ----------
    PyTorch pull request 64347, torch/csrc/jit/passes/memory_planning/greedy_by_breadth.cpp.
    """
    return place_in_turn(problem, sequences.by_own_breadth(problem), tightest=True)


def greedy_by_profile_breadth(problem: PackingProblem) -> IntArray:
    """Take the ops by bytes live at them, most first; place each one's buffers, largest first.

    A buffer goes into the smallest hole that holds it, else above all it meets. Sorting takes
    O(k log k) time and memory: a buffer's turn comes with the fullest op that it is live at.

    References
    ----------
    Y. Pisarchyk, J. Lee, "Efficient Memory Management for Deep Neural Net Inference",
    arXiv:2001.03288: "greedy by breadth" for offset calculation; an op's profile is all that is
    live at it.
    """
    return place_in_turn(problem, sequences.by_breadth(problem), tightest=True)
