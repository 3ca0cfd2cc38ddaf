"""Compact form of small graphs: one buffer per op, ops numbered in listing order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optsched.counterexamples.kernels import NEVER, fill_sets
from optsched.model.arrays import IntArray
from optsched.model.dependencies import members
from optsched.model.elements import Buffer, Op, OutputPolicy
from optsched.model.graph import Graph

Masks = tuple[IntArray, IntArray, IntArray, IntArray, int]
"""The graph arguments of :func:`~optsched.counterexamples.kernels.fill_sets`."""
MAX_OPS = 16
"""Maximum number of ops; the table over the sets of finished ops has `2**n` entries."""


@dataclass(frozen=True)
class SmallGraph:
    """A graph in which each op writes one buffer, which all its successors read."""

    size: tuple[int, ...]
    """Bytes of the buffer of each op."""
    before: tuple[int, ...]
    """Mask of the ops that each op reads from; only ops listed before it."""
    kept: int = 0
    """Mask of the ops whose buffer is a graph output, besides those without readers."""

    def __len__(self) -> int:
        return len(self.size)

    @cached_property
    def outputs(self) -> int:
        """Mask of all ops whose buffer is a graph output."""
        read = 0
        for mask in self.before:
            read |= mask
        # An op without readers makes an output, or its work would be for nothing.
        return self.kept | ~read & (1 << len(self)) - 1

    @cached_property
    def masks(self) -> Masks:
        """The graph in the form that kernels take."""
        need = [1 << v for v in range(len(self))]
        for v, mask in enumerate(self.before):
            for u in members(mask):
                need[u] |= 1 << v
        outputs = self.outputs
        # Outputs are never freed.
        left = [0 if outputs >> v & 1 else mask for v, mask in enumerate(need)]
        size = np.array(self.size, np.int64)
        return np.array(self.before, np.int64), size, np.array(left, np.int64), size, 0

    def graph(self, name: str = "candidate") -> Graph:
        """Return the full graph; ops and buffers are called a, b, c, ..."""
        labels = [chr(ord("a") + v) for v in range(len(self))]
        outputs = self.outputs
        return Graph(
            name,
            tuple(
                Op(labels[v], reads=tuple(members(self.before[v])), writes=(v,))
                for v in range(len(self))
            ),
            tuple(
                Buffer(labels[v], size, output=OutputPolicy.LIVE if outputs >> v & 1 else None)
                for v, size in enumerate(self.size)
            ),
        )


def masks_of(graph: Graph) -> Masks:
    """Return the masks of any graph with at most :data:`MAX_OPS` ops and no in-place pairs."""
    arrays = graph.arrays
    before = np.array([sum(1 << int(u) for u in us) for us in graph.predecessors], np.int64)
    need = []
    for b in range(arrays.buffer_count):
        users = sum(1 << int(v) for v in arrays.user.row(b))
        maker = int(arrays.producer[b])
        # Buffers that stay to the end have no last use.
        freed = arrays.size[b] > 0 and not arrays.keep[b]
        need.append(users | (1 << maker if maker >= 0 else 0) if freed else 0)
    return before, arrays.alloc, np.array(need, np.int64), arrays.size, arrays.initial


def order_of_minimum_peak(masks: Masks) -> list[int]:
    """Return an order of minimum peak from the table over all sets of finished ops."""
    before, alloc = masks[0].tolist(), masks[1].tolist()
    best = np.empty(1 << len(before), np.int64)
    live = np.empty(1 << len(before), np.int64)
    fill_sets.compiled(*masks, best, live)
    done, order = (1 << len(before)) - 1, []
    while done:
        # Backwards from the full set: an op is last if the rest is reachable and its step fits the
        # optimum.
        for v in members(done):
            rest = done & ~(1 << v)
            if best[rest] < NEVER and not before[v] & ~rest:
                during = int(live[rest]) + alloc[v]
                if max(int(best[rest]), during) == best[done]:
                    order.append(v)
                    done = rest
                    break
    return order[::-1]
