"""Flows that prove how many bytes are live at an op, over the ops and buffers of a graph.

While `op` runs, the live bytes are those made so far less those of the buffers that have ended. A
buffer can only have ended if all its holders have, and they have made bytes themselves. A flow
assigns the bytes of each buffer that might have ended to undecided ops that must have run in that
case, at most as many to each op as it makes. The bytes of the flow are live in any case: either
the buffer, or what those ops made. The checker adds the flow up without searching for it.

Example: while `op` runs, a buffer of 5 bytes may have been freed by `u`, which makes 3. A flow of 3
from the buffer to `u` proves 3 bytes: before the end of `u` the 5 bytes are live, after it at least
its 3 bytes are.

In an in-place graph a flow may not be enough, as the op may write an output into an input if that
has no other users left. Then two cases are proved apart: the input is free, or it is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from optsched.check.network import Cases, Flow, Forced, Network, reach
from optsched.model.arrays import IntArray
from optsched.model.inplace import Pair, heaviest_matching
from optsched.ordering.kernels.max_flow import UNBOUNDED, Arcs, max_flow

MOST_CASES = 100
"""Most inputs of an op, one within another, that are divided into cases."""


class FlowNetwork(Network):
    """A graph as the checker reads it, with a search for the flows that the checker verifies."""

    def forced(
        self, op: int, budget: int, before: Iterable[int] = (), after: Iterable[int] = ()
    ) -> Forced | None:
        """Return the proof that an op does not fit a budget, or None if no flow proves it.

        When the op runs, the ops `before` are assumed to have ended, and those `after` to start
        later.
        """
        later = reach(self.after, [op, *after])
        pairs = self.sharable(op, later)
        return self._cases(op, budget, [op, *before], later, pairs, MOST_CASES)

    def sharable(self, op: int, later: set[int]) -> list[Pair]:
        """Return the pairs (output, input) that an op may share if the ops `later` run later."""
        return [p for p in self.pairs.get(op, ()) if later.isdisjoint(self.others(op, p[1]))]

    def others(self, op: int, buffer: int) -> set[int]:
        """Return the holders of a buffer, without one op."""
        return self.holders[buffer] - {op}

    def spared(self, pairs: Sequence[Pair]) -> int:
        """Return the most bytes that outputs can share with inputs."""
        return sum(self.size[output] for output in self._matching(pairs).values())

    def _matching(self, pairs: Sequence[Pair]) -> dict[int, int]:
        """Return the output written into each input in a matching that saves most bytes."""
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
        """Compute :meth:`forced` for an op that may write only into the inputs of `pairs`.

        Sketch: subtract the most bytes that these pairs save, and look for a flow. Without a
        flow, divide by an input of the matching. Either it is free, and its other users have
        ended; or it is not, and its pairs are dropped. Both cases are proved in the same way.
        """
        done = reach(self.before, before) - {op}
        matching = self._matching(pairs)
        flow = self._flow(op, budget + self.spared(pairs), done, later)
        if flow is not None or not depth:
            # Proved, or too deep to divide further.
            return flow
        # Only an input that is not certainly free is worth a case.
        open_ = [(-self.size[b], s) for s, b in matching.items() if not done >= self.others(op, s)]
        if not open_:
            return None
        # The largest output first: the case changes the bytes saved most.
        source = min(open_)[1]
        more = [*before, *self.others(op, source)]
        free = self._cases(op, budget, more, later, pairs, depth - 1)
        if free is None:
            return None
        rest = [pair for pair in pairs if pair[1] != source]
        held = self._cases(op, budget, before, later, rest, depth - 1)
        return None if held is None else Cases(source, free, held)

    def _flow(self, op: int, limit: int, done: set[int], later: set[int]) -> Flow | None:
        """Return a flow that proves more than `limit` bytes at an op, or None."""
        value = self.initial + self.born[op] + sum(self.born[u] for u in done)
        free = []
        for b, holders in self.holders.items():
            # Buffers that might have ended are taken off at first; the flow puts bytes back.
            if later.isdisjoint(holders):
                value -= self.size[b]
                if not done.issuperset(holders):
                    free.append(b)
        # Proved without a flow.
        if value > limit:
            return Flow()
        sent, flow = self._push(free, done, later, limit - value)
        return flow if value + sent > limit else None

    def _push(
        self, free: list[int], done: set[int], later: set[int], enough: int
    ) -> tuple[int, Flow]:
        """Send bytes from the buffers to undecided ops; return their number and the flow.

        Sends as many as possible, or until there are more than `enough`. Each buffer tries its own
        producer first, as the checker adds that part of the flow without being told.
        """
        n = len(self.born)
        source, sink = n + len(free), n + len(free) + 1
        arcs = [(source, n + i, self.size[b]) for i, b in enumerate(free)]
        # Ops that have ended count in full, and later ones not at all.
        middle = [u for u in range(n) if u not in done and u not in later]
        arcs += [(u, sink, self.born[u]) for u in middle if self.born[u]]
        open_ = [
            (n + i, b, u) for i, b in enumerate(free) for u in self.holders[b] if u not in done
        ]
        # The producer's own part comes first, as the checker adds it unasked.
        arcs += [(at, u, UNBOUNDED) for at, b, u in open_ if u == self.makers.get(b)]
        said = len(arcs)
        arcs += [(at, u, UNBOUNDED) for at, b, u in open_ if u != self.makers.get(b)]
        passes = len(arcs)
        arcs += [(u, w, UNBOUNDED) for u in middle for w in self.before[u]]
        table = np.array(arcs, np.int64).reshape(-1, 3)
        net = _link(sink + 1, table)
        sent = max_flow.for_work(8 * len(arcs))(net, source, sink, enough, UNBOUNDED)
        # The flow of an arc is the room of its reverse.
        used = net.room[1::2].tolist()
        names = [*range(n), *free]

        def listed(part: range) -> tuple[tuple[int, int, int], ...]:
            return tuple((names[arcs[e][0]], arcs[e][1], used[e]) for e in part if used[e])

        return int(sent), Flow(listed(range(said, passes)), listed(range(passes, len(arcs))))


def _link(nodes: int, arcs: IntArray) -> Arcs:
    """Return the network of rows (tail, head, room); arcs of a node are tried in that sequence."""
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
