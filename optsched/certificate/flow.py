"""Flows that force bytes at an op, over the ops and buffers of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from optsched.flow import UNBOUNDED, add_arc, empty_arcs, max_flow
from optsched.graph import Graph
from optsched.proof import Flow


class Network:
    """A graph as its flows see it, with the precedences that are known besides.

    Parameters
    ----------
    graph
        The graph.
    """

    def __init__(self, graph: Graph) -> None:
        arrays = graph.arrays
        n = arrays.op_count
        self.pred: list[list[int]] = [arrays.pred.row(v).tolist() for v in range(n)]
        self.succ: list[list[int]] = [arrays.succ.row(v).tolist() for v in range(n)]
        self.born: list[int] = arrays.alloc.tolist()
        self.size: list[int] = arrays.size.tolist()
        self.initial = arrays.initial
        self.kept = int(arrays.size[arrays.keep].sum())
        self.users: dict[int, list[int]] = {}
        for b, size in enumerate(self.size):
            users = arrays.user.row(b).tolist()
            if not users and arrays.producer[b] >= 0:
                users = [int(arrays.producer[b])]
            if size and users and not arrays.keep[b]:
                self.users[b] = users

    def add(self, first: int, second: int) -> None:
        """Add a precedence."""
        if first not in self.pred[second]:
            self.pred[second].append(first)
            self.succ[first].append(second)

    def ancestors(self, ops: Iterable[int]) -> set[int]:
        """The ops and all that run before one of them."""
        return _reach(self.pred, ops)

    def descendants(self, ops: Iterable[int]) -> set[int]:
        """The ops and all that run after one of them."""
        return _reach(self.succ, ops)

    def forced(
        self, op: int, before: Iterable[int] = (), after: Iterable[int] = ()
    ) -> tuple[int, Flow]:
        """Return the bytes that an op forces, and the flow that shows it.

        Parameters
        ----------
        op
            The op that runs.
        before, after
            Ops that are assumed to have ended by then, or not to have begun.
        """
        done = self.ancestors([op, *before]) - {op}
        later = self.descendants([op, *after])
        value = self.initial + self.born[op] + sum(self.born[u] for u in done)
        free = []
        for b, users in self.users.items():
            if later.isdisjoint(users):
                value -= self.size[b]
                if not done.issuperset(users):
                    free.append(b)
        sent, flow = self._push(free, done, later)
        return value + sent, flow

    def _push(self, free: list[int], done: set[int], later: set[int]) -> tuple[int, Flow]:
        """Send as much as possible from the buffers to ops that are neither done nor later."""
        n = len(self.born)
        source, sink = n + len(free), n + len(free) + 1
        arcs = [(source, n + i, self.size[b]) for i, b in enumerate(free)]
        releases = range(len(arcs), len(arcs) + sum(len(self.users[b]) for b in free))
        arcs += [(n + i, u, UNBOUNDED) for i, b in enumerate(free) for u in self.users[b]]
        middle = [u for u in range(n) if u not in done and u not in later]
        passes = range(len(arcs), len(arcs) + sum(len(self.pred[u]) for u in middle))
        arcs += [(u, w, UNBOUNDED) for u in middle for w in self.pred[u]]
        arcs += [(u, sink, self.born[u]) for u in middle if self.born[u]]
        net = empty_arcs(sink + 1, len(arcs))
        for e, (tail, head, room) in enumerate(arcs):
            add_arc(net, 2 * e, tail, head, room)
        sent = max_flow.for_work(8 * len(arcs))(net, source, sink, UNBOUNDED)
        used = net.room[1::2].tolist()

        def listed(part: range, name: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
            return tuple((name[arcs[e][0]], arcs[e][1], used[e]) for e in part if used[e])

        names = [*range(n), *free]
        return int(sent), Flow(listed(releases, names), listed(passes, names))


def _reach(neighbours: Sequence[Iterable[int]], start: Iterable[int]) -> set[int]:
    found = set(start)
    stack = list(found)
    while stack:
        for w in neighbours[stack.pop()]:
            if w not in found:
                found.add(w)
                stack.append(w)
    return found
