"""Is there an order within a budget? A tree of assumed precedences, each with all it implies.

At an op with little slack the two orders of some pair are both dear: assume one, derive what the
budget then implies, and the other where that fails. A branch ends when it contradicts itself, or
when a short search of the states left settles it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from optsched.arrays import IntArray, Rows
from optsched.ordering.cuts import topological
from optsched.ordering.kernels.bits import has_bit, pack, unpack, words
from optsched.ordering.kernels.imply import Matrix
from optsched.ordering.kernels.refine import (
    COUNTS,
    FILL,
    FLOWS,
    SUPPORTS,
    Branch,
    Supports,
    add_pair,
    reduce_rows,
    refine,
    weigh,
)
from optsched.ordering.kernels.release import make_desk
from optsched.ordering.model import Net, make_net
from optsched.ordering.problem import Problem

MOST_OPS = 400
"""Problems of more ops are not split: every open branch keeps a matrix of all pairs."""

TOPS, CHOICES = 4, 16
"""Ops with the least slack, and as many most to blame, at which pairs to split on are looked for;
pairs that are tried."""

FIRST_PATIENCE, PATIENCE_PART = 32, 4
"""Branches taken up before the tree begins again; by which part of itself that grows each time."""

SEARCH_EVERY = 8
"""At one in so many open branches the states left are searched."""

OnOpen = Callable[[Problem], "list[int] | bool"]
"""Searches the states of a branch: an order within the budget, or whether there is none."""


@dataclass(frozen=True, slots=True)
class _Open:
    """A branch to look at: what is known there, `fill` pairs of it at its parent."""

    before: IntArray
    after: IntArray
    valid: IntArray
    fill: int
    pairs: IntArray


class Splitter:
    """The tree for one budget; can be left and taken up again.

    Parameters
    ----------
    problem
        The problem.
    above
        Which ops run before which in every order within the budget.
    budget
        Live bytes that no order may pass.
    expected
        Live bytes while each op runs in some good order: where to look first.
    """

    def __init__(self, problem: Problem, above: Matrix, budget: int, expected: IntArray) -> None:
        n = problem.ops
        self.problem = problem
        self.budget = budget
        self.supports = Supports(
            np.zeros((n, SUPPORTS, words(n)), np.int64), np.zeros((n, SUPPORTS), np.int64)
        )
        self.desk = make_desk(problem.net)
        self.pair = np.zeros((n * n // 2 + 1, 2), np.int64)
        self.order = np.argsort(-expected, kind="stable").astype(np.int64)
        self.blame = np.zeros(n, np.int64)
        self.choice = np.zeros((CHOICES, 3), np.int64)
        self.opened = 0
        self.patience = self.left = FIRST_PATIENCE
        nothing = np.zeros(n, np.int64)
        root = _Open(pack(above), pack(above.T), nothing, 0, self.pair[:0].copy())
        first = self.enter(root)
        self.stack = [] if self.refuted(first) else [self.leave(first, 0)]
        self.root = self.stack[:]
        problem.statistics.relations += len(self.root[0].pairs) if self.root else 0

    def known(self) -> tuple[Matrix, Net]:
        """Who runs before whom in every order within the budget, and the net with that."""
        root = self.enter(self.root[0])
        return unpack(root.before, self.problem.ops), self.strengthened(root)

    def run(self, nodes: int, on_open: OnOpen) -> list[int] | bool:
        """Look at `nodes` branches or a few more; return an order, or whether there is none."""
        enough = self.problem.statistics.branches + nodes
        while self.stack and self.problem.statistics.branches < enough:
            self.left -= 1
            if len(self.stack) == 1:
                # All that was put off before it is refuted: whatever holds there holds.
                self.root = self.stack[:]
            elif self.left <= 0:
                self.restart()
            branch = self.enter(self.stack.pop())
            if self.refuted(branch):
                continue
            self.opened += 1
            if self.opened % SEARCH_EVERY == 0:
                answer = on_open(replace(self.problem, net=self.strengthened(branch)))
                if answer is True:
                    continue
                if answer:
                    return answer
            order = self.split(branch)
            if order:
                return order
        return not self.stack

    def restart(self) -> None:
        """Begin again where the last choices that proved wrong did not matter.

        The tree may have gone into alternatives that have no part in what contradicts itself
        below them; the ops that were blamed for it come first from now on.
        """
        self.patience += self.patience // PATIENCE_PART + 1
        self.left = self.patience
        self.stack = self.root[:]
        self.blame //= 2

    def split(self, branch: Branch) -> list[int]:
        """Put off both orders of some pair, unless one contradicts itself; an order if all is set.

        Of the pairs that cost most, it is the one from which most follows both ways.
        """
        best, chosen = -1, (branch, branch)
        problem = self.problem
        count = problem.pick(weigh)(
            problem.net,
            problem.base,
            self.budget,
            branch,
            self.supports,
            self.desk,
            self.blame,
            TOPS,
            self.choice,
        )
        if count == 0:
            return topological(self.strengthened(branch))
        fill = int(branch.tally[FILL])
        for _, v, u in self.choice[:count].tolist():
            if has_bit(branch.before[u], v) or has_bit(branch.after[u], v):
                continue
            ways = [way for pair in ((u, v), (v, u)) if (way := self.assume(branch, fill, pair))]
            if not ways:
                return []
            if len(ways) == 1:
                branch = self.enter(self.leave(ways[0], fill))
                if self.refuted(branch):
                    return []
                best, chosen = -1, (branch, branch)
                fill = int(branch.tally[FILL])
                continue
            gains = [int(way.tally[FILL]) - fill for way in ways]
            if gains[0] * gains[1] > best:
                best = gains[0] * gains[1]
                # The way from which less follows comes up first: an order may be there.
                chosen = (ways[0], ways[1]) if gains[0] >= gains[1] else (ways[1], ways[0])
        if best < 0:
            self.stack.append(self.leave(branch, fill))
        else:
            self.stack += [self.leave(way, fill) for way in chosen]
        return []

    def assume(self, branch: Branch, fill: int, pair: tuple[int, int]) -> Branch | None:
        """The branch with a pair and all that follows from it; None if that is a contradiction."""
        way = self.enter(self.leave(branch, fill))
        self.problem.check_time()
        self.problem.statistics.branches += 1
        if not self.problem.pick(add_pair)(way, *pair) or self.refuted(way):
            return None
        return way

    def refuted(self, branch: Branch) -> bool:
        """Derive all that follows; whether the branch contradicts itself."""
        problem = self.problem
        look = problem.pick(refine)
        refuted = look(
            problem.net, problem.base, self.budget, branch, self.supports, self.desk, self.order,
            self.blame,
        )  # fmt: skip
        problem.statistics.flows += int(branch.tally[FLOWS])
        branch.tally[FLOWS] = 0
        return bool(refuted)

    def leave(self, branch: Branch, fill: int) -> _Open:
        """Put a branch off; its supports will be held against the pairs from `fill` on again.

        Other branches may overwrite them until then: with such that obey the pairs before `fill`.
        """
        pairs = branch.pair[: int(branch.tally[FILL])].copy()
        return _Open(branch.before, branch.after, branch.valid, fill, pairs)

    def enter(self, node: _Open) -> Branch:
        """Take a branch up again."""
        count = np.zeros(COUNTS, np.int64)
        count[FILL] = len(node.pairs)
        pair = np.empty_like(self.pair)
        pair[: len(node.pairs)] = node.pairs
        seen = np.full(self.problem.ops, node.fill, np.int64)
        return Branch(node.before.copy(), node.after.copy(), node.valid.copy(), seen, pair, count)

    def strengthened(self, branch: Branch) -> Net:
        """The net with all precedences of a branch."""
        net = self.problem.net
        pred = Rows(*self.problem.pick(reduce_rows)(branch.before))
        user = Rows(net.user_ptr, net.user)
        return make_net(pred, user, net.hill, net.net, net.size, net.ways)
