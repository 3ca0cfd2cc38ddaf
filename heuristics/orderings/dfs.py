"""Inductor's depth-first order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from heuristics.kernels.walks import run_post_order
from heuristics.orderings.common import entry_owners, flatten, sort_rows, work_of
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
    implied = (~_is_named(graph)).astype(np.int64)
    children = sort_rows(arrays.pred, implied, rank[arrays.pred.idx])
    return run_post_order.for_work(work_of(arrays))(by_size, children.ptr, children.idx)


def bytes_touched(arrays: GraphArrays) -> IntArray:
    """Bytes each op allocates and uses, shape `(n,)`."""
    # Where a sum of all reads leaves 64 bits it wraps around, and its differences wrap back.
    sums = np.zeros(len(arrays.read.idx) + 1, np.int64)
    np.cumsum(arrays.size[arrays.read.idx], out=sums[1:])
    return arrays.alloc + np.diff(sums[arrays.read.ptr])


def _is_named(graph: Graph) -> npt.NDArray[np.bool_]:
    """Whether an op names each of its predecessors, in the order of their rows."""
    n, pred = len(graph.ops), graph.arrays.pred
    reader, buffer = flatten(op.reads for op in graph.ops)
    producer = graph.arrays.producer[buffer]
    waiter, control = flatten(op.control for op in graph.ops)
    data = (reader * n + producer)[producer >= 0]
    return np.isin(entry_owners(pred) * n + pred.idx, np.append(data, waiter * n + control))
