"""What a step of a certificate rests on: precedences that it can not do without."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from optsched.certificate.flow import FlowNetwork
from optsched.check.steps import Flow, Forced

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
) -> set[Precedence]:
    """Return precedences with which an op still does not fit a budget, for the reason given.

    These are all by which the same ops have ended, the same buffers are still held and the same
    bytes are passed on. Fewer might do, but what the flow shows has no slack to speak of.

    Parameters
    ----------
    network
        The graph with all precedences that are known.
    places
        Those that the graph does not have, each with its place: low ones are preferred.
    op, before, after, forced
        As :meth:`FlowNetwork.forced` takes and returns them.
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
