"""Greedy by breadth: the buffers of the fullest op first."""

from __future__ import annotations

from heuristics.packings import sequences
from heuristics.packings.common import place_in_turn
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem


def greedy_by_breadth(problem: PackingProblem) -> IntArray:
    """Take the ops by bytes live at them, most first; place each one's buffers, largest first.

    A buffer goes into the smallest hole that holds it, else above all it meets. Sorting takes
    O(k log k) time and memory: a buffer's turn comes with the fullest op that it is live at.

    References
    ----------
    Y. Pisarchyk, J. Lee, "Efficient Memory Management for Deep Neural Net Inference",
    arXiv:2001.03288: "greedy by breadth" for offset calculation.
    """
    return place_in_turn(problem, sequences.by_breadth(problem), tightest=True)
