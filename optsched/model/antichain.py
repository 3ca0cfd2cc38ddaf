"""The largest total size of buffers that pairwise conflict: no slab of these orders is smaller.

On one stream it is the peak of live bytes. On several it is a largest antichain of the partial
order `<` of :mod:`optsched.model.stream_relation`, by size, and by Dilworth's theorem

    sum of sizes - maximum flow   of   source -> b -> c -> sink   for all b < c,

where source and sink edges carry a buffer's size. `b < c` says that the op of `c` stands behind a
place of its stream, one that `b` has in each stream. So a buffer leads to one place a stream, a
place to the next one of its stream and to what is allocated there: the network grows with buffers
times streams, not with pairs of buffers.

The antichain may exceed the bytes that are live at once in any execution, since buffers can meet in
pairs without ever meeting all. For a slab whose offsets do not move it is the right bound all the
same.

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


@dataclass(frozen=True, slots=True)
class Antichain:
    """Buffers that pairwise conflict, and their bytes in all."""

    buffers: tuple[int, ...]
    """Ids, ascending: the witness."""
    size: int
    """Bytes; with these orders of the streams no slab is smaller."""


def largest_antichain(graph: Graph, order: Order) -> Antichain:
    """Return buffers of largest total size that pairwise conflict when an order runs on streams.

    Raises
    ------
    PlanError
        If `order` is no permutation of the ops or breaks a dependency.
    """
    relation = stream_relation(graph, order)
    ranges, size = relation.ranges(), graph.arrays.size
    ids = np.flatnonzero((size > 0) & (ranges[:, 1] > ranges[:, 0]))
    count, k = len(ids), relation.after.shape[1]
    lengths = np.bincount(relation.stream, minlength=k)
    first = 2 * count + np.concatenate([[0], np.cumsum(lengths)])
    free = relation.free[ids]
    buffer, stream = np.nonzero(free < lengths)
    places = np.arange(2 * count, first[-1])
    inner = places[~np.isin(places + 1, first)]
    alloc = graph.arrays.birth[ids]
    made = np.flatnonzero(alloc >= 0)
    at = first[relation.stream[alloc[made]]] + relation.place[alloc[made]]
    tails = np.concatenate([buffer, inner, at])
    heads = np.concatenate([first[stream] + free[buffer, stream], inner + 1, count + made])
    found, total = _heaviest(size[ids], tails, heads)
    return Antichain(tuple(ids[found].tolist()), total)


def heaviest_antichain(size: IntArray, before: IntArray) -> int:
    """Return the largest total size, of `k` in bytes, of a set in which none is before another.

    `before` has all pairs of which the first is before the second, shape `(pairs, 2)`.
    """
    return _heaviest(size, before[:, 0], len(size) + before[:, 1])[1]


def _heaviest(size: IntArray, tails: IntArray, heads: IntArray) -> tuple[IntArray, int]:
    """Return a heaviest set without two of which one leads to the other, and its size.

    Number `i` of `k` leads from node `i`, and is led to at node `k + i`; the arcs may go by nodes
    of other numbers.
    """
    from ortools.graph.python import max_flow

    count, total = len(size), int(size.sum())
    own = np.arange(count)
    source = 1 + int(max(2 * count, tails.max(initial=0), heads.max(initial=0)))
    flow = max_flow.SimpleMaxFlow()
    flow.add_arcs_with_capacity(
        np.concatenate([tails, np.full(count, source), count + own]),
        np.concatenate([heads, own, np.full(count, source + 1)]),
        np.concatenate([np.full(len(tails), total), size, size]),
    )
    if flow.solve(source, source + 1) != flow.OPTIMAL:
        raise GraphError(f"no flow was found for {total} bytes")
    # The cut takes out of the source's side what something of it is before.
    inside = np.zeros(source + 2, np.bool_)
    inside[flow.get_source_side_min_cut()] = True
    found = np.flatnonzero(inside[:count] & ~inside[count : 2 * count])
    return found, total - int(flow.optimal_flow())
