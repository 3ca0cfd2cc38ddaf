"""Inductor's depth-first order."""

from __future__ import annotations

import numpy as np

from heuristics.kernels.walks import run_post_order
from heuristics.orderings.common import sort_rows, work_of
from optsched.arrays import GraphArrays, IntArray
from optsched.graph import Graph


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
    rank = np.empty(len(graph.ops), np.int64)
    by_size = np.argsort(bytes_touched(arrays), kind="stable")
    rank[by_size] = np.arange(len(rank))
    implied = np.ones(len(arrays.pred.idx), np.int64)
    at = 0
    for op, before in zip(graph.ops, graph.predecessors, strict=True):
        named = {*op.control, *(graph.producers[b] for b in op.reads)}
        for u in before:
            implied[at] = u not in named
            at += 1
    children = sort_rows(arrays.pred, implied, rank[arrays.pred.idx])
    return run_post_order.for_work(work_of(arrays))(by_size, children.ptr, children.idx)


def bytes_touched(arrays: GraphArrays) -> IntArray:
    """Bytes each op allocates and uses, shape `(n,)`."""
    sums = np.zeros(len(arrays.read.idx) + 1, np.int64)
    np.cumsum(arrays.size[arrays.read.idx], out=sums[1:])
    return arrays.alloc + np.diff(sums[arrays.read.ptr])
