"""Certificates by trees of supposed precedences.

The tree is that of :mod:`optsched.ordering.tree`, but searched depth first, and with the premises
of each conflict computed at once. If a conflict does not rest on the last supposition, the contrary
of that supposition need not be tried: the search goes back to the last supposition that it does
rest on (conflict-directed backjumping).

Example: see :mod:`optsched.certificate.trail`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optsched.certificate.bounds import Claim
from optsched.certificate.trail import Conflict, Inference, Trail, UnshownError, contrary, suppose
from optsched.ordering.bound.flow import FlowNetwork
from optsched.ordering.tree import Branch, Propagation, count_pairs, known_pairs


@dataclass(slots=True)
class TreeNode:
    """A branch, its last supposition, and the inferences made from there on."""

    branch: Branch
    supposed: Inference | None
    inferences: Sequence[Inference]
    length: int
    """Number of inferences of the trail at this node."""


class ConflictTree:
    """A tree that refutes a budget and records all reasons; it can be stopped and resumed.

    `claim`: the claim to prove. Once its clock has expired :class:`OutOfTimeError` is raised.
    """

    def __init__(self, claim: Claim) -> None:
        during = claim.during
        self.effort, self.ops = claim.effort, len(during)
        self.trail = Trail(FlowNetwork(claim.graph), claim.budget)
        self.conflicts = 0
        self.propagation = Propagation(claim.context(), claim.budget, during, np.zeros_like(during))
        root = self.propagation.root()
        self.why = self.derive(root)
        self.nodes = [TreeNode(root, None, (), len(self.trail.inferences))]

    def run(self, most: int) -> Conflict | None:
        """Search until `most` conflicts were found; return the conflict that refutes the budget.

        None if that is not enough, if an order is found, or if no flow proves a conflict.
        """
        while self.nodes and self.conflicts < most:
            if self.why is not None:
                node = self.nodes.pop()
                # No supposition is left that could be wrong: the budget is refuted.
                if node.supposed is None:
                    return self.why
                above = self.nodes[-1]
                # Inferences of the branch that failed no longer hold.
                self.trail.cut(above.length)
                self.why = self.dismiss(above, node.supposed, self.why)
                continue
            found = self.divide(self.nodes[-1])
            if isinstance(found, TreeNode):
                self.why = self.enter(found)
            elif found is None:
                self.nodes.clear()
            else:
                self.why = found
        return None

    def enter(self, node: TreeNode) -> Conflict | None:
        """Make a successor of the last node the current node; return its conflict, if any.

        Its watched downsets are compared again: successors that were tried after it have replaced
        some of them by downsets that obey only the inferences of the last node.
        """
        for inference in node.inferences:
            self.trail.push(inference)
        known = count_pairs(self.nodes[-1].branch)
        node.branch = self.propagation.resume(self.propagation.postpone(node.branch, known))
        why = self.derive(node.branch)
        node.length = len(self.trail.inferences)
        self.nodes.append(node)
        return why

    def divide(self, node: TreeNode) -> TreeNode | Conflict | None:
        """Choose a pair and return the successor with one of its sequences supposed.

        Of the pairs that cost most it is the one from which most follows. If one sequence of a pair
        is contradictory, the other is added to the node, and the choice is made again. Returns a
        conflict if the node is refuted, and None if an order is found.
        """
        while pairs := self.propagation.choose(node.branch, self.effort.critical_ops):
            known = node.length
            best, chosen = -1, node
            for pair in pairs:
                ways = self.both(node, pair)
                if isinstance(ways, Conflict):
                    return ways
                # A pair was decided, so the choice starts again with what now follows.
                if node.length != known:
                    break
                gains = [len(way.inferences) for way in ways]
                if gains[0] * gains[1] > best:
                    best = gains[0] * gains[1]
                    chosen = ways[0] if gains[0] >= gains[1] else ways[1]
            else:
                return chosen
        return self.unfit()

    def unfit(self) -> Conflict | None:
        """Return the conflict at an op once all ops are ordered; None if all ops fit.

        In an in-place graph an op may still not fit, as propagation takes it to save the most bytes
        that it ever can.
        """
        refuted = map(self.trail.refute, range(self.ops))
        found = next((why for why in refuted if why is not None), None)
        self.conflicts += found is not None
        return found

    def both(self, node: TreeNode, pair: tuple[int, int]) -> list[TreeNode] | Conflict:
        """Return the successors for both sequences of a pair; none if one of them was refuted."""
        ways = []
        for first, second in (pair, pair[::-1]):
            supposed = suppose(first, second)
            way, why = self.assume(node, supposed)
            self.trail.cut(node.length)
            if why is not None:
                return self.dismiss(node, supposed, why) or []
            ways.append(way)
        return ways

    def assume(self, node: TreeNode, inference: Inference) -> tuple[TreeNode, Conflict | None]:
        """Add an inference, and all that follows, to a copy of a node; return its conflict."""
        way = self.propagation.assume(node.branch, inference.first, inference.second)
        self.trail.push(inference)
        # Trail and branch must list the same inferences, or the reasons would be wrong.
        if way is None or count_pairs(way) != len(self.trail.inferences):
            raise UnshownError
        why = self.derive(way)
        inferences = self.trail.inferences[node.length :]
        return TreeNode(way, inference, inferences, len(self.trail.inferences)), why

    def derive(self, branch: Branch) -> Conflict | None:
        """Add the precedences that follow in a branch to the trail; return its conflict, if any."""
        self.propagation.context.clock.spend(self.ops)
        before = self.propagation.failures.copy()
        refuted = self.propagation.refutes(branch)
        for first, second in known_pairs(branch, len(self.trail.inferences)).tolist():
            self.trail.push(Inference(first, second))
        if not refuted:
            return None
        self.conflicts += 1
        # The op whose failure count has risen is the one that did not fit.
        why = self.trail.refute(int(np.argmax(self.propagation.failures - before)))
        if why is None:
            raise UnshownError
        return why

    def dismiss(self, node: TreeNode, supposed: Inference, why: Conflict) -> Conflict | None:
        """Add the contrary of a refuted supposition to its node; return a conflict of the node.

        If the conflict does not rest on the supposition, it refutes the node as well.
        """
        if supposed not in why.rests:
            return why
        way, why_not = self.assume(node, contrary(supposed, why))
        node.branch, node.length = way.branch, way.length
        return why_not
