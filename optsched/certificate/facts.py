"""Precedences and why they hold: by a flow, or because the contrary was refuted."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from optsched.certificate.flow import FlowNetwork
from optsched.certificate.grounds import Precedence, find_grounds
from optsched.check.steps import OpStep, OrderStep, Step, SupposeStep
from optsched.model.graph import Graph


class UnshownError(Exception):
    """Something that was to follow can not be shown."""


class TooLongError(Exception):
    """There are more steps than may be written."""


@dataclass(frozen=True, slots=True, eq=False)
class Refutation:
    """No order is within the budget, as op `op` does not fit with the facts it `needs`."""

    op: int
    needs: tuple[Fact, ...]
    rests: frozenset[Fact]


@dataclass(slots=True, eq=False)
class Fact:
    """Op `first` runs before `second`, within the budget and what is supposed.

    Parameters
    ----------
    first, second
        The ops.
    refuted
        For a fact that holds because the contrary was refuted: that fact, and how.
    at
        For one that is implied: the op that would not fit otherwise.
    needs
        The facts that an implied one needs.
    rests
        The suppositions behind it; None while that was not asked for.
    """

    first: int
    second: int
    refuted: tuple[Fact, Refutation] | None = None
    at: int | None = None
    needs: tuple[Fact, ...] = ()
    rests: frozenset[Fact] | None = None


def suppose(first: int, second: int) -> Fact:
    """A fact that rests on itself."""
    made = Fact(first, second)
    made.rests = frozenset((made,))
    return made


def contrary(supposed: Fact, why: Refutation) -> Fact:
    """What holds because something supposed is refuted."""
    rests = why.rests - {supposed}
    return Fact(supposed.second, supposed.first, (supposed, why), rests=rests)


class Trail:
    """Facts in the order in which they were found, each from those before it.

    Parameters
    ----------
    network
        The graph, with all facts of the trail.
    budget
        Bytes.
    """

    def __init__(self, network: FlowNetwork, budget: int) -> None:
        self.network, self.budget = network, budget
        self.facts: list[Fact] = []
        self.new: list[bool] = []
        self.place: dict[Precedence, int] = {}

    def push(self, fact: Fact) -> None:
        """Add a fact."""
        pair = (fact.first, fact.second)
        self.new.append(self.network.add(*pair))
        if self.new[-1]:
            self.place[pair] = len(self.facts)
        self.facts.append(fact)

    def cut(self, length: int) -> None:
        """Forget all but the first facts."""
        while len(self.facts) > length:
            fact = self.facts.pop()
            if self.new.pop():
                self.network.remove(fact.first, fact.second)
                del self.place[fact.first, fact.second]

    def refute(self, op: int) -> Refutation | None:
        """Show that an op does not fit."""
        forced = self.network.forced(op, self.budget)
        if forced is None:
            return None
        pairs = find_grounds(self.network, self.place, op, (), (), forced, self.budget)
        needs = self.take(pairs)
        return Refutation(op, needs, self.rest(needs))

    def take(self, pairs: Iterable[Precedence]) -> tuple[Fact, ...]:
        """The facts that say so much, in their order."""
        return tuple(self.facts[place] for place in sorted(self.place[pair] for pair in pairs))

    def rest(self, needs: Sequence[Fact]) -> frozenset[Fact]:
        """The suppositions behind some facts; those not explained so far are explained."""
        waiting = list(needs)
        while waiting:
            fact = waiting[-1]
            if fact.rests is not None:
                waiting.pop()
                continue
            if fact.at is None:
                self.explain(fact)
            unknown = [need for need in fact.needs if need.rests is None]
            waiting += unknown
            if not unknown:
                fact.rests = frozenset().union(*(need.rests or () for need in fact.needs))
        return frozenset().union(*(need.rests or () for need in needs))

    def explain(self, fact: Fact) -> None:
        """Find out why a fact is implied by those before it."""
        limit = self.place[fact.first, fact.second]
        network = copy.copy(self.network)
        network.before, network.behind = [*map(set, network.before)], [*map(set, network.behind)]
        for later, new in zip(self.facts[limit:], self.new[limit:], strict=True):
            if new:
                network.remove(later.first, later.second)
        for at, before, after in (
            (fact.first, (fact.second,), ()),
            (fact.second, (), (fact.first,)),
        ):
            forced = network.forced(at, self.budget, before, after)
            if forced is not None:
                pairs = find_grounds(network, self.place, at, before, after, forced, self.budget)
                fact.at, fact.needs = at, self.take(pairs)
                return
        raise UnshownError


def list_steps(graph: Graph, budget: int, refutation: Refutation, most: int) -> list[Step]:
    """Return the steps of a refutation that rests on nothing.

    What several branches need is shown once, before the first of them.

    Parameters
    ----------
    graph
        The graph.
    budget
        Bytes.
    refutation
        Why no order is within it.
    most
        Steps at most.

    Raises
    ------
    TooLongError
        If there are more.
    UnshownError
        If a step does not hold after all.
    """
    return _Writer(FlowNetwork(graph), budget, most).write(refutation)


class _Writer:
    def __init__(self, network: FlowNetwork, budget: int, most: int) -> None:
        self.network, self.budget, self.most = network, budget, most
        self.steps: list[Step] = []
        self.known: set[Fact] = set()
        self.open: list[tuple[Fact, list[tuple[Fact, bool]]]] = []

    def write(self, refutation: Refutation) -> list[Step]:
        # What is to be done, the next last: facts to show; or how a branch (or all) is refuted,
        # with the fact that follows from it.
        waiting: list[Fact | tuple[Refutation, Fact | None]] = [(refutation, None)]
        waiting += reversed(refutation.needs)
        while waiting:
            if len(self.steps) > self.most:
                raise TooLongError
            item = waiting.pop()
            if isinstance(item, tuple):
                self.refute(item[0])
                if item[1] is not None:
                    self.close_branch(item[1])
            elif item not in self.known:
                missing = [fact for fact in self.inputs(item) if fact not in self.known]
                if missing:
                    waiting += [item, *reversed(missing)]
                elif item.refuted is None:
                    self.imply(item)
                else:
                    supposed, why = item.refuted
                    self.open_branch(supposed)
                    waiting += [(why, item), *reversed(why.needs)]
        return self.steps

    def inputs(self, fact: Fact) -> list[Fact]:
        """What has to be shown before a fact, or before what is contrary to it is supposed.

        That is all that is used in the branch and rests on nothing that will be supposed in it.
        """
        if fact.refuted is None:
            return list(fact.needs)
        outside = {supposed for supposed, _ in self.open}
        found: list[Fact] = []
        waiting = list(reversed(fact.refuted[1].needs))
        seen = set(waiting)
        while waiting:
            item = waiting.pop()
            if item.rests is not None and item.rests <= outside:
                found.append(item)
                continue
            inner = item.needs if item.refuted is None else item.refuted[1].needs
            waiting += [need for need in reversed(inner) if need not in seen]
            seen.update(inner)
        return found

    def imply(self, fact: Fact) -> None:
        """Add the step of an implied fact."""
        first, second = fact.first, fact.second
        at_first = fact.at == first
        before, after = ((second,), ()) if at_first else ((), (first,))
        forced = self.network.forced(first if at_first else second, self.budget, before, after)
        if forced is None:
            raise UnshownError
        self.steps.append(OrderStep(first, second, first if at_first else second, forced))
        self.learn(fact)

    def open_branch(self, supposed: Fact) -> None:
        self.steps.append(SupposeStep(supposed.first, supposed.second))
        self.open.append((supposed, []))
        self.learn(supposed)

    def refute(self, refutation: Refutation) -> None:
        """Add the step that ends a branch, or all."""
        forced = self.network.forced(refutation.op, self.budget)
        if forced is None:
            raise UnshownError
        self.steps.append(OpStep(refutation.op, forced))

    def close_branch(self, fact: Fact) -> None:
        """Forget what rests on the last supposition; the contrary is known now."""
        _, inside = self.open.pop()
        for item, new in reversed(inside):
            self.known.discard(item)
            if new:
                self.network.remove(item.first, item.second)
        self.learn(fact)

    def learn(self, fact: Fact) -> None:
        new = self.network.add(fact.first, fact.second)
        self.known.add(fact)
        if self.open:
            self.open[-1][1].append((fact, new))
