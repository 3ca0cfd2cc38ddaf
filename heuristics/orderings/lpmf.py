"""Least peak memory first: Inductor's greedy order."""

from __future__ import annotations

import numpy as np

from heuristics.kernels.lpmf import run_forward
from heuristics.orderings.common import balance, savings, work_of
from optsched.model.arrays import IntArray, Rows
from optsched.model.graph import Graph


def lpmf(graph: Graph, seed: int = 0, *, size_threshold: int = 0) -> IntArray:
    """Return the order of Inductor's `topological_sort_lpmf`, tie-breaks included.

    Among the ready ops that fit below the peak so far, the one that leaves the fewest bytes live
    runs next; if none fits, the one that allocates least. Ties go to the op listed first.

    Parameters
    ----------
    graph
        The graph.
    seed
        Not used.
    size_threshold
        If above 0: whenever every ready op allocates more than this, the op with the earliest
        successor runs next, among equals the one that has been ready longest. Inductor's
        `size_threshold_for_succ_based_strategy`.

    Notes
    -----
    Inductor scans all ready ops at each step. Here the same op is found in O(log n), so that the
    whole takes O((n + edges) log n) on graphs of any width.

    In an in-place graph, of which Inductor knows nothing, an op allocates less by what it writes
    into inputs that die at it.

    References
    ----------
    torch/_inductor/memory.py. J. Lee, S. Ha and others, "Buffer memory optimization for video
    codec application modeled in Simulink", DAC 2006.
    """
    n = len(graph.ops)
    index = np.arange(n + 1, dtype=np.int64)
    succ = _rows_as_queued(graph) if size_threshold > 0 else graph.arrays.succ
    return schedule_forward(graph, np.zeros_like(index), index, succ, size_threshold)


def schedule_forward(
    graph: Graph,
    bias: IntArray,
    tie: IntArray,
    succ: Rows | None = None,
    size_threshold: int = 0,
    bound: int = 0,
) -> IntArray:
    """Run the kernel; `bias` and `tie` have shape `(n + 1,)`, up to `bound` bytes are no peak."""
    arrays = graph.arrays
    succ = arrays.succ if succ is None else succ
    kept = int(arrays.size[arrays.keep].sum())
    return run_forward.for_work(work_of(arrays))(
        arrays.pred.ptr,
        succ.ptr,
        succ.idx,
        arrays.read.ptr,
        arrays.read.idx,
        arrays.user.ptr,
        arrays.user.idx,
        arrays.size,
        np.diff(arrays.user.ptr) + arrays.keep,
        arrays.alloc,
        arrays.own,
        arrays.initial,
        max(arrays.initial, kept, bound),
        bias,
        tie,
        balance(len(graph.ops)),
        size_threshold,
        *savings(arrays),
    )


def _rows_as_queued(graph: Graph) -> Rows:
    """Successors as Inductor meets them: buffer by buffer, readers before mere users of each."""
    users: list[list[int]] = [[] for _ in graph.buffers]
    for names in ([op.reads for op in graph.ops], [op.uses for op in graph.ops]):
        for v, buffers in enumerate(names):
            for b in buffers:
                users[b].append(v)
    succ = graph.arrays.succ
    rows = [
        dict.fromkeys([*(w for b in op.writes for w in users[b]), *succ.row(v).tolist()])
        for v, op in enumerate(graph.ops)
    ]
    return Rows(succ.ptr, np.array([w for row in rows for w in row], np.int64))
