"""The order in which the graph lists its ops."""

from __future__ import annotations

import numpy as np

from heuristics.kernels.walks import run_smallest_first
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
