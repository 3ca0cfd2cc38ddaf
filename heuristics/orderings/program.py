"""The order in which the graph lists its ops, and that with early frees."""

from __future__ import annotations

import numpy as np

from heuristics.kernels.walks import run_eager_free, run_smallest_first
from heuristics.orderings.common import work_of
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph


def program(graph: Graph, seed: int = 0) -> IntArray:
    """Return the listing order; where that is no valid order, the smallest ready id comes first.

    A valid listing is returned as it is. O((n + edges) log n).
    """
    pred = graph.arrays.pred
    ops = np.arange(len(graph.ops), dtype=np.int64)
    if (pred.idx < np.repeat(ops, np.diff(pred.ptr))).all():
        return ops
    succ = graph.arrays.succ
    return run_smallest_first.for_work(work_of(graph.arrays))(pred.ptr, succ.ptr, succ.idx)


def eager_free(graph: Graph, seed: int = 0) -> IntArray:
    """Run the first listed of the ready ops that free more than they allocate, if there is one.

    Else the first listed of all ready ops runs: where nothing is to be gained at once, the order
    stays as it was. In-place is not taken into account.

    References
    ----------
    PyTorch pull request 196848, "Add stable eager-free peak-memory schedule candidate". Its text
    leaves open which of several such ops goes first; here it is the first listed.
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
