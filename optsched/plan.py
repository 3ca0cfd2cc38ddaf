"""A plan: an order of the ops and an offset for every buffer that needs one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.arrays import IntArray
from optsched.errors import PlanError
from optsched.graph import Graph
from optsched.liveness import Order, peak_memory
from optsched.pairing import Pairs, heads
from optsched.problem import packing_problem


@dataclass(frozen=True, slots=True)
class Plan:
    """An order, and offsets by buffer id.

    Parameters
    ----------
    order
        Op ids, first to run first.
    offsets
        First byte of each buffer, by buffer id. None where a buffer needs none: it lies outside
        the slab, has no bytes or is never live. A view has its root's offset.
    """

    order: tuple[int, ...]
    offsets: tuple[int | None, ...]

    def slab(self, graph: Graph) -> int:
        """Return the slab size: the largest `offset + size`."""
        ends = [
            offset + buffer.size
            for offset, buffer in zip(self.offsets, graph.buffers, strict=True)
            if offset is not None
        ]
        return max(ends, default=0)

    def peak(self, graph: Graph) -> int:
        """Return the peak memory of the order."""
        return peak_memory(graph, self.order)


def make_plan(graph: Graph, order: Order, offsets: IntArray, taken: Pairs = ()) -> Plan:
    """Make a plan of an order and the offsets of its packing problem, shape `(k,)`.

    `taken` are the in-place pairs that the packing problem was made with.
    """
    problem, ids = packing_problem(graph, order, taken)
    if len(offsets) != len(problem):
        raise PlanError(f"{len(offsets)} offsets for {len(problem)} buffers to be packed")
    placed = np.full(len(graph.buffers), -1, np.int64)
    placed[ids] = offsets
    for output, head in heads(taken).items():
        placed[output] = placed[head]
    return Plan(
        order=tuple(int(v) for v in order),
        offsets=tuple(None if placed[root] < 0 else int(placed[root]) for root in graph.roots),
    )
