"""Least peak memory first, from the end state backwards."""

from __future__ import annotations

import numpy as np

from heuristics.kernels.lpmf import run_backward
from heuristics.orderings.common import balance, savings, work_of
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph


def lpmf_backward(graph: Graph, seed: int = 0) -> IntArray:
    """Return the order that LPMF's rule gives from the last step back to the first.

    Seen backwards, an op allocates the buffers whose last user it is and frees the ones it
    produces. The rule is that of :func:`heuristics.orderings.lpmf.lpmf`; ties go to the op listed
    last. Backward passes and other graphs that end narrow gain most. O((n + edges) log n).
    """
    n = len(graph.ops)
    index = np.arange(n + 1, dtype=np.int64)
    return schedule_backward(graph, np.zeros_like(index), n - index)


def schedule_backward(graph: Graph, bias: IntArray, tie: IntArray, bound: int = 0) -> IntArray:
    """Run the kernel; `bias` and `tie` have shape `(n + 1,)`, up to `bound` bytes are no peak."""
    arrays = graph.arrays
    kept = int(arrays.size[arrays.keep].sum())
    return run_backward.for_work(work_of(arrays))(
        arrays.pred.ptr,
        arrays.pred.idx,
        arrays.succ.ptr,
        arrays.read.ptr,
        arrays.read.idx,
        arrays.user.ptr,
        arrays.user.idx,
        arrays.size,
        arrays.keep.astype(np.int64),
        arrays.alloc,
        arrays.own,
        kept,
        max(arrays.initial, kept, bound),
        bias,
        tie,
        balance(len(graph.ops)),
        *savings(arrays),
    )
