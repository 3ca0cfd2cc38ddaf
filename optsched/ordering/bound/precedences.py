"""Precedences that a budget implies.

If op `v` forces more bytes than the budget once `u` has run before it, then `v` runs before `u` in
every order within the budget; and the mirror image for `u` after `v`. Each precedence found becomes
an edge, raises the bytes that other ops force, and may imply more. A cycle, or an op that forces
more than the budget, refutes the budget.

Example: `u` and `v` both rise by 6 bytes, and `u` leaves 5 of them live until the end. Within a
budget of 10 op `v` runs first: after `u` it would need 11.
"""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray, row_counts
from optsched.ordering.context import SearchContext
from optsched.ordering.kernels.cut import Flags, around
from optsched.ordering.kernels.precedences import AFTER, BEFORE, imply_at
from optsched.ordering.problem import OrderingProblem, topological


class BudgetPrecedences:
    """Precedences that hold in every order within a budget.

    `context`: the problem.

    Attributes
    ----------
    problem
        The problem with the precedences as edges.
    added
        Pairs `(first, second)` in the sequence in which they were found: each follows from the
        budget and the pairs before it.
    """

    def __init__(self, context: SearchContext) -> None:
        self.context = context
        self.problem = context.problem
        self.added: list[tuple[int, int]] = []

    def refute(self, budget: int, expected: IntArray, *, near: bool = False) -> bool:
        """Add all precedences that a budget implies; return True if no order is within the budget.

        Ops are looked at in sweeps, until a sweep adds no precedence.

        `budget`: bytes. `expected`: shape `(n,)`: a guess of the bytes that each op forces. Ops
        with most are looked at first. `near`: if True, look only at a few ops that force most. Such
        local precedences often contradict each other, regardless of the size of the graph.
        """
        guess = np.array(expected, np.int64)
        effort = self.context.effort
        # A flow costs about n steps, so large graphs get fewer tries for the same time.
        first = patience = max(effort.patience, effort.patient_work // max(1, self.context.ops))
        evaluations = 2**62
        if near:
            first, patience = effort.local_first, effort.local_patience
            evaluations = effort.local_evaluations
        idle: set[int] = set()
        while True:
            found, misses = len(self.added), 0
            # Ops that force most come first, as they are the likeliest to imply a precedence.
            for v in np.argsort(-guess, kind="stable").tolist():
                if misses > (patience if self.added else first) or not evaluations:
                    break
                if v in idle:
                    continue
                evaluations -= 1
                known = len(self.added)
                guess[v], possible = self.look_at(v, budget)
                if not possible:
                    return True
                if len(self.added) > known:
                    # A new edge may imply more at any op, so all of them are looked at again.
                    misses = 0
                    idle.clear()
                else:
                    misses += 1
                    idle.add(v)
            if len(self.added) == found or not evaluations:
                return False

    def look_at(self, v: int, budget: int) -> tuple[int, bool]:
        """Add the precedences that a budget implies at op `v`.

        Returns the bytes that the op forces, and False if they contradict the budget.
        """
        context = self.context
        context.check_time()
        context.statistics.flows += 1
        context.clock.spend(1)
        # Each test is a flow over n ops, so large graphs get fewer tests, but at least two.
        tests = min(2 * context.ops, max(2, context.effort.test_work // max(1, context.ops)))
        imply = context.pick(imply_at, context.ops**2)
        forced, sides = imply(self.problem, v, budget, tests)
        if forced > budget:
            return int(forced), False
        # Of the ops that must run before `v` only the last ones become edges, as the others follow
        # from them; and of those that must run after it only the first ones.
        before, after = sides == BEFORE, sides == AFTER
        before &= row_counts(self.problem.succ_ptr, before[self.problem.succ]) == 0
        after &= row_counts(self.problem.pred_ptr, after[self.problem.pred]) == 0
        pairs = [(u, v) for u in np.flatnonzero(before).tolist()]
        pairs += [(v, u) for u in np.flatnonzero(after).tolist()]
        if not pairs:
            return int(forced), True
        self.added += pairs
        context.statistics.relations += len(pairs)
        self.problem = with_edges(self.problem, *np.array(pairs, np.int64).T)
        # The new edges may have closed a cycle through `v`, which refutes the budget.
        return int(forced), not context.pick(around)(self.problem, v)[0][v]


def with_edges(problem: OrderingProblem, first: IntArray, second: IntArray) -> OrderingProblem:
    """Return the problem with edges from `first[i]` to `second[i]` added, which must be new."""
    pred_ptr, pred = _with_entries(problem.pred_ptr, problem.pred, second, first)
    succ_ptr, succ = _with_entries(problem.succ_ptr, problem.succ, first, second)
    return problem._replace(pred_ptr=pred_ptr, pred=pred, succ_ptr=succ_ptr, succ=succ)


def _with_entries(
    ptr: IntArray, idx: IntArray, row: IntArray, entry: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the rows with `entry[i]` added at the end of row `row[i]`."""
    more = np.append(0, np.cumsum(np.bincount(row, minlength=len(ptr) - 1)))
    order = np.argsort(row, kind="stable")
    return ptr + more, np.insert(idx, ptr[row[order] + 1], entry[order])


def related(problem: OrderingProblem) -> Flags:
    """Return the transitive closure, shape `(n, n)`: True at `v, u` if `u` always precedes `v`."""
    n = len(problem.delta)
    above = np.zeros((n, n), np.bool_)
    # Predecessors come first in a topological order, so their rows are complete when they are
    # added.
    for v in topological(problem):
        before = problem.pred[problem.pred_ptr[v] : problem.pred_ptr[v + 1]]
        above[v, before] = True
        above[v] |= above[before].any(axis=0)
    return above
