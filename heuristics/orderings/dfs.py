"""Inductor's depth-first order."""

from __future__ import annotations

import numpy as np

from heuristics.kernels.walks import append_by_rank, run_post_order
from heuristics.orderings.common import flatten, work_of
from optsched.model.arrays import GraphArrays, IntArray, Rows, pack_rows
from optsched.model.graph import Graph


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
