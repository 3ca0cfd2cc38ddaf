"""Precedence between ops on several streams, and the buffers that may share bytes.

Op `u` precedes `v` if it ends before `v` starts in every execution. This follows from the orders of
the streams, the edges of the graph, and chains of both. Let `a(b)` be the op that allocates buffer
`b`, and `U(b)` the set of ops that use it, including `a(b)` and the producer of `b`. Buffer `c` may
lie where `b` has been, written `b < c`, if all ops of `U(b)` precede `a(c)`. Two buffers may share
bytes only if `b < c` or `c < b`; otherwise they *conflict*. The relation is a partial order: if `b
< c < d`, then the ops of `U(b)` precede `a(c)`, which is in `U(c)` and therefore precedes `a(d)`.
With one stream, it is the order of disjoint live ranges.

Example: stream 1 runs `p`, then `q`; stream 2 runs `r`, which waits for `p`. If buffer `b` is used
by `p` only, and `c` is allocated by `r`, then `b < c`. If `q` uses `b` as well, the two buffers
conflict, because `q` and `r` may run at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.steps import Order, steps_of

MOST_PAIRS = 4_000_000
"""Maximum number of pairs examined to list the conflicts that do not show as overlapping live
ranges.
"""


@dataclass(frozen=True)
class StreamRelation:
    """Precedence between ops in every execution of an order on its streams."""

    graph: Graph
    """The graph, with `n` ops and `m` buffers on `k` streams."""
    stream: IntArray
    place: IntArray
    """Shape `(n,)`: the stream of each op, and its place in the order of that stream."""
    after: IntArray
    """Shape `(n, k)`: for each stream, the first place whose op starts only after op `v` has ended;
    the length of the stream if there is none.
    """
    depth: IntArray
    """Shape `(n,)`: number of ops before `v` on the longest chain that ends at `v`."""

    @cached_property
    def free(self) -> IntArray:
        """By stream, the first place at which the bytes of a buffer are free; shape `(m, k)`."""
        arrays, k = self.graph.arrays, self.after.shape[1]
        free = np.zeros((arrays.buffer_count, k), np.int64)
        np.maximum.at(free, arrays.user.owners(), self.after[arrays.user.idx])
        for ops in (arrays.producer, arrays.birth):
            made = np.flatnonzero(ops >= 0)
            np.maximum.at(free, made, self.after[ops[made]])
        free[arrays.keep] = np.bincount(self.stream, minlength=k)
        return free

    def ranges(self) -> IntArray:
        """Return half-open live ranges by depth, shape `(m, 2)`; overlapping buffers conflict.

        The depths place ops that exclude each other as close together as possible, so that few
        conflicts do not show as overlaps.
        """
        arrays, n = self.graph.arrays, len(self.depth)
        horizon = int(self.depth.max(initial=0)) + 1
        start = np.append(self.depth, 0)[arrays.birth]
        end = np.append(self.depth, -1)[arrays.producer] + 1
        np.maximum.at(end, arrays.user.owners(), self.depth[arrays.user.idx] + 1)
        end[arrays.keep] = horizon if n else 1
        return np.stack([start, end], axis=1)

    def hidden_conflicts(self, buffers: IntArray) -> IntArray | None:
        """Return the conflicts that do not show as overlaps of :meth:`ranges`, shape `(pairs, 2)`.

        Entries are positions in `buffers`, shape `(k,)`, the lower one first. Return None if more
        than :data:`MOST_PAIRS` pairs would have to be examined.
        """
        start, end = self.ranges()[buffers].T
        turn = np.argsort(start, kind="stable")
        # Buffers that start between the end of a buffer and its covering end may conflict with it.
        first = np.searchsorted(start[turn], end)
        last = np.searchsorted(start[turn], self.cover_ends()[buffers])
        count = np.maximum(last - first, 0)
        if (total := int(count.sum())) > MOST_PAIRS:
            return None
        one = np.repeat(np.arange(len(buffers)), count)
        at = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
        other = turn[np.repeat(first, count) + at]
        alloc = self.graph.arrays.birth[buffers[other]]
        conflict = self.free[buffers[one], self.stream[alloc]] > self.place[alloc]
        return np.sort(np.stack([one, other], axis=1)[conflict | (alloc < 0)], axis=1)

    def cover_ends(self) -> IntArray:
        """Return ends of live ranges, late enough that all conflicting buffers overlap.

        Shape `(m,)`. A buffer then ends when the last op has run that does not wait for all its
        users.
        """
        ends = self.ranges()[:, 1]
        for s in range(self.after.shape[1]):
            ops = np.flatnonzero(self.stream == s)
            depth = np.append(0, self.depth[ops[np.argsort(self.place[ops])]] + 1)
            np.maximum(ends, depth[self.free[:, s]], out=ends)
        return ends


def stream_relation(graph: Graph, order: Order) -> StreamRelation:
    """Return the precedence if each stream runs its ops in the sequence of an order.

    Time and memory are proportional to the number of edges times the number of streams.

    Raise `PlanError` if `order` is not a permutation of the ops or breaks a dependency.
    """
    steps_of(graph, order)
    numbers = {name: s for s, name in enumerate(graph.streams)}
    stream = np.array([numbers[op.stream] for op in graph.ops], np.int64)
    place, last = np.zeros(len(stream), np.int64), [-1] * len(numbers)
    before: list[tuple[int, ...]] = list(graph.predecessors)
    lengths = np.zeros(len(numbers), np.int64)
    depth = np.zeros(len(stream), np.int64)
    sequence = np.asarray(order, np.int64).tolist()
    for v in sequence:
        s = stream[v]
        place[v], lengths[s] = lengths[s], lengths[s] + 1
        if last[s] >= 0:
            before[v] = (*before[v], last[s])
        last[s] = v
        depth[v] = 1 + max((depth[u] for u in before[v]), default=-1)
    after = np.tile(lengths, (len(stream), 1))
    for v in reversed(sequence):
        # For the predecessors of `v`, the first op of this stream that waits for them is `v`
        # itself.
        reach = after[v].copy()
        reach[stream[v]] = place[v]
        for u in before[v]:
            np.minimum(after[u], reach, out=after[u])
    return StreamRelation(graph, stream, place, after, depth)
