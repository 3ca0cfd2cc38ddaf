"""Is there an order within a budget? A tree of assumed precedences, each with all it implies.

At an op with little slack the two orders of some pair are both dear: assume one, derive what the
budget then implies, and the other where that fails. A branch ends when it contradicts itself, or
when a short search of the states left settles it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np

from optsched.model.arrays import IntArray, Rows
from optsched.ordering.context import SearchContext
from optsched.ordering.kernels.bits import has_bit, pack, words
from optsched.ordering.kernels.cut import Flags
from optsched.ordering.problem import OrderingProblem, make_problem
from optsched.ordering.reduce.cuts import topological
from optsched.ordering.tree.kernels.downsets import (
    COUNTS,
    FILL,
    FLOWS,
    SUPPORTS,
    UNKNOWN,
    Branch,
    Supports,
)
from optsched.ordering.tree.kernels.propagate import add_pair, reduce_rows, refine
from optsched.ordering.tree.kernels.workspace import make_desk

MOST_OPS = 400
"""Problems of more ops are not split: every open branch keeps a matrix of all pairs."""

TOPS, CHOICES = 2, 16
"""Ops with the least slack, and as many most to blame, at which pairs to split on are looked for;
pairs that are tried."""

PATIENCE = 32
"""Branches of a part that are taken up before it is divided."""

SEARCH_EVERY = 8
"""At one in so many open branches the states left are searched."""

OnOpen = Callable[[SearchContext], "list[int] | bool"]
"""Searches the states of a branch: an order within the budget, or whether there is none."""


@dataclass(frozen=True, slots=True)
class _Open:
    """A branch to look at: what is known there, `fill` pairs of it at its parent."""

    before: IntArray
    after: IntArray
    valid: IntArray
    fill: int
    pairs: IntArray


class Parts:
    """Parts of a tree that are not refuted yet; workers take one at a time."""

    def __init__(self, parts: Sequence[_Open]) -> None:
        self.waiting = list(parts)
        self.left = len(parts)
        self.wanted = self.shared = False
        self.lock = Lock()

    def take(self) -> _Open | None:
        """A part that nobody is at; if there is none, whoever is at one will be asked for some."""
        with self.lock:
            self.wanted = not self.waiting
            return self.waiting.pop() if self.waiting else None

    def put_back(self, parts: Sequence[_Open]) -> None:
        """Put parts in the place of one that was taken: none if that is refuted."""
        with self.lock:
            self.waiting += parts
            self.left += len(parts) - 1


class Splitter:
    """The tree for one budget; can be left and taken up again.

    A part of it that is not refuted soon is begun anew, with both orders of one pair as its parts:
    it may have gone into alternatives that have nothing to do with what contradicts itself below
    them, and the ops that were blamed for that come first from now on.

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
    blame
        Shape `(n,)`: how often a contradiction came up at an op; added to. What other trees of the
        problem have met is of use here, whatever their budgets: they may share it.
    parts
        Those of another worker's tree for the same, to share them.
    """

    def __init__(
        self,
        problem: SearchContext,
        above: Flags,
        budget: int,
        expected: IntArray,
        blame: IntArray,
        parts: Parts | None = None,
    ) -> None:
        n = problem.ops
        self.problem = problem
        self.budget = budget
        self.supports = Supports(
            np.zeros((n, SUPPORTS, words(n)), np.int64),
            np.zeros((n, n), np.int64),
            np.full((n, SUPPORTS), UNKNOWN),
        )
        self.desk = make_desk(problem.problem)
        self.pair = np.zeros((n * n // 2 + 1, 2), np.int64)
        self.expected = expected
        self.order = np.argsort(-expected, kind="stable").astype(np.int64)
        self.blame = blame
        self.choice = np.zeros((CHOICES, 3), np.int64)
        self.opened = self.left = 0
        self.stack: list[_Open] = []
        self.above = above
        self.parts = self.plant() if parts is None else parts

    def plant(self) -> Parts:
        """The whole tree as one part, with all that the budget implies; none if that refutes it."""
        nothing = np.zeros(self.problem.ops, np.int64)
        rows = pack(self.above), pack(self.above.T)
        root = self.enter(_Open(*rows, nothing, 0, self.pair[:0].copy()))
        if self.refuted(root):
            return Parts(())
        self.problem.statistics.relations += int(root.tally[FILL])
        return Parts((self.leave(root, 0),))

    @property
    def settled(self) -> bool:
        """Whether the budget is refuted."""
        return self.parts.left == 0

    def known(self) -> OrderingProblem:
        """The net with who runs before whom in every order within the budget.

        Asked before the tree is run.
        """
        return self.strengthened(self.enter(self.parts.waiting[0]))

    def share(self, problem: SearchContext) -> Splitter:
        """The tree for another worker, who takes some of the parts."""
        self.parts.shared = True
        return Splitter(problem, self.above, self.budget, self.expected, self.blame, self.parts)

    def run(self, nodes: int, on_open: OnOpen) -> list[int] | bool:
        """Look at `nodes` branches or a few more; return an order, or whether there is none."""
        enough = self.problem.statistics.branches + nodes
        while self.problem.statistics.branches < enough and self.take_part():
            divide = self.left == 0
            if divide:
                self.stack = [self.part]
                self.blame //= 2
            self.left -= 1
            node = self.stack.pop()
            order = self.look(node, on_open)
            if order:
                # There is one: so this part is never refuted, whatever becomes of the rest of it.
                self.stack.append(node)
                return order
            if divide or not self.stack or (self.parts.wanted and len(self.stack) > 1):
                self.hand_over()
        if self.parts.shared and self.stack:
            # Whoever goes on is not to wait until this worker is back.
            self.hand_over()
        return self.settled

    def hand_over(self) -> None:
        """Let what is open in the part at hand be parts that anyone may take."""
        self.parts.put_back(self.stack)
        self.stack = []

    def take_part(self) -> bool:
        """Have a part to go on with; False if there is none, or others have them all.

        Its supports are held against all pairs again: they are those of whoever put the part back,
        and what is in their place here may be another one, or none.
        """
        if self.stack:
            return True
        part = self.parts.take()
        if part is None:
            return False
        known = (self.supports.live != UNKNOWN) @ (np.int64(1) << np.arange(SUPPORTS))
        self.part = replace(part, valid=part.valid & known, fill=0)
        self.stack = [self.part]
        self.left = PATIENCE
        return True

    def look(self, node: _Open, on_open: OnOpen) -> list[int]:
        """Refute a branch, or put off both orders of some pair there; an order if one is found."""
        branch = self.enter(node)
        if self.refuted(branch):
            return []
        self.opened += 1
        if self.opened % SEARCH_EVERY == 0:
            answer = on_open(replace(self.problem, problem=self.strengthened(branch)))
            if answer is True:
                return []
            if answer:
                return answer
        return self.split(branch)

    def split(self, branch: Branch) -> list[int]:
        """Put off both orders of some pair, unless one contradicts itself; an order if all is set.

        Of the pairs that cost most, it is the one from which most follows both ways.
        """
        best, chosen = -1, (branch, branch)
        problem = self.problem
        count = self.derive(branch, TOPS)
        if count == 0:
            # The one order that is left may save less than was thought possible op by op.
            order = topological(self.strengthened(branch))
            return order if problem.follow(order)[0] <= self.budget else []
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
        return self.derive(branch, 0) < 0

    def derive(self, branch: Branch, tops: int) -> int:
        """Derive all that follows; -1 if refuted. Where that is done, list so many tops' pairs."""
        problem = self.problem
        count = problem.pick(refine, problem.ops**2)(
            problem.problem, problem.base, self.budget, branch, self.supports, self.desk,
            self.order, self.blame, tops, self.choice,
        )  # fmt: skip
        problem.statistics.flows += int(branch.tally[FLOWS])
        branch.tally[FLOWS] = 0
        return int(count)

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

    def strengthened(self, branch: Branch) -> OrderingProblem:
        """The net with all precedences of a branch."""
        net = self.problem.problem
        pred = Rows(*self.problem.pick(reduce_rows)(branch.before))
        user = Rows(net.user_ptr, net.user)
        return make_problem(pred, user, net.rise, net.delta, net.size, net.savings)
