"""The order in which the graph lists its ops, and the same order with early frees."""

from __future__ import annotations

import numpy as np

from heuristics.kernels.walks import run_eager_free, run_smallest_first
from heuristics.orderings.common import work_of
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph


def program(graph: Graph, seed: int = 0) -> IntArray:
    """Return the listing order if it is valid, else run the ready op of smallest id at each step.

    O((n + edges) log n) at worst.
    """
    pred = graph.arrays.pred
    ops = np.arange(len(graph.ops), dtype=np.int64)
    if (pred.idx < np.repeat(ops, np.diff(pred.ptr))).all():
        return ops
    succ = graph.arrays.succ
    return run_smallest_first.for_work(work_of(graph.arrays))(pred.ptr, succ.ptr, succ.idx)


def eager_free(graph: Graph, seed: int = 0) -> IntArray:
    """Run, at each step, the first listed ready op that frees more than it allocates, if any.

    Otherwise the first listed ready op runs, so that the listing order is kept where freeing early
    gains nothing. In-place execution is not taken into account.

    References
    ----------
    PyTorch pull request 196848, "Add stable eager-free peak-memory schedule candidate". Its text
    does not specify which of several such ops runs first; here it is the first listed.
    """
    arrays = graph.arrays
    return run_eager_free.for_work(work_of(arrays))(
        arrays.pred.ptr,
        arrays.succ.ptr,
        arrays.succ.idx,
        arrays.read.ptr,
        arrays.read.idx,
        arrays.user.ptr,
        arrays.user.idx,
        arrays.size,
        np.diff(arrays.user.ptr) + arrays.keep,
        arrays.alloc,
        arrays.own,
    )
