"""Precedences that a budget implies, to a fixpoint.

If op `v` with `u` run before it costs more than the budget, then `v` runs before `u` in every
order within it; and the other way round. Each precedence found raises the bounds of other ops and
may imply more. A cycle, or an op whose own bound passes the budget, refutes the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from optsched.model.arrays import IntArray, Rows, build_rows
from optsched.ordering.context import SearchContext
from optsched.ordering.kernels.precedences import AFTER, BEFORE, Matrix, imply_at
from optsched.ordering.problem import OrderingProblem, make_problem
from optsched.ordering.reduce.cuts import topological

TOO_MANY = 12_000
"""Above this many ops the matrix of relations is too large to work with: a byte for each pair."""

TEST_WORK = 1_000_000
"""Ops, over all flows for one op from which nothing follows, after which no more are made."""

PATIENCE, PATIENT_WORK = 48, 30_000
"""Ops without a new relation after which a sweep ends: `PATIENT_WORK` over the number of ops, but
at least `PATIENCE`."""


def related(problem: OrderingProblem) -> Matrix:
    """Return the transitive closure: `above[v, u]` if `u` runs before `v` in every order."""
    n = len(problem.delta)
    above = np.zeros((n, n), np.bool_)
    for v in topological(problem):
        before = problem.pred[problem.pred_ptr[v] : problem.pred_ptr[v + 1]]
        above[v, before] = True
        above[v] |= above[before].any(axis=0)
    return above


class Relations:
    """Precedences of a problem that every order within a budget keeps.

    Parameters
    ----------
    context
        The problem.
    above
        What is known already; changed in place.
    """

    def __init__(self, context: SearchContext, above: Matrix) -> None:
        self.context = context
        self.above = above
        self.added: list[tuple[int, int]] = []
        self.problem = context.problem

    def add(self, first: int, second: int) -> bool:
        """Add that `first` runs before `second`, and what follows; False if that is a cycle."""
        above = self.above
        if above[first, second]:
            return False
        if not above[second, first]:
            ends = above[:, second].copy()
            ends[second] = True
            starts = above[first].copy()
            starts[first] = True
            above[np.ix_(ends, starts)] = True
            self.added.append((first, second))
        return True

    def strengthened(self) -> OrderingProblem:
        """The problem with the relations as edges."""
        problem = self.context.problem
        if not self.added:
            return problem
        pred = [set(problem.pred[a:b].tolist()) for a, b in _spans(problem.pred_ptr)]
        for first, second in self.added:
            pred[second].add(first)
        user = Rows(problem.user_ptr, problem.user)
        return make_problem(
            build_rows(pred), user, problem.rise, problem.delta, problem.size, problem.savings
        )

    def refute(self, budget: int, expected: Sequence[int] | IntArray) -> bool:
        """Add all that a budget implies; whether no order is within it.

        `expected[v]` is a guess of the bytes that op `v` forces: large ones are looked at first.
        """
        guess = np.asarray(expected, np.int64).copy()
        imply = self.context.pick(imply_at)
        tests = min(2 * self.context.ops, TEST_WORK // max(1, self.context.ops))
        patience = max(PATIENCE, PATIENT_WORK // max(1, self.context.ops))
        idle: set[int] = set()
        while True:
            self.problem = self.strengthened()
            found = len(self.added)
            misses = 0
            for v in np.argsort(-guess, kind="stable").tolist():
                if misses > patience:
                    break
                if v in idle:
                    continue
                self.context.check_time()
                self.context.statistics.flows += 1
                least, forced = imply(self.problem, self.context.base, self.above, v, budget, tests)
                guess[v] = least
                count = len(self.added)
                if least > budget or not self.add_forced(v, forced):
                    return True
                misses = 0 if len(self.added) > count else misses + 1
                if len(self.added) == count:
                    idle.add(v)
                else:
                    idle.clear()
            self.context.statistics.relations += len(self.added) - found
            if len(self.added) == found:
                return False

    def add_forced(self, v: int, forced: np.ndarray) -> bool:
        """Add the relations found at an op; False on a cycle."""
        return all(self.add(u, v) for u in np.flatnonzero(forced == BEFORE).tolist()) and all(
            self.add(v, u) for u in np.flatnonzero(forced == AFTER).tolist()
        )


def _spans(ptr: IntArray) -> list[tuple[int, int]]:
    bounds = ptr.tolist()
    return list(pairwise(bounds))
