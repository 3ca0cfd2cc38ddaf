"""What a step of a certificate rests on: the precedences it can not do without, and few of them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from optsched.certificate.flow import FlowNetwork
from optsched.check.steps import Flow, Forced
from optsched.model.inplace import Pair

Precedence = tuple[int, int]
"""The earlier op and the later one."""

GRAPH = -1
"""Place of what the graph itself says."""


def find_premises(
    network: FlowNetwork,
    places: Mapping[Precedence, int],
    op: int,
    before: Iterable[int],
    after: Iterable[int],
    forced: Forced,
    budget: int,
) -> set[Precedence]:
    """Return precedences with which an op still does not fit a budget.

    Parameters
    ----------
    network
        The graph with all precedences that are known.
    places
        Those that the graph does not have, each with its place: low ones are preferred.
    op, before, after, forced, budget
        As :meth:`FlowNetwork.forced` takes and returns them.
    """
    behind = _Spread(network.behind, places, [op, *after], backward=False)
    pairs = network.sharable(op, set(behind.level))
    wanted: set[Precedence] = set()
    for _, source in network.pairs.get(op, ()):
        held = [u for u in network.others(op, source) if u in behind.level]
        if held:
            wanted |= behind.path(min(held, key=behind.level.__getitem__))
    for start, spared, flow in _leaves(network, op, [op, *before], pairs, forced):
        ahead = _Spread(network.before, places, start, backward=True)
        leaf = _Leaf(network, op, ahead, behind, flow)
        wanted |= {(w, u) for u, w, _ in flow.passes if (w, u) in places}
        wanted |= leaf.needed(leaf.value() - network.spared(spared) - budget - 1)
    return wanted


def _leaves(
    network: FlowNetwork, op: int, start: list[int], pairs: list[Pair], forced: Forced
) -> list[tuple[list[int], list[Pair], Flow]]:
    """All cases: what is assumed to have ended, what may be overwritten, and the flow."""
    if isinstance(forced, Flow):
        return [(start, pairs, forced)]
    more = [*start, *network.others(op, forced.input)]
    held = [pair for pair in pairs if pair[1] != forced.input]
    return [
        *_leaves(network, op, more, pairs, forced.free),
        *_leaves(network, op, start, held, forced.held),
    ]


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

    def path(self, v: int) -> set[Precedence]:
        """The precedences by which an op is reached."""
        found = set()
        while v not in self.start:
            v, pair = self.came[v]
            if pair is not None:
                found.add(pair)
        return found


class _Leaf:
    """A flow as the checker adds it up."""

    def __init__(
        self, network: FlowNetwork, op: int, ahead: _Spread, behind: _Spread, flow: Flow
    ) -> None:
        self.network, self.op, self.ahead, self.behind = network, op, ahead, behind
        self.ended = set(ahead.level) - {op}
        self.left = {
            b: network.size[b]
            for b, holders in network.holders.items()
            if not any(u in behind.level for u in holders)
        }
        self.absorbed = [0] * len(network.born)
        for b, u, amount in flow.releases:
            self.left[b] -= amount
            self.absorbed[u] += amount
        for u, w, amount in flow.passes:
            self.absorbed[u] -= amount
            self.absorbed[w] += amount
        self.made: dict[int, list[int]] = {}
        for b, u in network.makers.items():
            self.made.setdefault(u, []).append(b)
            if b in self.left and u not in self.ended:
                self.send(b, u)

    def send(self, b: int, u: int) -> int:
        """Send what is left of a buffer to an op, as far as it can absorb that."""
        amount = max(0, min(self.left[b], self.network.born[u] - self.absorbed[u]))
        self.left[b] -= amount
        self.absorbed[u] += amount
        return amount

    def value(self) -> int:
        """Bytes that are live at least."""
        born = self.network.born
        value = self.network.initial + born[self.op] + sum(born[u] for u in self.ended)
        return value - sum(self.left.values())

    def needed(self, slack: int) -> set[Precedence]:
        """The precedences that are needed to show as many bytes but for a slack.

        Not needed is that an op has ended, where what it makes would pay for itself; nor that a
        buffer is still held, where its maker can pay for it.
        """
        network = self.network
        found: set[Precedence] = set()
        kept = set()
        for u in sorted(self.ended, key=lambda u: (-self.ahead.level[u], u)):
            if self.ahead.level[u] == GRAPH:
                kept.add(u)
                continue
            mine = [b for b in self.made.get(u, ()) if b in self.left]
            loss = network.born[u] - min(network.born[u], sum(self.left[b] for b in mine))
            if loss > slack:
                kept.add(u)
                found |= self.ahead.path(u)
            else:
                slack -= loss
                for b in mine:
                    self.send(b, u)
        for b, holders in network.holders.items():
            if b in self.left:
                continue
            level = self.behind.level
            user = min((u for u in holders if u in level), key=level.__getitem__)
            if level[user] == GRAPH:
                continue
            maker = network.makers.get(b)
            room = 0
            if maker is not None and maker not in kept:
                room = network.born[maker] - self.absorbed[maker]
            loss = network.size[b] - min(network.size[b], room)
            if loss > slack:
                found |= self.behind.path(user)
            else:
                slack -= loss
                self.left[b] = network.size[b]
                if maker is not None and room:
                    self.send(b, maker)
        return found
