"""Certificates by trees of supposed precedences.

What :mod:`optsched.ordering.tree.search` does, but depth first, and with the reason of each
contradiction worked out at once: where that does not rest on the last supposition, neither the
contrary nor anything else supposed since then need be looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optsched.certificate.bounds import context_of, running_in
from optsched.certificate.effort import DEFAULT_EFFORT, CertificateEffort
from optsched.certificate.flow import FlowNetwork
from optsched.certificate.trail import Conflict, Inference, Trail, UnshownError, contrary, suppose
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.ordering.bound.precedences import related
from optsched.ordering.tree.kernels.downsets import FILL, Branch
from optsched.ordering.tree.kernels.propagate import add_pair
from optsched.ordering.tree.search import Splitter
from optsched.runtime.clock import Clock


@dataclass(slots=True)
class _Node:
    """A branch, what was supposed last, and all facts from there on."""

    branch: Branch
    supposed: Inference | None
    facts: Sequence[Inference]
    length: int
    """Facts of the trail in all."""


class _Branches(Splitter):
    """Keeps the branch that was looked at last."""

    def refuted(self, branch: Branch) -> bool:
        self.looked = branch
        return super().refuted(branch)


class ConflictTree:
    """Refutes a budget with all reasons; can be left and taken up again.

    Parameters
    ----------
    graph
        The graph.
    order
        A good order: the ops with most live bytes in it are looked at first.
    budget
        Bytes.
    clock
        Says when to raise :class:`OutOfTimeError`.
    effort
        Where to look for pairs.
    """

    def __init__(
        self,
        graph: Graph,
        order: IntArray,
        budget: int,
        clock: Clock,
        effort: CertificateEffort = DEFAULT_EFFORT,
    ) -> None:
        self.problem = context_of(graph, clock)
        during = running_in(graph, order)
        self.budget, self.effort = budget, effort
        self.trail = Trail(FlowNetwork(graph), budget)
        self.contradictions = 0
        blame = np.zeros_like(during)
        self.branches = _Branches(
            self.problem, related(self.problem.problem), budget, during, blame
        )
        root = self.branches.looked
        self.why = self.note(root, np.zeros_like(during), refuted=self.branches.settled)
        self.nodes = [_Node(root, None, (), len(self.trail.inferences))]

    def run(self, most: int) -> Conflict | None:
        """Go on until there were `most` contradictions; None if that settles nothing.

        None as well if an order is found, or a contradiction can not be shown.
        """
        while self.nodes and self.contradictions < most:
            if self.why is not None:
                node = self.nodes.pop()
                if node.supposed is None:
                    return self.why
                above = self.nodes[-1]
                self.trail.cut(above.length)
                self.why = self.dismiss(above, node.supposed, self.why)
                continue
            found = self.split(self.nodes[-1])
            if isinstance(found, _Node):
                self.why = self.enter(found)
            elif found is None:
                self.nodes.clear()
            else:
                self.why = found
        return None

    def enter(self, node: _Node) -> Conflict | None:
        """Take up one of the ways from the last node; why it contradicts itself after all.

        The ways that were looked at after it have overwritten its supports with such that obey
        the facts of the last node alone.
        """
        tree, blamed = self.branches, self.branches.blame.copy()
        for fact in node.facts:
            self.trail.push(fact)
        fill = int(self.nodes[-1].branch.tally[FILL])
        node.branch = tree.enter(tree.leave(node.branch, fill))
        why = self.note(node.branch, blamed, refuted=tree.refuted(node.branch))
        node.length = len(self.trail.inferences)
        self.nodes.append(node)
        return why

    def split(self, node: _Node) -> _Node | Conflict | None:
        """Suppose an order of some pair; of those that cost most, one from which most follows.

        If one of its orders contradicts itself the other one is learnt, and the choice made again.
        """
        while pairs := self.choices(node.branch):
            known = node.length
            best, chosen = -1, node
            for pair in pairs:
                ways = self.both(node, pair)
                if isinstance(ways, Conflict):
                    return ways
                if node.length != known:
                    break
                gains = [len(way.facts) for way in ways]
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
        ops = range(self.problem.ops)
        found = next((why for why in map(self.trail.refute, ops) if why is not None), None)
        self.contradictions += found is not None
        return found

    def choices(self, branch: Branch) -> list[tuple[int, int]]:
        """Pairs to split on; none if all ops are in order."""
        count = self.branches.derive(branch, self.effort.critical_ops)
        return [(u, v) for _, v, u in self.branches.choice[:count].tolist()]

    def both(self, node: _Node, pair: tuple[int, int]) -> list[_Node] | Conflict:
        """The two orders of a pair; none of them if something was learnt instead."""
        ways = []
        for first, second in (pair, pair[::-1]):
            fact = suppose(first, second)
            way, why = self.assume(node, fact)
            self.trail.cut(node.length)
            if why is not None:
                return self.dismiss(node, fact, why) or []
            ways.append(way)
        return ways

    def assume(self, node: _Node, fact: Inference) -> tuple[_Node, Conflict | None]:
        """Add a fact to a node, and all that follows from it; why that is a contradiction."""
        self.problem.check_time()
        self.problem.statistics.branches += 1
        tree = self.branches
        way = tree.enter(tree.leave(node.branch, int(node.branch.tally[FILL])))
        self.problem.pick(add_pair)(way, fact.first, fact.second)
        self.trail.push(fact)
        if int(way.tally[FILL]) != len(self.trail.inferences):
            raise UnshownError
        blamed = tree.blame.copy()
        why = self.note(way, blamed, refuted=tree.refuted(way))
        facts = self.trail.inferences[node.length :]
        return _Node(way, fact, facts, len(self.trail.inferences)), why

    def note(self, branch: Branch, blamed: IntArray, *, refuted: bool) -> Conflict | None:
        """Put what follows in a branch on the trail; why it contradicts itself, if it does."""
        fill = int(branch.tally[FILL])
        for first, second in branch.pair[len(self.trail.inferences) : fill].tolist():
            self.trail.push(Inference(first, second))
        if not refuted:
            return None
        self.contradictions += 1
        why = self.trail.refute(int(np.argmax(self.branches.blame - blamed)))
        if why is None:
            raise UnshownError
        return why

    def dismiss(self, node: _Node, supposed: Inference, why: Conflict) -> Conflict | None:
        """What was supposed is refuted: so is the node it was at, or that learns the contrary."""
        if supposed not in why.rests:
            return why
        way, why_not = self.assume(node, contrary(supposed, why))
        node.branch, node.length = way.branch, way.length
        return why_not
