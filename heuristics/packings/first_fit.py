"""First fit: each buffer into the lowest hole that holds it, in one of several sequences.

What a placement costs is said in `heuristics.kernels`: all are quasi-linear on traces of models,
and quadratic at worst; memory is O(k log k).
"""

from __future__ import annotations

from heuristics.packings import sequences
from heuristics.packings.common import place_by_start, place_in_turn
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem


def first_fit_size(problem: PackingProblem) -> IntArray:
    """Largest first, longer lifetime first among equals."""
    return place_in_turn(problem, sequences.by_size(problem), tightest=False)


def first_fit_area(problem: PackingProblem) -> IntArray:
    """Largest product of size and lifetime first."""
    return place_in_turn(problem, sequences.by_area(problem), tightest=False)


def first_fit_start(problem: PackingProblem) -> IntArray:
    """Earliest start first, larger first among equals."""
    return place_by_start(problem, sequences.by_start(problem), tightest=False)


def first_fit_lifetime(problem: PackingProblem) -> IntArray:
    """Longest lifetime first, larger first among equals."""
    return place_in_turn(problem, sequences.by_lifetime(problem), tightest=False)


def first_fit_conflicts(problem: PackingProblem) -> IntArray:
    """Most buffers met in time first, larger first among equals.

    References
    ----------
    Apache TVM, Unified Static Memory Planner, `greedy_by_conflicts`.
    """
    return place_in_turn(problem, sequences.by_conflicts(problem), tightest=False)


def first_fit_breadth(problem: PackingProblem) -> IntArray:
    """In the sequence of `greedy_by_breadth`."""
    return place_in_turn(problem, sequences.by_breadth(problem), tightest=False)
