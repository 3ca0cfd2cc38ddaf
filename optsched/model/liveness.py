"""Live ranges of buffers, and the number of live bytes at each step.

An op starts (its buffers are allocated), runs, and ends (every buffer whose last user it was is
released). Live bytes are counted while the op runs: after it allocates and before it releases.

Example: op 0 writes `a` of 4 bytes, op 1 reads `a` and writes `b` of 6 bytes, and op 2 reads `b`.
The live bytes are 4, 10 and 6, so the peak is 10.
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
from optsched.model.steps import Answered, HasOrder, Order, graph_and_order, order_ids, steps_of
from optsched.runtime.keywords import keywords


@dataclass(frozen=True, slots=True)
class Timeline:
    """Live bytes around each step."""

    before: IntArray
    """Shape `(n,)`: bytes live before the op of each step allocates."""
    running: IntArray
    """Shape `(n,)`: bytes live while the op runs; their maximum is the peak memory."""
    after: IntArray
    """Shape `(n,)`: bytes live after the op has released what it used last."""


@keywords
def live_ranges(
    graph: Graph | Answered, order: Order | Sequence[str] | HasOrder | Answered | None = None
) -> IntArray:
    """Return the half-open range of steps `[start, end)` in which each buffer is live.

    A view has the range of its root. An input that is not used and not kept is never live; its
    range is empty. Without ops, kept inputs have the range [0, 1).

    Parameters
    ----------
    graph
        The graph, with `m` buffers; or a result.
    order
        Op ids or names, first to run first; a plan; or a result. A result as `graph` has its own.

    Returns
    -------
    ndarray
        Shape `(m, 2)`, int64.

    Raises
    ------
    PlanError
        If `order` is not a permutation of the ops or breaks a dependency.

    Examples
    --------
    >>> from optsched import GraphBuilder, live_ranges
    >>> build = GraphBuilder("chain")
    >>> build.op("p", writes={"a": 4})
    >>> build.op("q", reads=["a"], writes={"b": 6})
    >>> build.op("r", reads=["b"])
    >>> live_ranges(build.build(), ["p", "q", "r"]).tolist()
    [[0, 2], [1, 3]]
    """
    graph, ordered = graph_and_order(graph, order)
    ranges = _own_ranges(graph.arrays, steps_of(graph, ordered))
    return np.stack(ranges, axis=1)[np.array(graph.roots, np.int64)]


def _own_ranges(arrays: GraphArrays, steps: IntArray) -> tuple[IntArray, IntArray]:
    """Return start and end of each buffer; the values of views are meaningless."""
    # The producer id of graph inputs is -1, which selects the appended 0.
    start = np.append(steps, 0)[arrays.birth]
    made = np.append(steps, -1)[arrays.producer]
    end = np.maximum(made, _row_max(arrays.user, steps, arrays.buffer_count)) + 1
    end[arrays.keep] = max(1, arrays.op_count)
    # An empty range is written as start == end, never reversed.
    return start, np.maximum(start, end)


def _row_max(rows: Rows, values: IntArray, count: int) -> IntArray:
    """Return the maximum of `values` over each row; -1 for an empty row."""
    result = np.full(count, -1, np.int64)
    filled = np.flatnonzero(np.diff(rows.ptr))
    if len(filled):
        result[filled] = np.maximum.reduceat(values[rows.idx], rows.ptr[filled])
    return result


@keywords
def timeline(
    graph: Graph | Answered, order: Order | Sequence[str] | HasOrder | Answered | None = None
) -> Timeline:
    """Return the live bytes before, during and after each step.

    Parameters
    ----------
    graph
        The graph, with `n` ops on one stream; or a result.
    order
        As for :func:`live_ranges`.

    Returns
    -------
    Timeline
        Arrays of shape `(n,)`, in bytes.

    Raises
    ------
    PlanError
        If `order` is not a permutation of the ops or breaks a dependency.

    Examples
    --------
    >>> from optsched import GraphBuilder, timeline
    >>> build = GraphBuilder("chain")
    >>> build.op("p", writes={"a": 4})
    >>> build.op("q", reads=["a"], writes={"b": 6})
    >>> build.op("r", reads=["b"])
    >>> timeline(build.build(), ["p", "q", "r"]).running.tolist()
    [4, 10, 6]
    """
    graph, ordered = graph_and_order(graph, order)
    arrays, steps = graph.arrays, steps_of(graph, ordered)
    n, ids = arrays.op_count, order_ids(graph, ordered)
    start, end = _own_ranges(arrays, steps)
    # Views have no bytes here, so their ranges do not matter.
    dies = ~arrays.keep & (end > start)
    freed = np.zeros(n + 2, np.int64)
    np.add.at(freed, end[dies], arrays.size[dies])
    allocated = arrays.alloc[ids]
    # Bytes freed by the step before are gone when this op allocates.
    running = arrays.initial + np.cumsum(allocated - freed[:n])
    saved = np.zeros(n, np.int64)
    if graph.in_place:
        saved = bytes_saved(arrays, steps, np.stack([start, end], axis=1))[ids]
    return Timeline(
        before=running - allocated, running=running - saved, after=running - freed[1 : n + 1]
    )


def running_by_op(graph: Graph, order: Order) -> IntArray:
    """Return the live bytes while each op of an order runs, by op id; shape `(n,)`."""
    running = np.empty(len(graph.ops), np.int64)
    running[np.asarray(order, np.int64)] = timeline(graph, order).running
    return running


@keywords
def peak_memory(
    graph: Graph | Answered, order: Order | Sequence[str] | HasOrder | Answered | None = None
) -> int:
    """Return the maximum number of live bytes over all steps of an order.

    On several streams it is the largest total size of buffers that can pairwise be live at the same
    time (:mod:`optsched.model.antichain`). For a graph read from a file of Inductor, the result
    equals that of Inductor's current `estimate_peak_memory`, to the byte.

    Parameters
    ----------
    graph
        The graph, or a result.
    order
        As for :func:`live_ranges`.

    Returns
    -------
    int
        Bytes.

    Raises
    ------
    PlanError
        If `order` is not a permutation of the ops or breaks a dependency.

    Examples
    --------
    >>> from optsched import GraphBuilder, peak_memory
    >>> build = GraphBuilder("chain")
    >>> build.op("p", writes={"a": 4})
    >>> build.op("q", reads=["a"], writes={"b": 6})
    >>> peak_memory(build.build(), ["p", "q"])
    10
    """
    graph, ordered = graph_and_order(graph, order)
    if graph.on_streams:
        return largest_antichain(graph, order_ids(graph, ordered)).size
    running = timeline(graph, ordered).running
    # Inputs alone may be the most, before the first op has run.
    return max(graph.arrays.initial, int(running.max(initial=0)))


def inductor_2025_09_peak(graph: Graph, order: Order) -> int:
    """Return the peak as computed by Inductor's estimator of September 2025.

    That estimator released every graph output at step 0, before it was allocated (the end step -1
    of an output, plus one, indexed the first step), and therefore reported too few bytes. It was
    fixed upstream. The function serves to re-examine decisions based on the old estimates, and is
    never used as a measure here.
    """
    running = timeline(graph, order).running
    outputs = sum(buffer.size for buffer in graph.buffers if buffer.output is OutputPolicy.LIVE)
    return max(0, int(running.max(initial=graph.arrays.initial)) - outputs)


ESTIMATORS: dict[str, Callable[[Graph, Order], int]] = {
    "live": peak_memory,
    "inductor-2025-09": inductor_2025_09_peak,
}
"""Functions that measure the peak of an order, by name."""


@dataclass(frozen=True, slots=True)
class OpMemory:
    """Bytes allocated before an op runs, and bytes freed after it."""

    allocated: int
    freed: int


def snodes_allocfree(graph: Graph, order: Order) -> dict[int, OpMemory]:
    """Return the bytes that each op allocates and frees in an order, as Inductor reports them.

    Graph inputs that count are allocated before the op of step 0. Buffers that are kept are never
    freed. An unused input is not live at any step.

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
    """Return the op that uses each buffer last in an order, or its producer if no op uses it.

    Buffers that are kept to the end and unused inputs do not have an entry.
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
