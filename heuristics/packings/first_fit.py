"""First fit: each buffer into the lowest hole that holds it, in one of three sequences."""

from __future__ import annotations

import numpy as np

from heuristics.packings.common import place_in_turn
from optsched.arrays import IntArray
from optsched.problem import PackingProblem


def first_fit_size(problem: PackingProblem) -> IntArray:
    """Largest first, longer lifetime first among equals."""
    duration = problem.end - problem.start
    return place_in_turn(problem, np.lexsort((-duration, -problem.size)), tightest=False)


def first_fit_area(problem: PackingProblem) -> IntArray:
    """Largest product of size and lifetime first."""
    # In exact integers: the product may leave 64 bits.
    area = problem.size.astype(object) * (problem.end - problem.start)
    sequence = np.argsort(-area, kind="stable")
    return place_in_turn(problem, sequence, tightest=False)


def first_fit_start(problem: PackingProblem) -> IntArray:
    """Earliest start first, larger first among equals: what a run-time allocator would do."""
    return place_in_turn(problem, np.lexsort((-problem.size, problem.start)), tightest=False)
