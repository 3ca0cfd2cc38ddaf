"""TorchInductor's breadth-first and depth-first orders, and its choice of the best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heuristics.kernels.breadth import run_breadth_first
from heuristics.kernels.walks import append_by_rank, run_post_order
from heuristics.orderings.common import Ordering, flatten, work_of
from heuristics.orderings.lpmf import lpmf
from heuristics.orderings.program import program
from optsched.model.arrays import GraphArrays, IntArray, Rows, pack_rows
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory


def bfs(graph: Graph, seed: int = 0) -> IntArray:
    """Return the order of Inductor's `topological_sort_bfs`, tie-breaks included.

    The ready op whose predecessors ran earliest runs next: their steps, ascending, are compared
    as words in a dictionary; ties go to the op listed first. O((n + edges) log n) comparisons.

    References
    ----------
    torch/_inductor/memory.py.
    """
    arrays = graph.arrays
    run = run_breadth_first.for_work(work_of(arrays))
    return run(arrays.pred.ptr, arrays.succ.ptr, arrays.succ.idx)


def dfs(graph: Graph, seed: int = 0) -> IntArray:
    """Return the order of Inductor's `topological_sort_dfs`, tie-breaks included.

    Ops are visited by the bytes they allocate and use, then as listed; each after what it depends
    on, visited by the same rule. O((n + edges) log n).

    Notes
    -----
    Inductor walks the dependencies an op names itself: producers of `reads`, and `control`. What
    else must run before (producers of `uses`, overwriters, parents) is in its graphs reached
    through these; in others it is visited after them, so the order is valid for any graph.

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
    """Return the order of least peak among program, LPMF, BFS, DFS; ties go to the first named.

    Inductor knows nothing of in-place: it sorts and measures as if no output shared its bytes.

    Parameters
    ----------
    graph, seed
        What is ordered, and the seed that each method gets.
    methods
        What is weighed beside the order as listed, which `reorder_for_peak_memory` keeps on ties
        whatever methods it is called with.

    References
    ----------
    torch/_inductor/memory.py, `reorder_for_peak_memory`.
    """
    graph = graph.without_inplace()
    orders = [order(graph, seed) for order in dict.fromkeys((program, *methods))]
    return min(orders, key=lambda order: peak_memory(graph, order))


def bytes_touched(arrays: GraphArrays) -> IntArray:
    """Bytes each op allocates and uses, shape `(n,)`."""
    # Where a sum of all reads leaves 64 bits it wraps around, and its differences wrap back.
    sums = np.zeros(len(arrays.read.idx) + 1, np.int64)
    np.cumsum(arrays.size[arrays.read.idx], out=sums[1:])
    return arrays.alloc + np.diff(sums[arrays.read.ptr])


def _children(graph: Graph, by_size: IntArray) -> Rows:
    """What each op visits, in the order of `by_size`: what it names, then what else comes before.

    The second part repeats the first; a walk passes over what it has seen.
    """
    arrays = graph.arrays
    followers = [arrays.succ]
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
    """Return the ops that name each op: they read a buffer it makes, or control says so."""
    reader, buffer = flatten([op.reads for op in graph.ops])
    waiter, control = flatten([op.control for op in graph.ops])
    producer = graph.arrays.producer[buffer]
    made = producer >= 0
    return pack_rows(
        np.append(producer[made], control), np.append(reader[made], waiter), len(graph.ops)
    )


def _names_too_little(graph: Graph) -> bool:
    """Whether ops may have predecessors other than producers of what they read, and control."""
    arrays = graph.arrays
    return (
        bool((arrays.birth != arrays.producer).any())
        or any(op.uses for op in graph.ops)
        or any(buffer.alias_of is not None for buffer in graph.buffers)
    )
