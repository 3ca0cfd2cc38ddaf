"""The trail of precedences: each supposed or inferred, with its reason, and the steps they give.

As in a SAT solver, the *trail* lists suppositions and the precedences that follow from them, and
each conflict has its premises. The premises show on which suppositions a conflict rests; it refutes
the last of these, and suppositions in between that it does not rest on need not be looked at. From
a conflict that rests on no supposition, the steps of a certificate are listed: only those that the
conflict needs.

Example: suppose `a` before `b`, then `c` before `d`; now `e` does not fit, because of `a` before
`b` alone. So `b` runs before `a`, and the other sequence of `c` and `d` need not be tried.

References
----------
Marques-Silva and Sakallah, "GRASP: a search algorithm for propositional satisfiability", 1999.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from optsched.check.certificate import Step
from optsched.check.network import Flow, Forced
from optsched.check.steps import OpStep, OrderStep, SupposeStep
from optsched.model.graph import Graph
from optsched.ordering.bound.flow import FlowNetwork

Precedence = tuple[int, int]
"""The earlier op and the later one."""

GRAPH = -1
"""Place of the precedences of the graph itself, before all inferences."""


class UnshownError(Exception):
    """Raised if no flow proves an inference of the search."""


class TooLongError(Exception):
    """Raised if a proof has more steps than may be written."""


@dataclass(frozen=True, slots=True, eq=False)
class Conflict:
    """A proof that no order is within the budget: op `op` does not fit under the premises `needs`.

    `rests` are the suppositions that the premises rest on.
    """

    op: int
    needs: tuple[Inference, ...]
    rests: frozenset[Inference]


@dataclass(slots=True, eq=False)
class Inference:
    """An inference that `first` runs before `second` within the budget and the suppositions."""

    first: int
    second: int
    """`first` and `second`: the ops."""
    refuted: tuple[Inference, Conflict] | None = None
    """If the contrary was refuted: the contrary, and the conflict that refuted it."""
    at: int | None = None
    flow: Forced | None = None
    """`at` and `flow`: if a flow implies it: the op that would not fit otherwise, and the flow that
    proves so."""
    needs: tuple[Inference, ...] = ()
    """Premises of an implied inference."""
    rests: frozenset[Inference] | None = None
    """The suppositions that it rests on; None until they are computed."""

    def assumed(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Return the op of the flow, the ops assumed to have ended then, and those to start later.

        The flow assumes the contrary: that `second` runs before `first`.
        """
        if self.at == self.first:
            return self.first, (self.second,), ()
        return self.second, (), (self.first,)

    def imply(self, network: FlowNetwork, budget: int) -> bool:
        """Look for a flow that proves the inference; return True if there is one."""
        # The budget may be exceeded at either of the two ops.
        for at in (self.first, self.second):
            self.at = at
            op, before, after = self.assumed()
            self.flow = network.forced(op, budget, before, after)
            if self.flow is not None:
                return True
        self.at = None
        return False

    def step(self, flow: Forced) -> OrderStep:
        """Return the step that proves the inference by a flow."""
        return OrderStep(self.first, self.second, self.assumed()[0], flow)


def suppose(first: int, second: int) -> Inference:
    """Return a supposition, an inference that rests on itself."""
    made = Inference(first, second)
    # A supposition rests on itself, and all that follows from it as well.
    made.rests = frozenset((made,))
    return made


def contrary(supposed: Inference, why: Conflict) -> Inference:
    """Return the inference that holds because a supposition is refuted."""
    rests = why.rests - {supposed}
    return Inference(supposed.second, supposed.first, (supposed, why), rests=rests)


class Trail:
    """Inferences in the sequence in which they were found, each from those before it.

    `network`: the network of the graph; all precedences of the trail are added to it. `budget`:
    bytes.
    """

    def __init__(self, network: FlowNetwork, budget: int) -> None:
        self.network, self.budget = network, budget
        self.inferences: list[Inference] = []
        self.new: list[bool] = []
        self.place: dict[Precedence, int] = {}

    def push(self, inference: Inference) -> None:
        """Add an inference."""
        pair = (inference.first, inference.second)
        # A pair that was known already must not be removed with this inference.
        self.new.append(self.network.add(*pair))
        if self.new[-1]:
            self.place[pair] = len(self.inferences)
        self.inferences.append(inference)

    def imply(self, first: int, second: int) -> None:
        """Add a precedence if a flow proves it."""
        inference = Inference(first, second)
        if inference.imply(self.network, self.budget):
            self.push(inference)

    def cut(self, length: int) -> None:
        """Remove all inferences after the first `length`."""
        while len(self.inferences) > length:
            inference = self.inferences.pop()
            if self.new.pop():
                self.network.remove(inference.first, inference.second)
                del self.place[inference.first, inference.second]

    def steps(self) -> list[OrderStep]:
        """Return the inferences that have a flow as steps."""
        return [x.step(x.flow) for x in self.inferences if x.flow is not None]

    def refute(self, op: int) -> Conflict | None:
        """Return the conflict that an op does not fit the budget; None if no flow proves it."""
        forced = self.network.forced(op, self.budget)
        if forced is None:
            return None
        needs = self.premises(op, (), (), forced)
        return Conflict(op, needs, self.rest(needs))

    def premises(
        self, op: int, before: tuple[int, ...], after: tuple[int, ...], forced: Forced
    ) -> tuple[Inference, ...]:
        """Return the inferences that a flow needs, in the sequence of the trail."""
        pairs = find_premises(self.network, self.place, op, before, after, forced)
        return tuple(self.inferences[place] for place in sorted(self.place[pair] for pair in pairs))

    def rest(self, needs: Sequence[Inference]) -> frozenset[Inference]:
        """Return the suppositions that some inferences rest on.

        Inferences without premises so far are explained first, with a stack in place of recursion.
        """
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
        """Find the premises of an inference among those before it."""
        # Later precedences are removed from the network for the search, so that they become no
        # premises.
        limit = self.place[inference.first, inference.second]
        # `place` keeps the sequence of insertion, so the later ones are its end.
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
    """Return the steps that prove a conflict which rests on no supposition.

    An inference that several branches need is proved once, before the first of them.

    Raise `TooLongError` if there are more steps than `most`. Raise `UnshownError` if no flow proves
    a step from the steps before it.
    """
    return _StepList(FlowNetwork(graph), budget, most).write(conflict)


class _StepList:
    """The steps written so far, and the precedences known after them, which later flows may use."""

    def __init__(self, network: FlowNetwork, budget: int, most: int) -> None:
        self.network, self.budget, self.most = network, budget, most
        self.steps: list[Step] = []
        self.known: set[Inference] = set()
        self.open: list[tuple[Inference, list[tuple[Inference, bool]]]] = []

    def write(self, conflict: Conflict) -> list[Step]:
        # A stack of work: inferences to prove; or the conflict that closes a branch (or the full
        # proof), with the inference that follows from it. Items are pushed in reverse.
        waiting: list[Inference | tuple[Conflict, Inference | None]] = [(conflict, None)]
        waiting += reversed(conflict.needs)
        while waiting:
            # The limit is on steps, as files grow with them.
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
        """Return the inferences to prove before this one, or before its contrary is supposed.

        In the second case these are the inferences used in the branch that do not rest on a
        supposition made inside it: proved outside, they can be used by other branches as well.
        """
        if inference.refuted is None:
            return list(inference.needs)
        # Suppositions that are open around this branch.
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
        """Return a flow that uses the precedences known so far."""
        forced = self.network.forced(op, self.budget, before, after)
        if forced is None:
            raise UnshownError
        return forced

    def open_branch(self, supposed: Inference) -> None:
        """Write the supposition of a branch; it holds until the branch is closed."""
        self.steps.append(SupposeStep(supposed.first, supposed.second))
        self.open.append((supposed, []))
        self.learn(supposed)

    def close_branch(self, inference: Inference) -> None:
        """Remove the inferences of the last branch, and add the contrary of its supposition."""
        _, inside = self.open.pop()
        for item, new in reversed(inside):
            self.known.discard(item)
            # Only pairs that this branch has added.
            if new:
                self.network.remove(item.first, item.second)
        self.learn(inference)

    def learn(self, inference: Inference) -> None:
        """Add an inference to the known ones, until the branch in which it was proved is closed."""
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
    """Return the precedences that the proof `forced` at an op needs.

    With them, the same ops have ended, the same buffers are still held and the flow passes along
    the same arcs. Fewer might be enough, but a flow rarely has slack. Of the precedences that the
    network adds to the graph, those of low `places` are preferred. The other arguments are those
    of :meth:`FlowNetwork.forced`.
    """
    behind = _Spread(network.after, places, [op, *after], backward=False)
    wanted = behind.paths(network.others(op, source) for _, source in network.pairs.get(op, ()))
    wanted |= behind.paths(network.holders.values())
    for start, flow in _leaves(network, op, [op, *before], forced):
        # A path in which the latest precedence is as early as possible: earlier ones rest on fewer
        # suppositions.
        ahead = _Spread(network.before, places, start, backward=True)
        wanted |= ahead.paths({u} for u in ahead.level)
        wanted |= {(w, u) for u, w, _ in flow.passes if (w, u) in places}
    return wanted


def _leaves(
    network: FlowNetwork, op: int, start: list[int], forced: Forced
) -> list[tuple[list[int], Flow]]:
    """Return all cases of a proof: the ops assumed to have ended, and the flow."""
    if isinstance(forced, Flow):
        return [(start, forced)]
    more = [*start, *network.others(op, forced.input)]
    free = _leaves(network, op, more, forced.free)
    return [*free, *_leaves(network, op, start, forced.held)]


class _Spread:
    """The ops reached from some ops, each by a path whose highest place is as low as possible."""

    def __init__(
        self,
        neighbors: Sequence[Iterable[int]],
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
            for w in neighbors[v]:
                if w not in self.level:
                    place = places.get((w, v) if backward else (v, w), GRAPH)
                    heapq.heappush(waiting, (max(level, place), w, v))

    def paths(self, groups: Iterable[Iterable[int]]) -> set[Precedence]:
        """Return the precedences on the paths to one op per group, the op of the lowest place."""
        found: set[Precedence] = set()
        for group in groups:
            reached = [u for u in group if u in self.level]
            v = min(reached, key=self.level.__getitem__, default=None)
            while v is not None and v not in self.start:
                v, pair = self.came[v]
                if pair is not None:
                    found.add(pair)
        return found
