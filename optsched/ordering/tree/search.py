"""Is there an order within a budget? A tree of assumed precedences, each with all it implies.

At an op with little slack both orders of some pair cost much: assume one, derive what the budget
then implies, and the other where that fails. A branch ends when it contradicts itself, or when a
short search of the states left settles it. For example, with `a` before `b` op `b` may not fit any
more unless `c` runs before it, and with `c` before `b` op `a` may not fit at all: so `b` runs
before `a` in every order within the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from optsched.model.arrays import IntArray
from optsched.ordering.context import SearchContext
from optsched.ordering.kernels.bits import has_bit
from optsched.ordering.problem import OrderingProblem, topological
from optsched.ordering.progress import OpenTree, pack_parts
from optsched.ordering.tree.kernels.downsets import Branch
from optsched.ordering.tree.parts import TreeParts, shared_pairs
from optsched.ordering.tree.propagation import OpenBranch, Propagation, count_pairs

OnOpen = Callable[[SearchContext], "list[int] | bool"]
"""Searches the states of a branch: an order within the budget, or whether there is none."""


class PrecedenceTree:
    """The tree for one budget; can be left and taken up again.

    A part of it that is not refuted soon is begun anew, with both orders of one pair as its parts:
    it may have gone into alternatives that have nothing to do with what contradicts itself below
    them, and the ops that were blamed for that come first from now on.

    Parameters
    ----------
    context
        The problem; its precedences hold in every order within the budget.
    budget
        Live bytes that no order may pass.
    expected
        Live bytes while each op runs in some good order: where to look first.
    blame
        Shape `(n,)`: how often a contradiction came up at an op; added to. What other trees of the
        problem have met is of use here, whatever their budgets: they may share it.
    parts
        Those of another worker's tree for the same, to share them.
    implied
        Pairs `(first, second)` that are known to follow from the budget.
    """

    def __init__(
        self,
        context: SearchContext,
        budget: int,
        expected: IntArray,
        blame: IntArray,
        parts: TreeParts | None = None,
        implied: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.context, self.budget, self.expected = context, budget, expected
        self.propagation = Propagation(context, budget, expected, blame)
        self.opened = self.left = self.root = 0
        self.parts = self.begin(implied) if parts is None else parts
        self.stack = self.parts.new_stack()

    @classmethod
    def reopen(
        cls, context: SearchContext, expected: IntArray, blame: IntArray, left: OpenTree
    ) -> PrecedenceTree:
        """A tree as an earlier search of the problem left it.

        Raises
        ------
        ValueError
            If that is no tree of the problem.
        """
        tree = cls(context, left.budget, expected, blame, TreeParts(()))
        branches = []
        for pairs in left.parts(context.ops):
            context.check_time()
            branches.append(tree.propagation.known(pairs))
        at_hand = branches[len(branches) - left.at_hand :]
        if not branches or len(at_hand) != left.at_hand:
            raise ValueError("a tree without open parts, or with too few of them")
        tree.parts.add(branches[: len(branches) - left.at_hand])
        if at_hand:
            if left.root > shared_pairs(at_hand):
                raise ValueError("what is left of a part is of several")
            tree.part = tree.propagation.known(at_hand[0].pairs[: left.root])
            tree.left, tree.root = left.patience, left.root
            tree.parts.left += 1
            tree.stack += at_hand
        return tree

    def leave(self) -> OpenTree:
        """What a later search needs to go on with the tree."""
        others, mine = self.parts.all_open(self.stack)
        rows = pack_parts([node.pairs for node in (*others, *mine)], self.context.ops)
        if not mine:
            return OpenTree(self.budget, rows)
        return OpenTree(self.budget, rows, len(mine), self.root, self.left)

    def begin(self, implied: Sequence[tuple[int, int]]) -> TreeParts:
        """The whole tree as one part, with all that the budget implies; none if that refutes it."""
        root = self.propagation.root()
        if not self.propagation.add(root, implied) or self.propagation.refutes(root):
            return TreeParts(())
        self.context.statistics.relations += count_pairs(root) - len(implied)
        return TreeParts((self.propagation.postpone(root, 0),))

    @property
    def settled(self) -> bool:
        """Whether the budget is refuted."""
        return self.parts.left == 0

    def strengthened(self) -> OrderingProblem:
        """The problem with the precedences of every order within the budget.

        They are those that all open parts have in common.
        """
        others, mine = self.parts.all_open(self.stack)
        parts = [*others, *mine]
        common = parts[0]
        if len(parts) > 1:
            common = self.propagation.known(common.pairs[: shared_pairs(parts)])
        return self.propagation.strengthened(self.propagation.resume(common))

    def share(self, context: SearchContext) -> PrecedenceTree:
        """The tree for another worker, who takes some of the parts."""
        self.parts.shared = True
        blame = self.propagation.blame
        context = replace(context, problem=self.context.problem)
        return PrecedenceTree(context, self.budget, self.expected, blame, self.parts)

    def run(self, nodes: int, on_open: OnOpen) -> list[int] | bool:
        """Look at `nodes` branches or a few more; return an order, or whether there is none."""
        enough = self.context.statistics.branches + nodes
        while self.context.statistics.branches < enough and self.take_part():
            divide = self.left == 0
            if divide:
                self.stack[:] = [self.part]
                self.propagation.blame //= 2
            self.left -= 1
            order, ways = self.look(self.stack[-1], on_open)
            if order:
                # There is one: so this part is never refuted, whatever becomes of the rest of it.
                return order
            # Only now: until all ways on are known the branch stays open, should a limit come.
            self.stack[-1:] = ways
            if divide or not self.stack or (self.parts.wanted and len(self.stack) > 1):
                self.parts.put_back(self.stack)
        if self.parts.shared and self.stack:
            # Whoever goes on is not to wait until this worker is back.
            self.parts.put_back(self.stack)
        return self.settled

    def take_part(self) -> bool:
        """Have a part to go on with; False if there is none, or others have them all."""
        if self.stack:
            return True
        if not self.parts.take(self.stack):
            return False
        # Its watched downsets were those of whoever put the part back.
        self.part = self.stack[0] = self.propagation.forget(self.stack[0])
        self.left, self.root = self.context.effort.part_patience, len(self.part.pairs)
        return True

    def look(self, node: OpenBranch, on_open: OnOpen) -> tuple[list[int], list[OpenBranch]]:
        """Refute a branch, or put off both orders of some pair there; an order if one is found."""
        if not node.checked:
            # It may have been put off by an earlier search.
            node = self.propagation.forget(node)
        branch = self.propagation.resume(node)
        if self.propagation.refutes(branch):
            return [], []
        self.opened += 1
        if self.opened % self.context.effort.search_every == 0:
            problem = self.propagation.strengthened(branch)
            answer = on_open(replace(self.context, problem=problem))
            if answer is True:
                return [], []
            if answer:
                return answer, []
        return self.divide(branch)

    def divide(self, branch: Branch) -> tuple[list[int], list[OpenBranch]]:
        """Put off both orders of some pair, unless one contradicts itself; an order if all is set.

        Of the pairs that cost most, it is the one from which most follows both ways.
        """
        pairs = self.propagation.choose(branch, self.context.effort.critical_ops)
        if not pairs:
            # The one order that is left may save less than was thought possible op by op.
            order = topological(self.propagation.strengthened(branch))
            return order if self.context.follow(order)[0] <= self.budget else [], []
        best, chosen = -1, [branch]
        known = count_pairs(branch)
        for u, v in pairs:
            if has_bit(branch.before[u], v) or has_bit(branch.after[u], v):
                continue
            ways = [way for pair in ((u, v), (v, u)) if (way := self.assume(branch, *pair))]
            if not ways:
                return [], []
            if len(ways) == 1:
                branch = self.propagation.resume(self.propagation.postpone(ways[0], known))
                if self.propagation.refutes(branch):
                    return [], []
                best, chosen = -1, [branch]
                known = count_pairs(branch)
                continue
            gains = [count_pairs(way) - known for way in ways]
            if gains[0] * gains[1] > best:
                best = gains[0] * gains[1]
                # The way from which less follows comes up first: an order may be there.
                chosen = ways if gains[0] >= gains[1] else ways[::-1]
        return [], [self.propagation.postpone(way, known) for way in chosen]

    def assume(self, branch: Branch, first: int, second: int) -> Branch | None:
        """The branch with a pair and all that follows from it; None if that is a contradiction."""
        way = self.propagation.assume(branch, first, second)
        return None if way is None or self.propagation.refutes(way) else way
