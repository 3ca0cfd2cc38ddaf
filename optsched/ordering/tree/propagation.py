"""Branches of a tree of assumed precedences, each with all that a budget implies there."""

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
    """A branch to look at later: what is known there, `checked` pairs of it at its parent."""

    before: IntArray
    after: IntArray
    valid: IntArray
    checked: int
    pairs: IntArray


class Propagation:
    """Derives what a budget implies in one branch after the other.

    Parameters
    ----------
    context
        The problem, with the precedences that are known in all branches.
    budget
        Live bytes that no order may pass.
    expected
        Live bytes while each op runs in some good order: where to look first.
    blame
        Shape `(n,)`: how often a contradiction came up at an op; added to.
    """

    def __init__(
        self, context: SearchContext, budget: int, expected: IntArray, blame: IntArray
    ) -> None:
        n = context.ops
        self.context, self.budget, self.blame = context, budget, blame
        self.watched = WatchedDownsets(
            np.zeros((n, WATCHED, words(n)), np.int64),
            np.zeros((n, n), np.int64),
            np.full((n, WATCHED), EMPTY),
        )
        self.flow = make_workspace(context.problem)
        self.room = n * n // 2 + 1
        self.order = np.argsort(-expected, kind="stable").astype(np.int64)
        self.choices = np.zeros((context.effort.branch_choices, 3), np.int64)

    def root(self) -> Branch:
        """The branch in which nothing is assumed."""
        above = related(self.context.problem)
        nothing, pairs = np.zeros(self.context.ops, np.int64), np.zeros((0, 2), np.int64)
        return self.resume(OpenBranch(pack(above), pack(above.T), nothing, 0, pairs))

    def add(self, branch: Branch, pairs: Sequence[tuple[int, int]]) -> bool:
        """Add pairs to a branch, and nothing that the budget implies; False if that is a cycle."""
        add = self.context.pick(add_pair, self.context.ops * len(pairs))
        return all(add(branch, first, second) for first, second in pairs)

    def known(self, pairs: IntArray) -> OpenBranch:
        """A branch with these pairs, each of which says more than those before it.

        Raises
        ------
        ValueError
            If one does not, or is a cycle.
        """
        branch = self.root()
        possible = self.add(branch, [(first, second) for first, second in pairs.tolist()])
        if not possible or count_pairs(branch) < len(pairs):
            raise ValueError("pairs that are a cycle, or follow from others")
        # Any downset that is watched may be one of the branch: all are compared with all pairs.
        valid = np.full(self.context.ops, (1 << WATCHED) - 1, np.int64)
        return OpenBranch(branch.before, branch.after, valid, 0, known_pairs(branch))

    def postpone(self, branch: Branch, checked: int) -> OpenBranch:
        """Put a branch off; its watched downsets are compared with the pairs from `checked` again.

        Other branches may overwrite them until then: with such that obey the pairs before that.
        """
        return OpenBranch(branch.before, branch.after, branch.valid, checked, known_pairs(branch))

    def resume(self, node: OpenBranch) -> Branch:
        """Take a branch up again."""
        tally = np.zeros(TALLIES, np.int64)
        tally[PAIRS] = len(node.pairs)
        pairs = np.empty((self.room, 2), np.int64)
        pairs[: len(node.pairs)] = node.pairs
        checked = np.full(self.context.ops, node.checked, np.int64)
        return Branch(
            node.before.copy(), node.after.copy(), node.valid.copy(), checked, pairs, tally
        )

    def forget(self, node: OpenBranch) -> OpenBranch:
        """The same branch where its watched downsets may be those of quite another one by now."""
        there = (self.watched.live != EMPTY) @ (np.int64(1) << np.arange(WATCHED))
        return replace(node, valid=node.valid & there, checked=0)

    def assume(self, branch: Branch, first: int, second: int) -> Branch | None:
        """A copy of a branch with one pair more; None if that is a cycle."""
        self.context.check_time()
        self.context.statistics.branches += 1
        way = self.resume(self.postpone(branch, count_pairs(branch)))
        return way if self.context.pick(add_pair)(way, first, second) else None

    def refutes(self, branch: Branch) -> bool:
        """Derive all that follows in a branch; whether it contradicts itself."""
        return self._propagate(branch, 0) < 0

    def choose(self, branch: Branch, critical: int) -> list[tuple[int, int]]:
        """Pairs to branch on, the best first, where all that follows is known.

        Looked for at the ops with the least slack and those most to blame, `critical` of each. None
        if all ops are in order.
        """
        count = self._propagate(branch, critical)
        return [(u, v) for _, v, u in self.choices[:count].tolist()]

    def _propagate(self, branch: Branch, critical: int) -> int:
        context = self.context
        count = context.pick(propagate, context.ops**2)(
            context.problem, self.budget, branch, self.watched, self.flow,
            self.order, self.blame, critical, self.choices,
        )  # fmt: skip
        flows = int(branch.tally[FLOWS])
        branch.tally[FLOWS] = 0
        context.statistics.flows += flows
        context.clock.spend(flows)
        return int(count)

    def strengthened(self, branch: Branch) -> OrderingProblem:
        """The problem with all precedences of a branch, those that follow from others included."""
        problem = self.context.problem
        above = unpack(branch.before, self.context.ops)
        pred = Rows(np.append(0, np.cumsum(above.sum(axis=1))), np.nonzero(above)[1])
        user = Rows(problem.user_ptr, problem.user)
        return make_problem(
            pred, user, problem.rise, problem.delta, problem.size, problem.savings, problem.base
        )


def count_pairs(branch: Branch) -> int:
    """Pairs that were assumed or derived in a branch."""
    return int(branch.tally[PAIRS])


def known_pairs(branch: Branch, start: int = 0) -> IntArray:
    """The pairs that were assumed or derived in a branch, from one on; shape `(pairs, 2)`."""
    return branch.pairs[start : count_pairs(branch)].copy()
