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
        First byte of each buffer in the slab of its pool, by buffer id. None where a buffer needs
        none: it lies outside the slab, has no bytes or is never live. A view has its root's offset.
    """

    order: tuple[int, ...]
    offsets: tuple[int | None, ...]

    def slabs(self, graph: Graph) -> dict[str, int]:
        """Return the slab of each pool, by its name: the largest `offset + size` in it."""
        found: dict[str, int] = {}
        for b, (offset, buffer) in enumerate(zip(self.offsets, graph.buffers, strict=True)):
            if offset is not None and graph.roots[b] == b:
                found[buffer.pool] = max(found.get(buffer.pool, 0), offset + buffer.size)
        return found

    def slab(self, graph: Graph) -> int:
        """Return the bytes of the slab; of all slabs together where there are several pools."""
        return sum(self.slabs(graph).values())

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
