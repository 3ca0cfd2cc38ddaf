"""Precedences that a budget implies near the peak, without a matrix of all pairs.

As :mod:`optsched.ordering.bound.precedences` has them, but each is an edge as soon as it
is found: who runs before whom is looked up along edges, for one op at a time. A few ops that
force about as many bytes as the budget often contradict each other, however large the rest is.
"""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray, Rows, transpose
from optsched.ordering.bound.precedences import TEST_WORK
from optsched.ordering.context import SearchContext
from optsched.ordering.kernels.cut import around
from optsched.ordering.kernels.precedences import AFTER, BEFORE, imply_at
from optsched.ordering.problem import OrderingProblem

FIRST_PATIENCE, PATIENCE = 4, 24
"""Ops without a new precedence after which a sweep ends: before there is any, and after that. Where
precedences refute a budget one of the first three ops says so, and in large graphs each takes long.
"""

MOST_LOOKS = 128
"""Looks at ops after which it ends in any case: what takes longer is not near the peak."""


class Nearby:
    """Precedences of a problem that every order within a budget keeps.

    Parameters
    ----------
    context
        The problem.
    """

    def __init__(self, context: SearchContext) -> None:
        self.context = context
        self.problem = context.problem

    def refute(self, budget: int, expected: IntArray) -> bool:
        """Add what a budget implies, op by op; whether no order is within it.

        `expected[v]` is a guess of the bytes that op `v` forces: large ones are looked at first.
        """
        guess = expected.copy()
        idle: set[int] = set()
        looks, patience = 0, FIRST_PATIENCE
        while True:
            found = misses = 0
            for v in np.argsort(-guess, kind="stable").tolist():
                if misses > patience or looks == MOST_LOOKS:
                    break
                if v in idle:
                    continue
                looks += 1
                guess[v], added = self.look_at(v, budget)
                if guess[v] > budget or added < 0:
                    return True
                found += added
                misses = 0 if added else misses + 1
                if added:
                    patience = PATIENCE
                    idle.clear()
                else:
                    idle.add(v)
            self.context.statistics.relations += found
            if not found or looks == MOST_LOOKS:
                return False

    def look_at(self, v: int, budget: int) -> tuple[int, int]:
        """Add what a budget implies at an op; return the bytes that it forces, and how many.

        That is -1 if they make a cycle.
        """
        context = self.context
        context.check_time()
        context.statistics.flows += 1
        tests = min(2 * context.ops, max(2, TEST_WORK // max(1, context.ops)))
        nobody = np.zeros((0, 0), np.bool_)
        least, forced = context.pick(imply_at)(self.problem, context.base, nobody, v, budget, tests)
        before, after = np.flatnonzero(forced == BEFORE), np.flatnonzero(forced == AFTER)
        added = len(before) + len(after)
        if least <= budget and added:
            at = np.full(added, v)
            first = np.concatenate((before, at[len(before) :]))
            second = np.concatenate((at[: len(before)], after))
            self.problem = with_edges(self.problem, first, second)
            if context.pick(around)(self.problem, v)[0][v]:
                return int(least), -1
        return int(least), added


def with_edges(problem: OrderingProblem, first: IntArray, second: IntArray) -> OrderingProblem:
    """The problem with more edges, from `first[i]` to `second[i]`; none may be there already."""
    n = len(problem.delta)
    source = np.concatenate((problem.pred, first))
    target = np.concatenate((np.repeat(np.arange(n), np.diff(problem.pred_ptr)), second))
    ptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(target, minlength=n), out=ptr[1:])
    pred = Rows(ptr, source[np.lexsort((source, target))])
    succ = transpose(pred, n)
    return problem._replace(pred_ptr=pred.ptr, pred=pred.idx, succ_ptr=succ.ptr, succ=succ.idx)
