"""Peak of a graph on several streams, with a proof that is verified.

The peak is the largest total size of buffers that may pairwise be in use at once. A library
proposes a set of buffers and a flow of bytes; both are verified here in plain integers.

Example: stream 0 runs `p`, which makes `a` (4 bytes), then `q`, which reads `a` and makes `b` (2
bytes). Stream 1 runs `r`, which makes `c` (3 bytes), without a sync. While `q` runs, `a` and `b`
are in use, and `r` may run at the same time: the set {a, b, c} has 9 bytes, and a flow of 9 bytes
proves that no set has more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise

import numpy as np

from optsched.check.lives import maker
from optsched.check.precedence import Precedence
from optsched.errors import PlanError
from optsched.model.graph import Graph
from optsched.runtime.max_flow import largest_flow

Arcs = list[tuple[int, int]]


def check_antichain(graph: Graph, known: Precedence, buffers: Iterable[int]) -> int:
    """Return the total bytes of buffers that may pairwise be in use at once.

    No slab is smaller.

    Raise `PlanError` if one of the buffers is before another.
    """
    ids = sorted(set(buffers))
    # A buffer that is before some buffer allocated by a stream is also before the last one that
    # the stream allocates. The last two are kept, since the last may be the buffer itself.
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
    """Return the largest total size of buffers that may pairwise be in use at once.

    A flow sends bytes from buffers to buffers that come after them; each buffer sends at most its
    size and receives at most its size. Every byte that flows links a byte of one buffer to a byte
    of a later one, so the bytes of all buffers form as many chains as there are bytes less the
    flow. A set of conflicting buffers has at most one byte in each chain, so no such set is larger
    than the number of chains. The set found must have exactly that size.

    `live`: ids of the buffers that are live at some step.
    """
    # Buffers without bytes add nothing to any set.
    ids = [b for b in live if graph.buffers[b].size]
    total = sum(graph.buffers[b].size for b in ids)
    arcs, flow, chosen = _solve(graph, known, ids)
    amount = _check_flow(arcs, flow, [graph.buffers[b].size for b in ids])
    size = check_antichain(graph, known, chosen)
    # Flow and set prove each other: both are right exactly if they meet.
    if size != total - amount:
        raise PlanError(f"a flow shows {total - amount} bytes to conflict at most, a set {size}")
    return size


def _solve(graph: Graph, known: Precedence, ids: list[int]) -> tuple[Arcs, list[int], list[int]]:
    """Return arcs between buffers and places, the flow on each arc, and a set of buffers."""
    arcs, k = _arcs(graph, known, ids), len(ids)
    sizes = np.array([graph.buffers[b].size for b in ids], np.int64)
    own = np.arange(k)
    source = 2 * k + len(graph.ops)
    inner = np.array(arcs, np.int64).reshape(-1, 2)
    found = largest_flow(
        np.concatenate([inner[:, 0], np.full(k, source), k + own]),
        np.concatenate([inner[:, 1], own, np.full(k, source + 1)]),
        # Arcs between places carry any number of bytes.
        np.concatenate([np.full(len(arcs), sizes.sum()), sizes, sizes]),
        (source, source + 1),
    )
    if found is None:
        raise PlanError(f"{graph.name}: no flow was found for {sizes.sum()} bytes")
    inside = set(found.inside.tolist())
    # The minimum cut separates the two nodes of exactly the buffers that are in the largest set.
    chosen = [b for i, b in enumerate(ids) if i in inside and k + i not in inside]
    return arcs, found.sent[: len(arcs)].tolist(), chosen


def _arcs(graph: Graph, known: Precedence, ids: list[int]) -> Arcs:
    """Return arcs along which buffers reach exactly the buffers that they are before.

    Node `i` is the `i`-th buffer as the earlier one of a pair, `k + i` is the same buffer as the
    later one, and `2k + v` is op `v`, which leads to the next op of its stream.
    """
    k, arcs = len(ids), Arcs()
    for stream, row in enumerate(known.rows):
        arcs += [(2 * k + u, 2 * k + v) for u, v in pairwise(row)]
        for i, b in enumerate(ids):
            at = known.free_from[b][stream]
            # An edge to the first such op is enough: the ops of a stream are linked in order.
            if at < len(row):
                arcs.append((i, 2 * k + row[at]))
    for i, b in enumerate(ids):
        op = maker(graph, b)
        if op is not None:
            arcs.append((2 * k + op, k + i))
    return arcs


def _check_flow(arcs: Arcs, flow: Sequence[int], sizes: Sequence[int]) -> int:
    """Return the bytes that flow from buffers to buffers.

    Raise `PlanError` if an amount is negative, bytes get lost on the way, or a buffer sends or
    receives more bytes than its size.
    """
    k = len(sizes)
    net: dict[int, int] = {}
    for (tail, head), amount in zip(arcs, flow, strict=True):
        if amount < 0:
            raise PlanError("a flow runs backwards")
        net[tail] = net.get(tail, 0) + amount
        net[head] = net.get(head, 0) - amount
    # Nodes below k send at most their size, nodes from k to 2k receive at most theirs, and places
    # pass on all.
    for node, amount in net.items():
        size = sizes[node % k] if node < 2 * k else 0
        if not -size * (node >= k) <= amount <= size * (node < k):
            raise PlanError("a flow takes more of a buffer than its size, or loses bytes")
    return sum(max(0, amount) for node, amount in net.items() if node < k)
