"""Set bounds: of any set of ops one runs last, when all others are done, and one first.

    peak >= min over v in W that may be last of LB(v | all of W but v have ended)
    peak >= min over v in W that may be first of LB(v | all of W but v have not begun)

`W` are the ops that rise by at least `t`, for some thresholds `t`.
"""

from __future__ import annotations

import numpy as np

from optsched.arrays import IntArray
from optsched.ordering.kernels.cut import least_given
from optsched.ordering.kernels.imply import Matrix
from optsched.ordering.problem import Problem

THRESHOLDS = 48
"""Sets that are looked at."""

LARGEST = 400
"""Ops in a set at most."""


def set_bound(problem: Problem, above: Matrix, bound: int) -> int:
    """Return the best set bound, or `bound` if none is above it."""
    heights = np.unique(problem.net.hill[problem.net.hill > 0])[::-1]
    if len(heights) > THRESHOLDS:
        heights = heights[np.linspace(0, len(heights) - 1, THRESHOLDS).astype(np.int64)]
    for height in heights.tolist():
        members = np.flatnonzero(problem.net.hill >= height)
        if len(members) > LARGEST:
            break
        if len(members) > 1:
            for last in (True, False):
                bound = max(bound, least_extreme(problem, above, members, bound, last=last))
    return bound


def least_extreme(
    problem: Problem, above: Matrix, members: IntArray, bound: int, *, last: bool
) -> int:
    """Least bytes that the last (or first) op of a set forces; stops at one that is no news."""
    n = problem.ops
    toward = above if last else above.T
    inside = np.zeros(n, np.bool_)
    inside[members] = True
    evaluate = problem.pick(least_given)
    spot = np.full(n, -1, np.int64)
    least = -1
    for v in members.tolist():
        if (toward[:, v] & inside).any():
            continue
        problem.check_time()
        others = inside.copy()
        others[v] = False
        done = toward[others].any(axis=0) | others | toward[v]
        rest = toward[:, v].copy()
        before, after = (done, rest) if last else (rest, done)
        problem.statistics.flows += 1
        value = int(evaluate(problem.net, problem.base, before, after, v, spot))
        least = value if least < 0 else min(least, value)
        if least <= bound:
            break
    return least
