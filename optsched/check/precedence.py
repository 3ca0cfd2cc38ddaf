"""Precedence between ops on several streams, as the checker derives it.

Op `u` precedes `v` if a chain leads from `u` to `v` whose links are the graph's dependencies and
consecutive ops of a stream. Buffer `b` is *before* `c` if all ops that use `b`, including the op
that allocates it, precede the op that allocates `c`. Two buffers may share a byte only if one is
before the other; that holds in every execution, regardless of the ops that run concurrently.

Example: stream 0 runs `p` and `q`, stream 1 runs `r`, which depends on `p`. So `p` precedes `r`,
and nothing is known about `q` and `r`. A buffer that only `p` uses is before one that `r`
allocates; a buffer that `q` reads is not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from optsched.check.lives import maker, touched
from optsched.model.graph import Graph


class Precedence:
    """Precedence between ops if the streams of a graph run a valid order.

    If an op precedes `v`, so do all earlier ops of its stream. The ops that precede `v` are
    therefore the first few of each stream, given by their number, which never decreases along a
    stream.
    """

    def __init__(self, graph: Graph, order: Sequence[int]) -> None:
        self.graph, self.order = graph, order
        numbers = {name: s for s, name in enumerate(graph.streams)}
        self.stream = [numbers[op.stream] for op in graph.ops]
        self.place = [0] * len(graph.ops)
        self.rows: list[list[int]] = [[] for _ in numbers]
        before = np.zeros((len(graph.ops), len(numbers)), np.int64)
        # In the order of the plan, so that what precedes a predecessor is known by then.
        for v in order:
            row, known = self.rows[self.stream[v]], before[v]
            # The op before in the stream counts as a predecessor.
            for u in (*graph.predecessors[v], *row[-1:]):
                np.maximum(known, before[u], out=known)
                known[self.stream[u]] = max(known[self.stream[u]], self.place[u] + 1)
            self.place[v] = len(row)
            row.append(v)
        self.free_from = self._free_from(self._first_after(before))

    def _first_after(self, before: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the first place in each stream whose op each op precedes; its length if none."""
        first = np.zeros_like(before)
        for s, row in enumerate(self.rows):
            places = np.arange(len(row))
            for t, other in enumerate(self.rows):
                first[row, t] = np.searchsorted(before[other, s], places, side="right")
        return first

    def _free_from(self, first: npt.NDArray[np.int64]) -> list[list[int]]:
        """Return the first place in each stream whose op all users of a buffer precede."""
        free_from = np.zeros((len(self.graph.buffers), len(self.rows)), np.int64)
        # A kept buffer is in use to the end: nothing comes after it.
        free_from[list(self.graph.kept)] = [len(row) for row in self.rows]
        for v, roots in enumerate(touched(self.graph)):
            for b in roots:
                np.maximum(free_from[b], first[v], out=free_from[b])
        found: list[list[int]] = free_from.tolist()
        return found

    def before(self, b: int, c: int) -> bool:
        """Return True if buffer `c` may lie where buffer `b` has been."""
        # An input exists before every op, so nothing can be before it.
        op = maker(self.graph, c)
        return op is not None and self.free_from[b][self.stream[op]] <= self.place[op]
