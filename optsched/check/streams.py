"""The checker's own account of streams: which buffers may share bytes, and what has to lie apart.

`u` precedes `v` if a chain leads from `u` to `v` whose links are the graph's dependencies and the
ops that follow each other in a stream. Buffer `b` is *before* `c` if all ops that use `b`, the one
that allocates it included, precede the op that allocates `c`. Two buffers may share a byte only if
one is before the other; that is so in every execution, whatever runs at the same time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from optsched.check.lives import maker, touched
from optsched.errors import PlanError
from optsched.model.graph import Graph


class Precedence:
    """Who precedes whom when the streams of a graph run an order that keeps all dependencies.

    An op that precedes `v` does so with all earlier ops of its stream. So those that precede `v`
    are the first few of each stream, and their number says which; it never falls along a stream.
    """

    def __init__(self, graph: Graph, order: Sequence[int]) -> None:
        self.graph, self.order = graph, order
        numbers = {name: s for s, name in enumerate(graph.streams)}
        self.stream = [numbers[op.stream] for op in graph.ops]
        self.place = [0] * len(graph.ops)
        self.rows: list[list[int]] = [[] for _ in numbers]
        before = np.zeros((len(graph.ops), len(numbers)), np.int64)
        for v in order:
            row, known = self.rows[self.stream[v]], before[v]
            for u in (*graph.predecessors[v], *row[-1:]):
                np.maximum(known, before[u], out=known)
                known[self.stream[u]] = max(known[self.stream[u]], self.place[u] + 1)
            self.place[v] = len(row)
            row.append(v)
        self.behind = self._behind(self._first_after(before))

    def _first_after(self, before: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the first place in each stream whose op each op precedes; its length if none."""
        first = np.zeros_like(before)
        for s, row in enumerate(self.rows):
            places = np.arange(len(row))
            for t, other in enumerate(self.rows):
                first[row, t] = np.searchsorted(before[other, s], places, side="right")
        return first

    def _behind(self, first: npt.NDArray[np.int64]) -> list[list[int]]:
        """Return the first place in each stream whose op all users of a buffer precede."""
        behind = np.zeros((len(self.graph.buffers), len(self.rows)), np.int64)
        behind[list(self.graph.kept)] = [len(row) for row in self.rows]
        for v, roots in enumerate(touched(self.graph)):
            for b in roots:
                np.maximum(behind[b], first[v], out=behind[b])
        found: list[list[int]] = behind.tolist()
        return found

    def before(self, b: int, c: int) -> bool:
        """Return True if `c` may lie where `b` has been."""
        op = maker(self.graph, c)
        return op is not None and self.behind[b][self.stream[op]] <= self.place[op]


def check_sharing(graph: Graph, known: Precedence, placed: Mapping[int, int]) -> None:
    """Check that buffers which share a byte come one before the other.

    Buffers come in the sequence in which the order allocates them. Each byte remembers who had it
    last: those before that one precede it, so it alone needs to be looked at.

    Parameters
    ----------
    placed
        Offsets of the buffers of one pool that have bytes, by id.

    Raises
    ------
    PlanError
        Naming two buffers that may be in use at once, and where they lie.
    """
    step = {v: at for at, v in enumerate(known.order)}
    makers = {b: maker(graph, b) for b in placed}
    turn = {b: -1 if op is None else step[op] for b, op in makers.items()}
    # Stretch `i` of bytes is `[edges[i], edges[i + 1])`.
    edges = [0]
    owners: list[int | None] = [None]
    for b in sorted(placed, key=lambda b: turn[b]):
        low, high = placed[b], placed[b] + graph.buffers[b].size
        first, last = _cut(edges, owners, low), _cut(edges, owners, high)
        for owner in dict.fromkeys(owners[first:last]):
            if owner is not None and not known.before(owner, b):
                raise PlanError(_clash(graph, owner, b, placed))
        edges[first:last], owners[first:last] = [low], [b]


def _cut(edges: list[int], owners: list[int | None], at: int) -> int:
    """Let a stretch begin at a byte; return which one."""
    i = bisect_right(edges, at) - 1
    if edges[i] < at:
        i += 1
        edges.insert(i, at)
        owners.insert(i, owners[i - 1])
    return i


def _clash(graph: Graph, one: int, other: int, placed: Mapping[int, int]) -> str:
    where = " and ".join(
        f"{graph.buffers[b].name!r} at [{placed[b]}, {placed[b] + graph.buffers[b].size})"
        for b in (one, other)
    )
    return f"buffers {where} overlap and may be in use at once on several streams"


def check_antichain(graph: Graph, known: Precedence, buffers: Iterable[int]) -> int:
    """Return the bytes of buffers that pairwise may be in use at once: no slab is smaller.

    Raises
    ------
    PlanError
        If two of them come one before the other.
    """
    ids = sorted(set(buffers))
    # What is before any of the buffers that a stream allocates is before the last of them; the
    # last two, since that one may be the buffer itself.
    last: dict[int, list[tuple[int, int]]] = {}
    for c in ids:
        op = maker(graph, c)
        if op is not None:
            row = last.get(known.stream[op], [])
            last[known.stream[op]] = sorted([*row, (known.place[op], c)])[-2:]
    for _, c in chain.from_iterable(last.values()):
        for b in ids:
            if b != c and known.before(b, c):
                one, other = (graph.buffers[x].name for x in sorted((b, c)))
                raise PlanError(f"buffers {one!r} and {other!r} are never in use at once")
    return sum(graph.buffers[b].size for b in ids)


def most_in_conflict(graph: Graph, known: Precedence, live: Iterable[int]) -> int:
    """Return the largest total size of buffers that pairwise may be in use at once.

    A library finds a flow of bytes from buffers to buffers behind them, of each no more than its
    size out and as many in, and a set of buffers. Neither is trusted. Each byte that flows ties a
    byte of the one buffer to a byte of the other, so the bytes of all buffers make chains, as many
    as there are bytes less the flow; of a conflicting set each chain has one byte at most. So none
    is larger than that, and the set that was found has to be as large. Both are verified here.

    Parameters
    ----------
    live
        Ids of the buffers that have bytes and are ever live.
    """
    ids = [b for b in live if graph.buffers[b].size]
    total = sum(graph.buffers[b].size for b in ids)
    arcs, flow, chosen = _solve(graph, known, ids)
    amount = _check_flow(arcs, flow, [graph.buffers[b].size for b in ids])
    size = check_antichain(graph, known, chosen)
    if size != total - amount:
        raise PlanError(f"a flow shows {total - amount} bytes to conflict at most, a set {size}")
    return size


Arcs = list[tuple[int, int]]


def _solve(graph: Graph, known: Precedence, ids: list[int]) -> tuple[Arcs, list[int], list[int]]:
    """Return arcs between buffers and places, what flows in each, and a set of buffers.

    Node `i` is the `i`-th buffer as one that is before others, `k + i` as one that others are
    before, and the ops follow: from one all later ones of its stream are reached.
    """
    from ortools.graph.python import max_flow

    k = len(ids)
    sizes = [graph.buffers[b].size for b in ids]
    most = sum(sizes)
    source = 2 * k + len(graph.ops)
    arcs: Arcs = []
    for stream, row in enumerate(known.rows):
        arcs += [(2 * k + u, 2 * k + v) for u, v in pairwise(row)]
        for i, b in enumerate(ids):
            at = known.behind[b][stream]
            if at < len(row):
                arcs.append((i, 2 * k + row[at]))
    for i, b in enumerate(ids):
        op = maker(graph, b)
        if op is not None:
            arcs.append((2 * k + op, k + i))
    network = max_flow.SimpleMaxFlow()
    for tail, head in arcs:
        network.add_arc_with_capacity(tail, head, most)
    for i, size in enumerate(sizes):
        network.add_arc_with_capacity(source, i, size)
        network.add_arc_with_capacity(k + i, source + 1, size)
    if network.solve(source, source + 1) != network.OPTIMAL:
        raise PlanError(f"{graph.name}: no flow was found for {most} bytes")
    flow = [int(network.flow(a)) for a in range(len(arcs))]
    inside = set(network.get_source_side_min_cut())
    chosen = [b for i, b in enumerate(ids) if i in inside and k + i not in inside]
    return arcs, flow, chosen


def _check_flow(arcs: Arcs, flow: Sequence[int], sizes: Sequence[int]) -> int:
    """Return the bytes that flow from buffers to buffers, no more of each than its size."""
    k = len(sizes)
    net: dict[int, int] = {}
    for (tail, head), amount in zip(arcs, flow, strict=True):
        if amount < 0:
            raise PlanError("a flow runs backwards")
        net[tail] = net.get(tail, 0) + amount
        net[head] = net.get(head, 0) - amount
    for node, amount in net.items():
        size = sizes[node % k] if node < 2 * k else 0
        if not -size * (node >= k) <= amount <= size * (node < k):
            raise PlanError("a flow takes more of a buffer than its size, or loses bytes")
    return sum(max(0, amount) for node, amount in net.items() if node < k)
