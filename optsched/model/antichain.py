"""Largest total size of buffers that pairwise conflict: a lower bound on every slab of an order.

On one stream this is the peak of live bytes. On several streams it is a maximum-weight antichain of
the partial order `<` of :mod:`optsched.model.stream_relation`, weighted by size. By Dilworth's
theorem it equals

    sum of sizes - maximum flow   of   source -> b -> c -> sink   for all b < c,

where the edges at source and sink have the size of the buffer as capacity. The relation `b < c`
holds if the op that allocates `c` comes at or after a certain place of its stream, and `b` has one
such place per stream. The network therefore needs no edge per pair: a buffer has an edge to one
place per stream, and a place has edges to the next place of its stream and to the buffers allocated
there. Its size grows with buffers times streams.

The antichain can exceed the bytes that are live at once in any execution, because buffers can
conflict in pairs although they are never all live together. It is a valid bound on the slab
nevertheless, as offsets are fixed before the execution and each pair needs disjoint bytes.

Example: on each of two streams, one op allocates a buffer of 4 bytes, and a later op on the same
stream frees it. The ops of different streams are not ordered, so the two buffers conflict, and
every slab has at least 8 bytes.

References
----------
R. P. Dilworth. A decomposition theorem for partially ordered sets. Annals of Mathematics, 1950.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.errors import GraphError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.steps import Order
from optsched.model.stream_relation import stream_relation
from optsched.runtime.max_flow import largest_flow


@dataclass(frozen=True, slots=True)
class Antichain:
    """Buffers that pairwise conflict, with their total size."""

    buffers: tuple[int, ...]
    """Buffer ids, ascending."""
    size: int
    """Total size in bytes: a lower bound on every slab with these orders of the streams."""


def largest_antichain(graph: Graph, order: Order) -> Antichain:
    """Return the buffers of largest total size that pairwise conflict in an order on streams.

    Raise `PlanError` if `order` is not a permutation of the ops or breaks a dependency.
    """
    relation = stream_relation(graph, order)
    ranges, size = relation.ranges(), graph.arrays.size
    # Buffers without bytes or steps conflict with nothing that counts.
    ids = np.flatnonzero((size > 0) & (ranges[:, 1] > ranges[:, 0]))
    count, k = len(ids), relation.after.shape[1]
    lengths = np.bincount(relation.stream, minlength=k)
    # Nodes: two per buffer, where paths start and end, then the places of all streams.
    first = 2 * count + np.concatenate([[0], np.cumsum(lengths)])
    free = relation.free[ids]
    # A buffer that is free only after the last place of a stream precedes nothing there.
    buffer, stream = np.nonzero(free < lengths)
    places = np.arange(2 * count, first[-1])
    # All places but the last one of each stream lead to the next place.
    inner = places[~np.isin(places + 1, first)]
    alloc = graph.arrays.birth[ids]
    # Inputs are allocated before everything, so no buffer is before them.
    made = np.flatnonzero(alloc >= 0)
    at = first[relation.stream[alloc[made]]] + relation.place[alloc[made]]
    tails = np.concatenate([buffer, inner, at])
    heads = np.concatenate([first[stream] + free[buffer, stream], inner + 1, count + made])
    found, total = _heaviest(size[ids], tails, heads)
    return Antichain(tuple(ids[found].tolist()), total)


def heaviest_antichain(size: IntArray, before: IntArray) -> int:
    """Return the largest total size of a set in which no element is before another.

    `size`: shape `(k,)`: sizes in bytes. `before`: shape `(pairs, 2)`: all pairs whose first
    element is before the second.
    """
    return _heaviest(size, before[:, 0], len(size) + before[:, 1])[1]


def _heaviest(size: IntArray, tails: IntArray, heads: IntArray) -> tuple[IntArray, int]:
    """Return a set of largest total size without any path between two elements, and its size.

    Element `i` of `k` starts paths at node `i` and ends paths at node `k + i`; paths may pass
    through nodes with other numbers.
    """
    count, total = len(size), int(size.sum())
    own = np.arange(count)
    # A number above all nodes in use; the sink comes after it.
    source = 1 + int(max(2 * count, tails.max(initial=0), heads.max(initial=0)))
    flow = largest_flow(
        np.concatenate([tails, np.full(count, source), count + own]),
        np.concatenate([heads, own, np.full(count, source + 1)]),
        # An edge between two elements is unlimited: the sum of all sizes is more than can flow.
        np.concatenate([np.full(len(tails), total), size, size]),
        (source, source + 1),
    )
    if flow is None:
        raise GraphError(f"no maximum flow found for {total} bytes")
    # Elements on the source side of the minimum cut, without those after one of them.
    inside = np.zeros(source + 2, np.bool_)
    inside[flow.inside] = True
    found = np.flatnonzero(inside[:count] & ~inside[count : 2 * count])
    return found, total - flow.value
