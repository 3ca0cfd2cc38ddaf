"""Certificates by trees of supposed precedences.

What :mod:`optsched.ordering.tree` does, but depth first, and with the premises of each conflict
worked out at once: where these do not rest on the last supposition, neither the contrary nor
anything else supposed since then need be looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optsched.certificate.bounds import Claim
from optsched.certificate.flow import FlowNetwork
from optsched.certificate.trail import (
    Conflict,
    Inference,
    Trail,
    UnshownError,
    contrary,
    suppose,
)
from optsched.ordering.tree import Branch, Propagation, count_pairs, known_pairs


@dataclass(slots=True)
class TreeNode:
    """A branch, what was supposed last, and all inferences from there on."""

    branch: Branch
    supposed: Inference | None
    inferences: Sequence[Inference]
    length: int
    """Inferences of the trail in all."""


class ConflictTree:
    """Refutes a budget with all reasons; can be left and taken up again.

    Parameters
    ----------
    claim
        What to refute; the end of its clock raises :class:`OutOfTimeError`.
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
        """Go on until there were `most` conflicts; None if that settles nothing.

        None as well if an order is found, or a conflict can not be shown.
        """
        while self.nodes and self.conflicts < most:
            if self.why is not None:
                node = self.nodes.pop()
                if node.supposed is None:
                    return self.why
                above = self.nodes[-1]
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
        """Take up one of the ways from the last node; why it contradicts itself after all.

        The ways that were looked at after it have overwritten its watched downsets with such that
        obey the inferences of the last node alone.
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
        """Suppose an order of some pair; of those that cost most, one from which most follows.

        If one of its orders contradicts itself the other one is learnt, and the choice made again.
        """
        while pairs := self.propagation.choose(node.branch, self.effort.critical_ops):
            known = node.length
            best, chosen = -1, node
            for pair in pairs:
                ways = self.both(node, pair)
                if isinstance(ways, Conflict):
                    return ways
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
        """Why an op does not fit where all ops are in order; None if all do.

        In-place, less was derived than is so: an op was taken to save as much as it ever can.
        """
        refuted = map(self.trail.refute, range(self.ops))
        found = next((why for why in refuted if why is not None), None)
        self.conflicts += found is not None
        return found

    def both(self, node: TreeNode, pair: tuple[int, int]) -> list[TreeNode] | Conflict:
        """The two orders of a pair; none of them if something was learnt instead."""
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
        """Add an inference to a node, and all that follows; why that is a contradiction."""
        way = self.propagation.assume(node.branch, inference.first, inference.second)
        self.trail.push(inference)
        if way is None or count_pairs(way) != len(self.trail.inferences):
            raise UnshownError
        why = self.derive(way)
        inferences = self.trail.inferences[node.length :]
        return TreeNode(way, inference, inferences, len(self.trail.inferences)), why

    def derive(self, branch: Branch) -> Conflict | None:
        """Put what follows in a branch on the trail; why it contradicts itself, if it does."""
        self.propagation.context.clock.spend(self.ops)
        blamed = self.propagation.blame.copy()
        refuted = self.propagation.refutes(branch)
        for first, second in known_pairs(branch, len(self.trail.inferences)).tolist():
            self.trail.push(Inference(first, second))
        if not refuted:
            return None
        self.conflicts += 1
        why = self.trail.refute(int(np.argmax(self.propagation.blame - blamed)))
        if why is None:
            raise UnshownError
        return why

    def dismiss(self, node: TreeNode, supposed: Inference, why: Conflict) -> Conflict | None:
        """What was supposed is refuted: so is the node it was at, or that learns the contrary."""
        if supposed not in why.rests:
            return why
        way, why_not = self.assume(node, contrary(supposed, why))
        node.branch, node.length = way.branch, way.length
        return why_not
