"""Flows that force bytes at an op, over the ops and buffers of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from optsched.check.network import Network, reach
from optsched.check.steps import Cases, Flow, Forced
from optsched.model.arrays import IntArray
from optsched.model.inplace import Pair, heaviest_matching
from optsched.ordering.kernels.max_flow import UNBOUNDED, Arcs, max_flow

MOST_CASES = 100
"""Inputs of an op that may be told apart one after the other."""


class FlowNetwork(Network):
    """A graph as the checker reads it, with the flows that the checker is to be shown."""

    def forced(
        self, op: int, budget: int, before: Iterable[int] = (), after: Iterable[int] = ()
    ) -> Forced | None:
        """Return why an op does not fit a budget, or None if that can not be shown.

        The ops `before` are assumed to have ended when it runs, those `after` not to have begun.
        """
        later = reach(self.behind, [op, *after])
        pairs = self.sharable(op, later)
        return self._cases(op, budget, [op, *before], later, pairs, MOST_CASES)

    def sharable(self, op: int, later: set[int]) -> list[Pair]:
        """Outputs of an op and inputs that it may write them into if the ops `later` run later."""
        return [p for p in self.pairs.get(op, ()) if later.isdisjoint(self.others(op, p[1]))]

    def others(self, op: int, buffer: int) -> set[int]:
        """The holders of a buffer but for one op."""
        return self.holders[buffer] - {op}

    def spared(self, pairs: Sequence[Pair]) -> int:
        """The most bytes that outputs can share with inputs."""
        return sum(self.size[output] for output in self._matching(pairs).values())

    def _matching(self, pairs: Sequence[Pair]) -> dict[int, int]:
        """The output that is written into each input where as many bytes as possible are spared."""
        return heaviest_matching(pairs, {b: self.size[b] for pair in pairs for b in pair})

    def _cases(
        self,
        op: int,
        budget: int,
        before: list[int],
        later: set[int],
        pairs: list[Pair],
        depth: int,
    ) -> Forced | None:
        """Do the work of :meth:`forced` where the op may write into no inputs but those of `pairs`.

        If that spares too many bytes, an input that it is written into is either free or it is not.
        """
        done = reach(self.before, before) - {op}
        matching = self._matching(pairs)
        flow = self._flow(op, budget + self.spared(pairs), done, later)
        if flow is not None or not depth:
            return flow
        open_ = [(-self.size[b], s) for s, b in matching.items() if not done >= self.others(op, s)]
        if not open_:
            return None
        source = min(open_)[1]
        more = [*before, *self.others(op, source)]
        free = self._cases(op, budget, more, later, pairs, depth - 1)
        if free is None:
            return None
        rest = [pair for pair in pairs if pair[1] != source]
        held = self._cases(op, budget, before, later, rest, depth - 1)
        return None if held is None else Cases(source, free, held)

    def _flow(self, op: int, limit: int, done: set[int], later: set[int]) -> Flow | None:
        """Return a flow that shows more than `limit` bytes at an op, if there is one."""
        value = self.initial + self.born[op] + sum(self.born[u] for u in done)
        free = []
        for b, holders in self.holders.items():
            if later.isdisjoint(holders):
                value -= self.size[b]
                if not done.issuperset(holders):
                    free.append(b)
        if value > limit:
            return Flow()
        sent, flow = self._push(free, done, later, limit - value)
        return flow if value + sent > limit else None

    def _push(
        self, free: list[int], done: set[int], later: set[int], enough: int
    ) -> tuple[int, Flow]:
        """Send bytes from the buffers to ops that are neither done nor later.

        As many as possible, or until they are more than `enough`. Each buffer tries the op that
        makes it first: what goes there need not be said.
        """
        n = len(self.born)
        source, sink = n + len(free), n + len(free) + 1
        arcs = [(source, n + i, self.size[b]) for i, b in enumerate(free)]
        middle = [u for u in range(n) if u not in done and u not in later]
        arcs += [(u, sink, self.born[u]) for u in middle if self.born[u]]
        open_ = [
            (n + i, b, u) for i, b in enumerate(free) for u in self.holders[b] if u not in done
        ]
        arcs += [(at, u, UNBOUNDED) for at, b, u in open_ if u == self.makers.get(b)]
        said = len(arcs)
        arcs += [(at, u, UNBOUNDED) for at, b, u in open_ if u != self.makers.get(b)]
        passes = len(arcs)
        arcs += [(u, w, UNBOUNDED) for u in middle for w in self.before[u]]
        table = np.array(arcs, np.int64).reshape(-1, 3)
        net = _link(sink + 1, table)
        sent = max_flow.for_work(8 * len(arcs))(net, source, sink, enough, UNBOUNDED)
        used = net.room[1::2].tolist()
        names = [*range(n), *free]

        def listed(part: range) -> tuple[tuple[int, int, int], ...]:
            return tuple((names[arcs[e][0]], arcs[e][1], used[e]) for e in part if used[e])

        return int(sent), Flow(listed(range(said, passes)), listed(range(passes, len(arcs))))


def _link(nodes: int, arcs: IntArray) -> Arcs:
    """The network of rows (tail, head, room); what leaves a node is tried in the order of rows."""
    count = len(arcs)
    head, room = np.zeros(2 * count, np.int64), np.zeros(2 * count, np.int64)
    head[::2], head[1::2], room[::2] = arcs[:, 1], arcs[:, 0], arcs[:, 2]
    tail = head.reshape(-1, 2)[:, ::-1].ravel()
    order = np.argsort(tail, kind="stable")
    first, following = np.full(nodes, -1, np.int64), np.full(2 * count, -1, np.int64)
    first[tail[order[::-1]]] = order[::-1]
    same = tail[order[1:]] == tail[order[:-1]]
    following[order[:-1][same]] = order[1:][same]
    return Arcs(first, following, head, room)
