"""Best fit: each buffer into the tightest hole that holds it, in one of several sequences.

Best fit by size is `greedy_by_size`, by breadth `greedy_by_breadth`.
"""

from __future__ import annotations

from heuristics.packings import sequences
from heuristics.packings.common import place_by_start, place_in_turn
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem


def best_fit_area(problem: PackingProblem) -> IntArray:
    """Largest product of size and lifetime first."""
    return place_in_turn(problem, sequences.by_area(problem), tightest=True)


def best_fit_start(problem: PackingProblem) -> IntArray:
    """Earliest start first, larger first among equals: a best-fit allocator at run time."""
    return place_by_start(problem, sequences.by_start(problem), tightest=True)


def best_fit_lifetime(problem: PackingProblem) -> IntArray:
    """Longest lifetime first, larger first among equals."""
    return place_in_turn(problem, sequences.by_lifetime(problem), tightest=True)


def best_fit_conflicts(problem: PackingProblem) -> IntArray:
    """Most buffers met in time first, larger first among equals."""
    return place_in_turn(problem, sequences.by_conflicts(problem), tightest=True)
