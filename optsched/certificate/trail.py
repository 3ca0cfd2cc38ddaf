"""Precedences in the order in which they were found, each with why it holds, and their list.

As in the search of a SAT solver: a *trail* of what was supposed and what follows, and for each
conflict the premises it needs. These tell on which suppositions it rests, and so which of them it
refutes, whatever was supposed in between. From a conflict that rests on none the steps of a
certificate are listed, those alone that it needs.

References
----------
Marques-Silva and Sakallah, "GRASP: a search algorithm for propositional satisfiability", 1999.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from optsched.certificate.flow import FlowNetwork
from optsched.check.steps import Flow, Forced, OpStep, OrderStep, Step, SupposeStep
from optsched.model.graph import Graph

Precedence = tuple[int, int]
"""The earlier op and the later one."""

GRAPH = -1
"""Place of what the graph itself says."""


class UnshownError(Exception):
    """Something that was to follow can not be shown."""


class TooLongError(Exception):
    """There are more steps than may be written."""


@dataclass(frozen=True, slots=True, eq=False)
class Conflict:
    """No order is within the budget: op `op` does not fit, given what the conflict `needs`.

    `rests` are the suppositions behind these.
    """

    op: int
    needs: tuple[Inference, ...]
    rests: frozenset[Inference]


@dataclass(slots=True, eq=False)
class Inference:
    """Op `first` runs before `second`, within the budget and what is supposed.

    Parameters
    ----------
    first, second
        The ops.
    refuted
        Where it holds because the contrary was refuted: the contrary, and how.
    at, flow
        Where it is implied by a flow: the op that would not fit otherwise, and why it would not.
    needs
        What an implied one needs.
    rests
        The suppositions behind it; None while that was not asked for.
    """

    first: int
    second: int
    refuted: tuple[Inference, Conflict] | None = None
    at: int | None = None
    flow: Forced | None = None
    needs: tuple[Inference, ...] = ()
    rests: frozenset[Inference] | None = None

    def assumed(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """The op with the flow; the op that is assumed to have ended there, or not to have begun.

        The contrary is assumed: that `second` runs before `first`.
        """
        if self.at == self.first:
            return self.first, (self.second,), ()
        return self.second, (), (self.first,)

    def imply(self, network: FlowNetwork, budget: int) -> bool:
        """Look for a flow that shows it; whether there is one."""
        for at in (self.first, self.second):
            self.at = at
            op, before, after = self.assumed()
            self.flow = network.forced(op, budget, before, after)
            if self.flow is not None:
                return True
        self.at = None
        return False

    def step(self, flow: Forced) -> OrderStep:
        """The step that shows it by a flow."""
        return OrderStep(self.first, self.second, self.assumed()[0], flow)


def suppose(first: int, second: int) -> Inference:
    """A supposition: it rests on itself."""
    made = Inference(first, second)
    made.rests = frozenset((made,))
    return made


def contrary(supposed: Inference, why: Conflict) -> Inference:
    """What holds because a supposition is refuted."""
    rests = why.rests - {supposed}
    return Inference(supposed.second, supposed.first, (supposed, why), rests=rests)


class Trail:
    """Inferences in the order in which they were found, each from those before it.

    Parameters
    ----------
    network
        The graph; gets all precedences of the trail.
    budget
        Bytes.
    """

    def __init__(self, network: FlowNetwork, budget: int) -> None:
        self.network, self.budget = network, budget
        self.inferences: list[Inference] = []
        self.new: list[bool] = []
        self.place: dict[Precedence, int] = {}

    def push(self, inference: Inference) -> None:
        """Add an inference."""
        pair = (inference.first, inference.second)
        self.new.append(self.network.add(*pair))
        if self.new[-1]:
            self.place[pair] = len(self.inferences)
        self.inferences.append(inference)

    def imply(self, first: int, second: int) -> None:
        """Add a precedence if a flow shows it."""
        inference = Inference(first, second)
        if inference.imply(self.network, self.budget):
            self.push(inference)

    def cut(self, length: int) -> None:
        """Forget all but the first inferences."""
        while len(self.inferences) > length:
            inference = self.inferences.pop()
            if self.new.pop():
                self.network.remove(inference.first, inference.second)
                del self.place[inference.first, inference.second]

    def steps(self) -> list[OrderStep]:
        """All inferences as steps, where each was added with its flow."""
        return [x.step(x.flow) for x in self.inferences if x.flow is not None]

    def refute(self, op: int) -> Conflict | None:
        """Show that an op does not fit."""
        forced = self.network.forced(op, self.budget)
        if forced is None:
            return None
        needs = self.premises(op, (), (), forced)
        return Conflict(op, needs, self.rest(needs))

    def premises(
        self, op: int, before: tuple[int, ...], after: tuple[int, ...], forced: Forced
    ) -> tuple[Inference, ...]:
        """The inferences that a flow needs, in their order."""
        pairs = find_premises(self.network, self.place, op, before, after, forced)
        return tuple(self.inferences[place] for place in sorted(self.place[pair] for pair in pairs))

    def rest(self, needs: Sequence[Inference]) -> frozenset[Inference]:
        """The suppositions behind some inferences; those not explained so far are explained."""
        waiting = list(needs)
        while waiting:
            inference = waiting[-1]
            if inference.rests is not None:
                waiting.pop()
                continue
            if not inference.needs:
                self.explain(inference)
            unknown = [need for need in inference.needs if need.rests is None]
            waiting += unknown
            if not unknown:
                inference.rests = frozenset().union(*(need.rests or () for need in inference.needs))
        return frozenset().union(*(need.rests or () for need in needs))

    def explain(self, inference: Inference) -> None:
        """Find out why an inference is implied by those before it."""
        limit = self.place[inference.first, inference.second]
        later = list(takewhile(lambda pair: self.place[pair] >= limit, reversed(self.place)))
        for pair in later:
            self.network.remove(*pair)
        try:
            if inference.flow is None and not inference.imply(self.network, self.budget):
                raise UnshownError
            assert inference.flow is not None
            inference.needs = self.premises(*inference.assumed(), inference.flow)
        finally:
            for pair in later:
                self.network.add(*pair)


def list_steps(graph: Graph, budget: int, conflict: Conflict, most: int) -> list[Step]:
    """Return the steps of a conflict that rests on nothing.

    What several branches need is shown once, before the first of them.

    Raises
    ------
    TooLongError
        If there are more steps than `most`.
    UnshownError
        If a step does not hold after all.
    """
    return _StepList(FlowNetwork(graph), budget, most).write(conflict)


class _StepList:
    """Steps so far, and what is known after them: the flows of each rest on that alone."""

    def __init__(self, network: FlowNetwork, budget: int, most: int) -> None:
        self.network, self.budget, self.most = network, budget, most
        self.steps: list[Step] = []
        self.known: set[Inference] = set()
        self.open: list[tuple[Inference, list[tuple[Inference, bool]]]] = []

    def write(self, conflict: Conflict) -> list[Step]:
        # What is to be done, the next last: inferences to show; or how a branch (or all) is
        # refuted, with what follows from it.
        waiting: list[Inference | tuple[Conflict, Inference | None]] = [(conflict, None)]
        waiting += reversed(conflict.needs)
        while waiting:
            if len(self.steps) > self.most:
                raise TooLongError
            item = waiting.pop()
            if isinstance(item, tuple):
                self.steps.append(OpStep(item[0].op, self.forced(item[0].op)))
                if item[1] is not None:
                    self.close_branch(item[1])
            elif item not in self.known:
                missing = [x for x in self.inputs(item) if x not in self.known]
                if missing:
                    waiting += [item, *reversed(missing)]
                elif item.refuted is None:
                    self.steps.append(item.step(self.forced(*item.assumed())))
                    self.learn(item)
                else:
                    supposed, why = item.refuted
                    self.open_branch(supposed)
                    waiting += [(why, item), *reversed(why.needs)]
        return self.steps

    def inputs(self, inference: Inference) -> list[Inference]:
        """What has to be shown before an inference, or before its contrary is supposed.

        That is all that is used in the branch and rests on nothing that will be supposed in it.
        """
        if inference.refuted is None:
            return list(inference.needs)
        outside = {supposed for supposed, _ in self.open}
        found: list[Inference] = []
        waiting = list(reversed(inference.refuted[1].needs))
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

    def forced(self, op: int, before: tuple[int, ...] = (), after: tuple[int, ...] = ()) -> Forced:
        """A flow by what is known so far."""
        forced = self.network.forced(op, self.budget, before, after)
        if forced is None:
            raise UnshownError
        return forced

    def open_branch(self, supposed: Inference) -> None:
        """Suppose what is to be refuted."""
        self.steps.append(SupposeStep(supposed.first, supposed.second))
        self.open.append((supposed, []))
        self.learn(supposed)

    def close_branch(self, inference: Inference) -> None:
        """Forget what rests on the last supposition; the contrary is known now."""
        _, inside = self.open.pop()
        for item, new in reversed(inside):
            self.known.discard(item)
            if new:
                self.network.remove(item.first, item.second)
        self.learn(inference)

    def learn(self, inference: Inference) -> None:
        """Add what is known now; it is forgotten with the branch it was shown in."""
        new = self.network.add(inference.first, inference.second)
        self.known.add(inference)
        if self.open:
            self.open[-1][1].append((inference, new))


def find_premises(
    network: FlowNetwork,
    places: Mapping[Precedence, int],
    op: int,
    before: Iterable[int],
    after: Iterable[int],
    forced: Forced,
) -> set[Precedence]:
    """Return precedences with which an op still does not fit a budget, for the reason given.

    These are all by which the same ops have ended, the same buffers are still held and the same
    bytes are passed on. Fewer might do, but what the flow shows has no slack to speak of. Of the
    precedences that the network has and the graph has not, those of low `places` are preferred; the
    rest is as :meth:`FlowNetwork.forced` takes and returns it.
    """
    behind = _Spread(network.behind, places, [op, *after], backward=False)
    wanted = behind.paths(network.others(op, source) for _, source in network.pairs.get(op, ()))
    wanted |= behind.paths(network.holders.values())
    for start, flow in _leaves(network, op, [op, *before], forced):
        ahead = _Spread(network.before, places, start, backward=True)
        wanted |= ahead.paths({u} for u in ahead.level)
        wanted |= {(w, u) for u, w, _ in flow.passes if (w, u) in places}
    return wanted


def _leaves(
    network: FlowNetwork, op: int, start: list[int], forced: Forced
) -> list[tuple[list[int], Flow]]:
    """All cases: what is assumed to have ended, and the flow."""
    if isinstance(forced, Flow):
        return [(start, forced)]
    more = [*start, *network.others(op, forced.input)]
    free = _leaves(network, op, more, forced.free)
    return [*free, *_leaves(network, op, start, forced.held)]


class _Spread:
    """All ops that are reached from some, each by precedences of low places."""

    def __init__(
        self,
        neighbours: Sequence[Iterable[int]],
        places: Mapping[Precedence, int],
        start: Iterable[int],
        *,
        backward: bool,
    ) -> None:
        self.level: dict[int, int] = {}
        self.came: dict[int, tuple[int, Precedence | None]] = {}
        self.start = set(start)
        waiting: list[tuple[int, int, int]] = [(GRAPH, v, v) for v in self.start]
        while waiting:
            level, v, source = heapq.heappop(waiting)
            if v in self.level:
                continue
            self.level[v] = level
            pair = (v, source) if backward else (source, v)
            self.came[v] = source, pair if pair in places else None
            for w in neighbours[v]:
                if w not in self.level:
                    place = places.get((w, v) if backward else (v, w), GRAPH)
                    heapq.heappush(waiting, (max(level, place), w, v))

    def paths(self, groups: Iterable[Iterable[int]]) -> set[Precedence]:
        """The precedences by which an op of each group is reached, the one of lowest place."""
        found: set[Precedence] = set()
        for group in groups:
            reached = [u for u in group if u in self.level]
            v = min(reached, key=self.level.__getitem__, default=None)
            while v is not None and v not in self.start:
                v, pair = self.came[v]
                if pair is not None:
                    found.add(pair)
        return found
