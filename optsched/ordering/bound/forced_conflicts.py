"""Bound for graphs on several streams: buffers that conflict in every order of the streams.

In some order of the streams `u` precedes `w` only if a chain of steps leads from `u` to `w`, where
each step is a dependency of the graph, or two ops of one stream that no dependencies order the
other way; and if no dependencies order `w` before `u`. Buffer `b` can end before `c` begins only if
every op that uses `b` can precede the op that allocates `c`. If neither buffer can end before the
other begins, no order of the streams lets the two share a byte. The sizes of a set of buffers in
which all pairs are of this kind therefore add up to a bound on the peak, and on the slab, of every
order.

The bound does not hold for orders that run one op at a time, as these order the ops of different
streams as well: it measures the cost of running ops side by side.

Example: `u` on one stream and `w` on another, without dependencies, each make an output of 4 bytes
with a workspace of 2 bytes. No chain of steps leads from one op to the other, so all four buffers
conflict: every order needs 12 bytes, while running one op at a time needs 10.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from optsched.model.arrays import IntArray
from optsched.model.conflicts import Conflicts, Whole
from optsched.model.dependencies import reachable
from optsched.model.graph import Graph
from optsched.ordering.bound.single_ops import PeakBound
from optsched.ordering.effort import EFFORT


def forced_conflict_bound(graph: Graph) -> PeakBound:
    """Return the heaviest set found of buffers that conflict in every order of the streams.

    `graph`: a graph on several streams. If it has more than `conflict_ops` ops the bound is 0.
    """
    ids = _largest(graph)
    if not len(ids) or len(graph.ops) > EFFORT.conflict_ops:
        return PeakBound(0, None, ())
    before = _may_come_before(graph, ids)
    # A pair that no order can put one after the other conflicts in every order.
    pairs = np.argwhere(np.triu(~(before | before.T), 1))
    size = graph.arrays.size[ids]
    never = np.zeros(len(ids), np.int64)
    conflicts = Conflicts(Whole(np.arange(len(ids)), never, never), size, pairs)
    found = conflicts.heaviest(0)
    if found is None:
        # No pair conflicts by force, or there are too many buffers: the largest alone is a bound.
        found = np.array([int(np.argmax(size))])
    return PeakBound(int(size[found].sum()), None, tuple(np.sort(ids[found]).tolist()))


def _largest(graph: Graph) -> IntArray:
    """Return the largest of the buffers that have bytes and are ever live."""
    arrays = graph.arrays
    used = arrays.keep | (np.diff(arrays.user.ptr) > 0) | (arrays.producer >= 0)
    ids = np.flatnonzero((arrays.size > 0) & used)
    return ids[np.argsort(-arrays.size[ids], kind="stable")][: EFFORT.conflict_buffers]


def _may_precede(graph: Graph) -> list[int]:
    """Return, by op, the mask of the ops that it precedes in some order of the streams."""
    n, ancestors = len(graph.ops), reachable(graph.predecessors)
    in_stream: dict[str, int] = {}
    for v, op in enumerate(graph.ops):
        in_stream[op.stream] = in_stream.get(op.stream, 0) | 1 << v
    may = [in_stream[op.stream] & ~ancestors[u] & ~(1 << u) for u, op in enumerate(graph.ops)]
    for w, row in enumerate(graph.predecessors):
        for u in row:
            may[u] |= 1 << w
    # Transitive closure, by Warshall's algorithm on masks.
    for k in range(n):
        for u in range(n):
            if may[u] >> k & 1:
                may[u] |= may[k]
    return [row & ~ancestors[u] & ~(1 << u) for u, row in enumerate(may)]


def _may_come_before(graph: Graph, ids: IntArray) -> npt.NDArray[np.bool_]:
    """Return a matrix, shape `(k, k)`: True where buffer i can end before buffer j begins."""
    arrays, may = graph.arrays, _may_precede(graph)
    before = np.zeros((len(ids), len(ids)), np.bool_)
    makers = arrays.birth[ids].tolist()
    for i, b in enumerate(ids.tolist()):
        # A kept buffer never ends, so it cannot come before another.
        if arrays.keep[b]:
            continue
        # All ops that touch the buffer must precede; -1 has all bits set and so is neutral for
        # `&`.
        behind = -1
        for v in (*arrays.user.row(b).tolist(), arrays.birth[b], arrays.producer[b]):
            if v >= 0:
                behind &= may[v]
        before[i] = [w >= 0 and bool(behind >> w & 1) for w in makers]
    return before
