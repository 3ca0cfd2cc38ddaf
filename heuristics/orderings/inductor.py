"""TorchInductor's breadth-first and depth-first orders, and its choice of the best order.

Source: torch/_inductor/memory.py.

Example: in a graph of two chains a1, a2 and b1, b2 breadth first runs a1, b1, a2, b2. Depth first
visits the ops by the bytes they touch, each after its predecessors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heuristics.kernels.breadth import run_breadth_first
from heuristics.kernels.walks import append_by_rank, run_post_order
from heuristics.orderings.common import Ordering, work_of
from heuristics.orderings.lpmf import lpmf
from heuristics.orderings.program import program
from optsched.model.arrays import GraphArrays, IntArray, Rows, flat_rows, pack_rows
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory


def bfs(graph: Graph, seed: int = 0) -> IntArray:
    """Return the order of Inductor's `topological_sort_bfs`, including its tie-breaks.

    The ready op whose predecessors ran earliest runs next: the ascending steps of the predecessors
    are compared lexicographically, and ties go to the op listed first. O((n + edges) log n)
    comparisons.

    References
    ----------
    torch/_inductor/memory.py.
    """
    arrays = graph.arrays
    run = run_breadth_first.for_work(work_of(arrays))
    return run(arrays.pred.ptr, arrays.succ.ptr, arrays.succ.idx)


def dfs(graph: Graph, seed: int = 0) -> IntArray:
    """Return the order of Inductor's `topological_sort_dfs`, including its tie-breaks.

    Ops are visited by the bytes they allocate and use, then in listing order. Each one runs after
    its dependencies, which are visited by the same rule. O((n + edges) log n).

    Notes
    -----
    Inductor follows the dependencies that an op names: the producers of `reads`, and `control`. In
    its own graphs all other predecessors (producers of `uses`, overwriters, parents) are reached
    through these. In other graphs they are visited after them, so the order is valid for any graph.

    References
    ----------
    torch/_inductor/memory.py.
    """
    arrays = graph.arrays
    by_size = np.argsort(bytes_touched(arrays), kind="stable")
    children = _children(graph, by_size)
    return run_post_order.for_work(work_of(arrays))(by_size, children.ptr, children.idx)


def inductor(
    graph: Graph, seed: int = 0, *, methods: Sequence[Ordering] = (lpmf, bfs, dfs)
) -> IntArray:
    """Return the order of minimum peak among program, LPMF, BFS and DFS; ties go to the first.

    Inductor does not model in-place execution: orders are made and measured as if every output had
    bytes of its own.

    `seed`: seed passed to each method. `methods`: methods to compare with the listing order, which
    `reorder_for_peak_memory` always considers first and keeps on ties.

    References
    ----------
    torch/_inductor/memory.py, `reorder_for_peak_memory`.
    """
    graph = graph.without_inplace()
    # Each method runs once, also if the caller lists `program`.
    orders = [order(graph, seed) for order in dict.fromkeys((program, *methods))]
    return min(orders, key=lambda order: peak_memory(graph, order))


def bytes_touched(arrays: GraphArrays) -> IntArray:
    """Return the bytes that each op allocates and uses, shape `(n,)`."""
    # If the running sum overflows 64 bits, it wraps around, and its differences wrap back.
    sums = np.zeros(len(arrays.read.idx) + 1, np.int64)
    np.cumsum(arrays.size[arrays.read.idx], out=sums[1:])
    return arrays.alloc + np.diff(sums[arrays.read.ptr])


def _children(graph: Graph, by_size: IntArray) -> Rows:
    """Return the ops that each op visits: the named dependencies, then all predecessors.

    Each part is in the order of `by_size`. The second part repeats the first; a walk skips ops that
    it has visited.
    """
    arrays = graph.arrays
    followers = [arrays.succ]
    # In Inductor's own graphs the named dependencies are all there are.
    if _names_too_little(graph):
        followers.insert(0, _named_followers(graph))
    ptr = arrays.pred.ptr.copy()
    for rows in followers[:-1]:
        ptr[1:] += np.cumsum(np.bincount(rows.idx, minlength=len(graph.ops)))
    children, filled = np.empty(ptr[-1], np.int64), ptr[:-1].copy()
    for rows in followers:
        append = append_by_rank.for_work(work_of(arrays))
        append(by_size, rows.ptr, rows.idx, filled, children)
    return Rows(ptr, children)


def _named_followers(graph: Graph) -> Rows:
    """Return the ops that name each op as a dependency, by reading its buffers or by control."""
    reader, buffer = flat_rows([op.reads for op in graph.ops])
    waiter, control = flat_rows([op.control for op in graph.ops])
    producer = graph.arrays.producer[buffer]
    made = producer >= 0
    return pack_rows(
        np.append(producer[made], control), np.append(reader[made], waiter), len(graph.ops)
    )


def _names_too_little(graph: Graph) -> bool:
    """Return True if ops may have predecessors beyond producers of `reads` and `control`."""
    arrays = graph.arrays
    return (
        bool((arrays.birth != arrays.producer).any())
        or any(op.uses for op in graph.ops)
        or any(buffer.alias_of is not None for buffer in graph.buffers)
    )
