"""Branches of a tree of assumed precedences, each with all precedences that the budget implies.

A branch is a set of pairs "`u` runs before `v`": some assumed, the others derived from them and the
budget. Deriving is done by a kernel (:mod:`optsched.ordering.tree.kernels.propagate`), which works
on one branch at a time. A branch for later is stored as an :class:`OpenBranch`.

Example: the root knows the edges of the graph. Assuming `a` before `b` gives a branch in which the
budget may imply `c` before `b`, and then `c` before `d`; if a cycle follows, no order within the
budget runs `a` before `b`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optsched.model.arrays import IntArray, Rows
from optsched.ordering.bound.precedences import related
from optsched.ordering.context import SearchContext
from optsched.ordering.kernels.bits import pack, unpack, words
from optsched.ordering.problem import OrderingProblem, make_problem
from optsched.ordering.tree.kernels.downsets import (
    EMPTY,
    FLOWS,
    PAIRS,
    TALLIES,
    WATCHED,
    Branch,
    WatchedDownsets,
)
from optsched.ordering.tree.kernels.propagate import add_pair, propagate
from optsched.ordering.tree.kernels.workspace import make_workspace


@dataclass(frozen=True, slots=True)
class OpenBranch:
    """A branch to look at later: its pairs, the first `checked` of them known at its parent."""

    before: IntArray
    after: IntArray
    valid: IntArray
    checked: int
    pairs: IntArray


class Propagation:
    """Derivation of the precedences that a budget implies, in one branch after another.

    `context`: the problem, with the precedences that hold in all branches. `budget`: limit on live
    bytes. `expected`: shape `(n,)`: live bytes while each op runs in some good order; ops with most
    come first. `failures`: shape `(n,)`: failure counts, the number of contradictions found at each
    op; added to.
    """

    def __init__(
        self, context: SearchContext, budget: int, expected: IntArray, failures: IntArray
    ) -> None:
        n = context.ops
        self.context, self.budget, self.failures = context, budget, failures
        self.watched = WatchedDownsets(
            np.zeros((n, WATCHED, words(n)), np.int64),
            np.zeros((n, n), np.int64),
            np.full((n, WATCHED), EMPTY),
        )
        self.flow = make_workspace(context.problem)
        # At most one pair for each two ops, in one of both sequences.
        self.room = n * n // 2 + 1
        self.order = np.argsort(-expected, kind="stable").astype(np.int64)
        self.choices = np.zeros((context.effort.branch_choices, 3), np.int64)

    def root(self) -> Branch:
        """Return the branch without assumptions."""
        above = related(self.context.problem)
        nothing, pairs = np.zeros(self.context.ops, np.int64), np.zeros((0, 2), np.int64)
        return self.resume(OpenBranch(pack(above), pack(above.T), nothing, 0, pairs))

    def add(self, branch: Branch, pairs: Sequence[tuple[int, int]]) -> bool:
        """Add pairs to a branch without deriving anything; return False if they form a cycle."""
        add = self.context.pick(add_pair, self.context.ops * len(pairs))
        return all(add(branch, first, second) for first, second in pairs)

    def known(self, pairs: IntArray) -> OpenBranch:
        """Return a branch with the given pairs; no pair may follow from those before it.

        Raise `ValueError` if a pair follows from the others, or closes a cycle.
        """
        branch = self.root()
        possible = self.add(branch, [(first, second) for first, second in pairs.tolist()])
        if not possible or count_pairs(branch) < len(pairs):
            raise ValueError("pairs that form a cycle, or follow from others")
        # Any watched downset may be valid in this branch, so all are compared with all pairs.
        valid = np.full(self.context.ops, (1 << WATCHED) - 1, np.int64)
        return OpenBranch(branch.before, branch.after, valid, 0, known_pairs(branch))

    def postpone(self, branch: Branch, checked: int) -> OpenBranch:
        """Store a branch for later.

        Other branches may replace its watched downsets in the meantime, by ones that obey the first
        `checked` pairs. So they will be compared with the pairs from `checked` on again.
        """
        return OpenBranch(branch.before, branch.after, branch.valid, checked, known_pairs(branch))

    def resume(self, node: OpenBranch) -> Branch:
        """Return a stored branch as one to work on."""
        tally = np.zeros(TALLIES, np.int64)
        tally[PAIRS] = len(node.pairs)
        pairs = np.empty((self.room, 2), np.int64)
        pairs[: len(node.pairs)] = node.pairs
        checked = np.full(self.context.ops, node.checked, np.int64)
        return Branch(
            node.before.copy(), node.after.copy(), node.valid.copy(), checked, pairs, tally
        )

    def forget(self, node: OpenBranch) -> OpenBranch:
        """Return a branch whose watched downsets will all be compared with all pairs again.

        Needed if they may come from a branch of another part of the tree.
        """
        there = (self.watched.live != EMPTY) @ (np.int64(1) << np.arange(WATCHED))
        return replace(node, valid=node.valid & there, checked=0)

    def assume(self, branch: Branch, first: int, second: int) -> Branch | None:
        """Return a copy of a branch with one more pair; None if that closes a cycle."""
        self.context.check_time()
        self.context.statistics.branches += 1
        way = self.resume(self.postpone(branch, count_pairs(branch)))
        return way if self.context.pick(add_pair)(way, first, second) else None

    def refutes(self, branch: Branch) -> bool:
        """Derive all pairs that follow in a branch; return True if they are contradictory."""
        return self._propagate(branch, 0) < 0

    def choose(self, branch: Branch, critical: int) -> list[tuple[int, int]]:
        """Return pairs to branch on, the best first; empty if all ops are ordered.

        All pairs that follow must have been derived. The pairs are looked for at the ops with the
        least slack and at those with the highest failure counts, `critical` of each.
        """
        count = self._propagate(branch, critical)
        return [(u, v) for _, v, u in self.choices[:count].tolist()]

    def _propagate(self, branch: Branch, critical: int) -> int:
        context = self.context
        count = context.pick(propagate, context.ops**2)(
            context.problem, self.budget, branch, self.watched, self.flow,
            self.order, self.failures, critical, self.choices,
        )  # fmt: skip
        flows = int(branch.tally[FLOWS])
        branch.tally[FLOWS] = 0
        context.statistics.flows += flows
        context.clock.spend(flows)
        return int(count)

    def strengthened(self, branch: Branch) -> OrderingProblem:
        """Return the problem with all precedences of a branch as edges."""
        problem = self.context.problem
        above = unpack(branch.before, self.context.ops)
        pred = Rows(np.append(0, np.cumsum(above.sum(axis=1))), np.nonzero(above)[1])
        user = Rows(problem.user_ptr, problem.user)
        return make_problem(
            pred, user, problem.rise, problem.delta, problem.size, problem.savings, problem.base
        )


def count_pairs(branch: Branch) -> int:
    """Return the number of pairs that were assumed or derived in a branch."""
    return int(branch.tally[PAIRS])


def known_pairs(branch: Branch, start: int = 0) -> IntArray:
    """Return the pairs assumed or derived in a branch, from number `start`; shape `(pairs, 2)`."""
    return branch.pairs[start : count_pairs(branch)].copy()
