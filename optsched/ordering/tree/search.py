"""Search of a tree of assumed precedences that decides whether an order is within a budget.

At an op with little slack, both sequences of some pair of ops cost many bytes. Assume one of them,
and derive the precedences that the budget then implies; if they contradict each other, the other
sequence holds, otherwise it is a second branch. A branch ends when it is contradictory, or when a
short search of its remaining states decides it. The budget is refuted when no branch is left.

Example: if `a` runs before `b`, then `b` exceeds the budget unless `c` runs before it; with `c`
before `b`, op `a` does not fit at all. So `b` runs before `a` in every order within the budget.
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
"""Searches the states of a branch: returns an order, or True to refute the branch."""


class PrecedenceTree:
    """The tree of one budget; it can be stopped and resumed.

    A part that is not refuted after some branches is restarted, divided by one pair. It may have
    branched on pairs that do not matter for the contradictions found below them; after the restart
    the ops with the highest failure counts come first.

    Parameters
    ----------
    context
        The problem; its precedences hold in every order within the budget.
    budget
        Limit on live bytes.
    expected
        Shape `(n,)`: live bytes while each op runs in some good order; ops with most come first.
    failures
        Shape `(n,)`: failure counts, the number of contradictions found at each op; added to. Trees
        of other budgets may share the array, as the counts are useful regardless of the budget.
    parts
        Parts of another worker's tree of the same budget, to share them.
    implied
        Pairs `(first, second)` that are known to follow from the budget.
    """

    def __init__(
        self,
        context: SearchContext,
        budget: int,
        expected: IntArray,
        failures: IntArray,
        parts: TreeParts | None = None,
        implied: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.context, self.budget, self.expected = context, budget, expected
        self.propagation = Propagation(context, budget, expected, failures)
        self.opened = self.left = self.root = 0
        self.parts = self.begin(implied) if parts is None else parts
        self.stack = self.parts.new_stack()

    @classmethod
    def reopen(
        cls, context: SearchContext, expected: IntArray, failures: IntArray, left: OpenTree
    ) -> PrecedenceTree:
        """Return the tree that an earlier search of the problem stored.

        Raise `ValueError` if `left` is not a tree of the problem.
        """
        tree = cls(context, left.budget, expected, failures, TreeParts(()))
        branches = []
        for pairs in left.parts(context.ops):
            context.check_time()
            branches.append(tree.propagation.known(pairs))
        at_hand = branches[len(branches) - left.at_hand :]
        if not branches or len(at_hand) != left.at_hand:
            raise ValueError(f"a tree of {len(branches)} open parts has {left.at_hand} at hand")
        tree.parts.add(branches[: len(branches) - left.at_hand])
        if at_hand:
            if left.root > shared_pairs(at_hand):
                raise ValueError(f"the parts at hand do not share {left.root} pairs")
            tree.part = tree.propagation.known(at_hand[0].pairs[: left.root])
            tree.left, tree.root = left.patience, left.root
            # The part at hand counts as one part, however many branches it has.
            tree.parts.left += 1
            tree.stack += at_hand
        return tree

    def leave(self) -> OpenTree:
        """Return the state of the tree, from which a later search can resume."""
        others, mine = self.parts.all_open(self.stack)
        rows = pack_parts([node.pairs for node in (*others, *mine)], self.context.ops)
        if not mine:
            return OpenTree(self.budget, rows)
        return OpenTree(self.budget, rows, len(mine), self.root, self.left)

    def begin(self, implied: Sequence[tuple[int, int]]) -> TreeParts:
        """Return the full tree as one part, after propagation; no part if that refutes it."""
        root = self.propagation.root()
        if not self.propagation.add(root, implied) or self.propagation.refutes(root):
            return TreeParts(())
        self.context.statistics.relations += count_pairs(root) - len(implied)
        return TreeParts((self.propagation.postpone(root, 0),))

    @property
    def settled(self) -> bool:
        """True if the budget is refuted."""
        return self.parts.left == 0

    def strengthened(self) -> OrderingProblem:
        """Return the problem with the precedences that all open parts have in common.

        They hold in every order within the budget.
        """
        others, mine = self.parts.all_open(self.stack)
        parts = [*others, *mine]
        common = parts[0]
        if len(parts) > 1:
            common = self.propagation.known(common.pairs[: shared_pairs(parts)])
        return self.propagation.strengthened(self.propagation.resume(common))

    def share(self, context: SearchContext) -> PrecedenceTree:
        """Return a tree for another worker, which takes parts of this one."""
        self.parts.shared = True
        failures = self.propagation.failures
        context = replace(context, problem=self.context.problem)
        return PrecedenceTree(context, self.budget, self.expected, failures, self.parts)

    def run(self, nodes: int, on_open: OnOpen) -> list[int] | bool:
        """Look at `nodes` branches or a few more.

        Sketch: take the last open branch of the stack, derive its precedences, and replace it by
        its two successors (:meth:`look`). After `part_patience` branches, restart the part. Give
        open branches away if another worker waits for a part.

        Returns an order within the budget if one is found, else True if the budget is refuted.
        """
        enough = self.context.statistics.branches + nodes
        while self.context.statistics.branches < enough and self.take_part():
            divide = self.left == 0
            if divide:
                # Restart the part from its root. Halving lets recent failures count more.
                self.stack[:] = [self.part]
                self.propagation.failures //= 2
            self.left -= 1
            order, ways = self.look(self.stack[-1], on_open)
            if order:
                # The branch stays on the stack: a part with an order must never count as refuted.
                return order
            # Replaced only now: if a limit is reached in `look`, the branch must still be open.
            self.stack[-1:] = ways
            if divide or not self.stack or (self.parts.wanted and len(self.stack) > 1):
                self.parts.put_back(self.stack)
        if self.parts.shared and self.stack:
            # The other worker can take these parts at once, rather than wait for this one.
            self.parts.put_back(self.stack)
        return self.settled

    def take_part(self) -> bool:
        """Take a part if the stack is empty; return False if no part is waiting."""
        if self.stack:
            return True
        if not self.parts.take(self.stack):
            return False
        # The watched downsets may have been those of another worker.
        self.part = self.stack[0] = self.propagation.forget(self.stack[0])
        self.left, self.root = self.context.effort.part_patience, len(self.part.pairs)
        return True

    def look(self, node: OpenBranch, on_open: OnOpen) -> tuple[list[int], list[OpenBranch]]:
        """Look at a branch: return an order if one is found, and its successors, if any.

        A branch without both is refuted.
        """
        if not node.checked:
            # It may come from an earlier search, with other watched downsets.
            node = self.propagation.forget(node)
        branch = self.propagation.resume(node)
        if self.propagation.refutes(branch):
            return [], []
        self.opened += 1
        # A search costs more than propagation, so only some branches get one.
        if self.opened % self.context.effort.search_every == 0:
            problem = self.propagation.strengthened(branch)
            answer = on_open(replace(self.context, problem=problem))
            if answer is True:
                return [], []
            if answer:
                return answer, []
        return self.divide(branch)

    def divide(self, branch: Branch) -> tuple[list[int], list[OpenBranch]]:
        """Branch on a pair: return an order if all ops are ordered, and the successors.

        Sketch: for each of the best pairs, assume both sequences in turn. If both are contradictory
        the branch is refuted; if one is, the other is added to the branch, and the comparison of
        pairs starts again. Otherwise choose the pair with the largest product of the numbers of
        pairs derived from its two sequences.
        """
        pairs = self.propagation.choose(branch, self.context.effort.critical_ops)
        if not pairs:
            # One order is left. It may exceed the budget, as propagation takes each op to save in
            # place the most bytes that it ever can.
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
                # One sequence is contradictory, so the other holds in all of this branch.
                branch = self.propagation.resume(self.propagation.postpone(ways[0], known))
                if self.propagation.refutes(branch):
                    return [], []
                best, chosen = -1, [branch]
                known = count_pairs(branch)
                continue
            gains = [count_pairs(way) - known for way in ways]
            # The product prefers pairs whose two sequences both imply much: both must be refuted.
            if gains[0] * gains[1] > best:
                best = gains[0] * gains[1]
                # The successor with fewer derived pairs is last in the list, so it is looked at
                # first: it is more likely to contain an order.
                chosen = ways if gains[0] >= gains[1] else ways[::-1]
        return [], [self.propagation.postpone(way, known) for way in chosen]

    def assume(self, branch: Branch, first: int, second: int) -> Branch | None:
        """Return the branch with a pair and all that follows; None if that is contradictory."""
        way = self.propagation.assume(branch, first, second)
        return None if way is None or self.propagation.refutes(way) else way
