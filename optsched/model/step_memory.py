"""What each op allocates and frees, and which op uses each buffer last, as Inductor reports them.

References
----------
torch/_inductor/memory.py: `estimate_peak_memory_allocfree`, whose third and fourth results these
are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.model.graph import Graph
from optsched.model.liveness import live_ranges
from optsched.model.steps import Order, steps_of


@dataclass(frozen=True, slots=True)
class OpMemory:
    """Bytes that are allocated before an op runs, and freed after it has."""

    allocated: int
    freed: int


def snodes_allocfree(graph: Graph, order: Order) -> dict[int, OpMemory]:
    """Return by op what it allocates and frees in an order.

    Graph inputs that count are allocated before the op of step 0. What is kept is never freed; an
    input that nobody uses is there at no step.
    """
    arrays, ranges = graph.arrays, live_ranges(graph, order)
    n = arrays.op_count
    allocated, freed = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    counted = (arrays.size > 0) & (ranges[:, 1] > ranges[:, 0])
    np.add.at(allocated, ranges[counted, 0], arrays.size[counted])
    dies = counted & ~arrays.keep
    np.add.at(freed, ranges[dies, 1] - 1, arrays.size[dies])
    return {int(v): OpMemory(int(allocated[t]), int(freed[t])) for t, v in enumerate(order)}


def buf_to_snode_last_use(graph: Graph, order: Order) -> dict[int, int]:
    """Return by buffer the op that uses it last in an order: its producer if nobody does.

    What is kept to the end has no last use, and an input that nobody uses has none.
    """
    arrays, steps = graph.arrays, steps_of(graph, order)
    found = {}
    for b in range(arrays.buffer_count):
        users = arrays.user.row(b).tolist()
        if arrays.producer[b] >= 0 and not users:
            users = [int(arrays.producer[b])]
        if users and not arrays.keep[b]:
            found[b] = max(users, key=lambda v: int(steps[v]))
    return found
