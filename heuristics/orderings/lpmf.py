"""Least peak memory first (LPMF): Inductor's greedy order, forward, backward and randomized.

Source: `topological_sort_lpmf` in torch/_inductor/memory.py; :mod:`heuristics.kernels.lpmf` has the
rule and an example.
"""

from __future__ import annotations

import numpy as np

from heuristics.kernels.lpmf import run_backward, run_forward
from heuristics.orderings.common import balance, savings, work_of
from optsched.model.arrays import IntArray, Rows
from optsched.model.graph import Graph

NOISE = (0.0, 0.02, 0.1, 0.3)
"""Amplitudes of the noise of a score, relative to the bytes that the op allocates and uses; each
run draws one.
"""


def lpmf(graph: Graph, seed: int = 0, *, size_threshold: int = 0) -> IntArray:
    """Return the order of Inductor's `topological_sort_lpmf`, including its tie-breaks.

    Among the ready ops that fit below the peak so far, the one that leaves the fewest bytes live
    runs next; if no op fits, the one that allocates least. Ties go to the op listed first. With a
    positive `size_threshold` (Inductor's `size_threshold_for_succ_based_strategy`), if every ready
    op allocates more than this number of bytes, the op with the earliest successor runs next; among
    equals, the one that has been ready longest.

    Notes
    -----
    Inductor scans all ready ops at each step. Here the same op is found in O(log n), so that a run
    takes O((n + edges) log n) on graphs of any width.

    In an in-place graph, which Inductor does not model, the allocation of an op is reduced by the
    bytes it writes into inputs that die at it.

    References
    ----------
    torch/_inductor/memory.py. J. Lee, S. Ha and others, "Buffer memory optimization for video codec
    application modeled in Simulink", DAC 2006.
    """
    n = len(graph.ops)
    index = np.arange(n + 1, dtype=np.int64)
    succ = _rows_as_queued(graph) if size_threshold > 0 else graph.arrays.succ
    return schedule_forward(graph, np.zeros_like(index), index, succ, size_threshold)


def lpmf_successors(graph: Graph, seed: int = 0, *, size_threshold: int | None = None) -> IntArray:
    """Return the LPMF order with its mode for steps at which every ready op is large.

    The default threshold of this method is the median of the bytes that allocating ops allocate.
    Inductor's own default is 0, which disables the mode and gives :func:`lpmf`.

    References
    ----------
    torch/_inductor/memory.py: `size_threshold_for_succ_based_strategy` (PyTorch pull request
    161810).
    """
    if size_threshold is None:
        alloc = np.sort(graph.arrays.alloc[graph.arrays.alloc > 0])
        size_threshold = int(alloc[len(alloc) // 2]) if len(alloc) else 0
    return lpmf(graph, seed, size_threshold=size_threshold)


def lpmf_backward(graph: Graph, seed: int = 0) -> IntArray:
    """Return the order that LPMF's rule gives from the last step back to the first.

    Seen backward, an op allocates the buffers whose last user it is and frees those it produces.
    The rule is that of :func:`lpmf`; ties go to the op listed last. Graphs with few live bytes at
    their end, such as backward passes, gain most. O((n + edges) log n).
    """
    n = len(graph.ops)
    index = np.arange(n + 1, dtype=np.int64)
    return schedule_backward(graph, np.zeros_like(index), n - index)


def lpmf_random(graph: Graph, seed: int = 0, *, bound: int = 0) -> IntArray:
    """Return a randomized LPMF order; equal seeds give equal orders.

    The seed determines tie-breaks, the amplitude of the noise, and the noise. As long as at most
    `bound` bytes are live, the op that leaves the fewest bytes live runs next, even if it raises
    the peak. With the peak of a known order as bound, a run concentrates on staying below that
    peak.
    """
    return schedule_forward(graph, *_draw(graph, seed), bound=bound)


def lpmf_backward_random(graph: Graph, seed: int = 0, *, bound: int = 0) -> IntArray:
    """Return a randomized order of backward LPMF; see :func:`lpmf_random`."""
    return schedule_backward(graph, *_draw(graph, seed), bound=bound)


def _draw(graph: Graph, seed: int) -> tuple[IntArray, IntArray]:
    """Return noise and tie-breaking ranks, each of shape `(n + 1,)`."""
    arrays, n = graph.arrays, len(graph.ops)
    random = np.random.default_rng(seed)
    owner = np.repeat(np.arange(n), np.diff(arrays.read.ptr))
    used = np.bincount(owner, weights=arrays.size[arrays.read.idx], minlength=n)
    # One amplitude per run: some runs stay close to the rule, others search widely.
    scale = random.choice(NOISE) * (arrays.alloc + used)
    bias = np.zeros(n + 1, np.int64)
    bias[:n] = scale * random.uniform(-1, 1, n)
    return bias, random.permutation(n + 1)


def schedule_forward(
    graph: Graph,
    bias: IntArray,
    tie: IntArray,
    succ: Rows | None = None,
    size_threshold: int = 0,
    bound: int = 0,
) -> IntArray:
    """Run the forward kernel with noise and ranks of shape `(n + 1,)`.

    Peaks of at most `bound` bytes are not counted as peaks.
    """
    arrays = graph.arrays
    succ = arrays.succ if succ is None else succ
    # Kept buffers are all live at the end, so no order has a lower peak.
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
    """Return successors as Inductor queues them: by buffer, readers before other users of each."""
    users: list[list[int]] = [[] for _ in graph.buffers]
    for names in ([op.reads for op in graph.ops], [op.uses for op in graph.ops]):
        for v, buffers in enumerate(names):
            for b in buffers:
                users[b].append(v)
    succ = graph.arrays.succ
    rows = [
        # Duplicates are dropped at their later occurrence, as a queue has each op once.
        dict.fromkeys([*(w for b in op.writes for w in users[b]), *succ.row(v).tolist()])
        for v, op in enumerate(graph.ops)
    ]
    return Rows(succ.ptr, np.array([w for row in rows for w in row], np.int64))


def schedule_backward(graph: Graph, bias: IntArray, tie: IntArray, bound: int = 0) -> IntArray:
    """Run the backward kernel with noise and ranks of shape `(n + 1,)`.

    Peaks of at most `bound` bytes are not counted as peaks.
    """
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
