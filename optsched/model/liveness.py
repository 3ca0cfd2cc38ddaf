"""Which buffers are live when, and how many bytes that makes.

An op starts (its buffers are allocated), runs, and ends (every buffer whose last user it was is
released). Live bytes are counted while it runs: after it allocates and before it frees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from optsched.model.antichain import largest_antichain
from optsched.model.arrays import GraphArrays, IntArray, Rows
from optsched.model.elements import OutputPolicy
from optsched.model.graph import Graph
from optsched.model.inplace import bytes_saved
from optsched.model.steps import Order, order_ids, steps_of
from optsched.runtime.keywords import keywords


@dataclass(frozen=True, slots=True)
class Timeline:
    """Live bytes around each step."""

    before: IntArray
    """Shape `(n,)`: before the op of the step allocates."""
    running: IntArray
    """Shape `(n,)`: while it runs; its maximum is the peak memory."""
    after: IntArray
    """Shape `(n,)`: after it has released what it used last."""


@keywords
def live_ranges(graph: Graph, order: Order | Sequence[str]) -> IntArray:
    """Return the half-open steps `[start, end)` in which each buffer is live, shape `(m, 2)`.

    A view has the range of its root. A graph input that nobody uses and nobody keeps is never
    live: its range is empty. A graph without ops has one step, so that kept inputs have a place.
    """
    ranges = _own_ranges(graph.arrays, steps_of(graph, order))
    return np.stack(ranges, axis=1)[np.array(graph.roots, np.int64)]


def _own_ranges(arrays: GraphArrays, steps: IntArray) -> tuple[IntArray, IntArray]:
    """Return start and end of each buffer; those of a view are of no use."""
    # The appended 0 stands for graph inputs: their producer's id is -1.
    start = np.append(steps, 0)[arrays.birth]
    made = np.append(steps, -1)[arrays.producer]
    end = np.maximum(made, _row_max(arrays.user, steps, arrays.buffer_count)) + 1
    end[arrays.keep] = max(1, arrays.op_count)
    return start, np.maximum(start, end)


def _row_max(rows: Rows, values: IntArray, count: int) -> IntArray:
    """Maximum of `values` over each row; -1 for an empty one."""
    result = np.full(count, -1, np.int64)
    filled = np.flatnonzero(np.diff(rows.ptr))
    if len(filled):
        result[filled] = np.maximum.reduceat(values[rows.idx], rows.ptr[filled])
    return result


@keywords
def timeline(graph: Graph, order: Order | Sequence[str]) -> Timeline:
    """Return the live bytes before, during and after each step."""
    arrays, steps = graph.arrays, steps_of(graph, order)
    n, ids = arrays.op_count, order_ids(graph, order)
    start, end = _own_ranges(arrays, steps)
    # Views have no bytes here, so that it is all the same how long they live.
    dies = ~arrays.keep & (end > start)
    freed = np.zeros(n + 2, np.int64)
    np.add.at(freed, end[dies], arrays.size[dies])
    allocated = arrays.alloc[ids]
    running = arrays.initial + np.cumsum(allocated - freed[:n])
    saved = np.zeros(n, np.int64)
    if graph.in_place:
        saved = bytes_saved(arrays, steps, np.stack([start, end], axis=1))[ids]
    return Timeline(
        before=running - allocated, running=running - saved, after=running - freed[1 : n + 1]
    )


def running_by_op(graph: Graph, order: Order) -> IntArray:
    """Return the live bytes while each op runs in an order, by op; shape `(n,)`."""
    running = np.empty(len(graph.ops), np.int64)
    running[np.asarray(order, np.int64)] = timeline(graph, order).running
    return running


@keywords
def peak_memory(graph: Graph, order: Order | Sequence[str]) -> int:
    """Return the largest number of live bytes over all steps of an order, of ids or names of ops.

    On several streams it is the largest total size of buffers that pairwise may be live at once
    (:mod:`optsched.model.antichain`).

    For a graph read from Inductor's file this is, to the byte, what its current
    `estimate_peak_memory` returns.
    """
    if graph.on_streams:
        return largest_antichain(graph, order_ids(graph, order)).size
    running = timeline(graph, order).running
    return max(graph.arrays.initial, int(running.max(initial=0)))


def inductor_2025_09_peak(graph: Graph, order: Order) -> int:
    """Return the peak as Inductor's estimator of September 2025 had it.

    It released every graph output at step 0, before it was allocated (the end step -1 of an
    output, plus one, indexed the first step), and so under-counts. Kept to re-examine decisions
    taken with it; since mended upstream, and never our measure.
    """
    running = timeline(graph, order).running
    outputs = sum(buffer.size for buffer in graph.buffers if buffer.output is OutputPolicy.LIVE)
    return max(0, int(running.max(initial=graph.arrays.initial)) - outputs)


ESTIMATORS: dict[str, Callable[[Graph, Order], int]] = {
    "live": peak_memory,
    "inductor-2025-09": inductor_2025_09_peak,
}
"""Ways to measure the peak of an order, by name."""


@dataclass(frozen=True, slots=True)
class OpMemory:
    """Bytes that are allocated before an op runs, and freed after it has."""

    allocated: int
    freed: int


def snodes_allocfree(graph: Graph, order: Order) -> dict[int, OpMemory]:
    """Return by op what it allocates and frees in an order, as Inductor reports it.

    Graph inputs that count are allocated before the op of step 0. What is kept is never freed; an
    input that nobody uses is there at no step.

    References
    ----------
    torch/_inductor/memory.py: `estimate_peak_memory_allocfree`, the third result; the fourth is
    what :func:`buf_to_snode_last_use` returns.
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
