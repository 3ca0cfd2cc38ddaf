"""Packings that place the buffers one after another, in one of several sequences.

First fit places each buffer in the lowest hole that is large enough, best fit in the tightest. Best
fit by size is `greedy_by_size`, best fit by breadth `greedy_by_profile_breadth`. First fit in order
of arrival is a first-fit allocator at run time, and best fit by start a best-fit allocator. The
kernels in `heuristics.kernels` state their costs: all are quasi-linear on traces of models and
quadratic at worst, with O(k log k) memory.

Example: `a` (8 bytes, steps [0, 2)), `b` (4 bytes, steps [1, 4)), `c` (6 bytes, steps [2, 4)). By
size `a` lies at 0; `c` conflicts with neither and lies at 0; `b` conflicts with both and lies at 8:
a slab of 12.

References
----------
M. Poletto, V. Sarkar, "Linear scan register allocation", TOPLAS 21(5), 1999: by arrival.
Apache TVM, Unified Static Memory Planner, `greedy_by_conflicts`: first fit by conflicts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from heuristics.kernels.sweep import run_scan
from heuristics.packings import sequences
from heuristics.packings.common import Packing, is_plain, place_by_start, place_in_turn
from optsched.errors import GraphError
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem

Sequence = Callable[[PackingProblem], IntArray]


def fit(problem: PackingProblem, *, sequence: Sequence, tightest: bool) -> IntArray:
    """Place all buffers in the order of a sequence."""
    # With ascending starts, a placed buffer can only be met if it is live at the new start.
    by_start = sequence in (sequences.by_start, sequences.by_arrival)
    place = place_by_start if by_start else place_in_turn
    return place(problem, sequence(problem), tightest=tightest)


_SEQUENCES: dict[str, Sequence] = {
    "size": sequences.by_size,
    "area": sequences.by_area,
    "start": sequences.by_start,
    "arrival": sequences.by_arrival,
    "lifetime": sequences.by_lifetime,
    "conflicts": sequences.by_conflicts,
    "breadth": sequences.by_breadth,
}
FIRST_FIT: dict[str, Packing] = {
    f"first_fit_{name}": partial(fit, sequence=sequence, tightest=False)
    for name, sequence in _SEQUENCES.items()
}
"""First fit in several sequences; the name states the primary key."""
BEST_FIT: dict[str, Packing] = {
    f"best_fit_{name}": partial(fit, sequence=_SEQUENCES[name], tightest=True)
    for name in ("area", "start", "lifetime", "conflicts")
}
"""Best fit in several sequences; the name states the primary key."""


def greedy_by_size(problem: PackingProblem) -> IntArray:
    """Place the buffers by descending size, each in the smallest hole that is large enough.

    Buffers of equal size keep their order. A hole lies between placed buffers that overlap in time;
    if no hole is large enough, the buffer goes on top of the highest one.

    References
    ----------
    Y. Pisarchyk, J. Lee, "Efficient Memory Management for Deep Neural Net Inference",
    arXiv:2001.03288. aitemplate/compiler/transform/memory_planning.py.
    """
    sequence = np.argsort(-problem.size, kind="stable")
    return place_in_turn(problem, sequence, tightest=True)


def greedy_by_longest_and_size(problem: PackingProblem) -> IntArray:
    """Place the buffers by descending lifetime, then size, each in the smallest hole.

    Further ties go to the earlier start. If no hole is large enough, the buffer goes on top of the
    highest placed one that overlaps it in time.

    References
    ----------
    PyTorch pull request 64347, torch/csrc/jit/passes/memory_planning/greedy_by_size.cpp.
    """
    sequence = np.lexsort((problem.start, -problem.size, problem.start - problem.end))
    return place_in_turn(problem, sequence, tightest=True)


def greedy_by_breadth(problem: PackingProblem) -> IntArray:
    """Place the buffers op by op, most bytes read and written first, largest buffer of an op first.

    A buffer goes into the smallest hole that is large enough, else above all buffers that overlap
    it in time. The uses of a buffer are those of `problem.uses`; without them, it is assumed to be
    written at its first step and read at its last.

    References
    ----------
    PyTorch pull request 64347, torch/csrc/jit/passes/memory_planning/greedy_by_breadth.cpp.
    """
    return place_in_turn(problem, sequences.by_own_breadth(problem), tightest=True)


def greedy_by_profile_breadth(problem: PackingProblem) -> IntArray:
    """Place the buffers op by op, most live bytes first, largest buffer of an op first.

    A buffer goes into the smallest hole that is large enough, else above all buffers that overlap
    it in time. Its turn comes with the fullest op at which it is live. Sorting takes O(k log k)
    time and memory.

    References
    ----------
    Y. Pisarchyk, J. Lee, "Efficient Memory Management for Deep Neural Net Inference",
    arXiv:2001.03288: "greedy by breadth" for offset calculation; the profile of an op is the set of
    buffers live at it.
    """
    return place_in_turn(problem, sequences.by_breadth(problem), tightest=True)


def tflm_greedy(problem: PackingProblem) -> IntArray:
    """Place the buffers by descending size, ties in reverse listing order, each in the lowest hole.

    References
    ----------
    tensorflow/lite/micro/memory_planner/greedy_memory_planner.cc of
    https://github.com/tensorflow/tflite-micro
    """
    last_first = np.arange(len(problem))[::-1]
    sequence = last_first[np.argsort(-problem.size[::-1], kind="stable")]
    return place_in_turn(problem, sequence, tightest=False)


def linear_scan(problem: PackingProblem) -> IntArray:
    """Place the buffers by start, each in the smallest free region, else at the end of the slab.

    Among equal starts, the earlier end comes first. The bytes of an ended buffer become a free
    region, adjacent regions are merged, and the unused rest of a region stays free. A region at the
    end of the slab is not extended: a buffer that does not fit in any region lies above all bytes
    used so far. The variant of a run-time allocator, in order of arrival and with the lowest hole,
    is `first_fit_arrival`. O(k h) time with h regions.

    References
    ----------
    PyTorch pull request 64347, torch/csrc/jit/passes/memory_planning/linear_scan.cpp. C. Wimmer, H.
    Moessenboeck, "Optimized interval splitting in a linear scan register allocator", VEE 2005.
    """
    sequence = np.lexsort((problem.end, problem.start))
    if not is_plain(problem):
        # Best fit in this sequence supports what the kernel does not.
        return place_in_turn(problem, sequence, tightest=True)
    return run_scan.for_work(len(problem))(
        sequence,
        np.argsort(problem.end, kind="stable"),
        problem.start,
        problem.end,
        problem.size,
        problem.alignment,
    )


def naive(problem: PackingProblem) -> IntArray:
    """Place every buffer above the previous one; only pinned buffers may share bytes."""
    pinned = np.flatnonzero(problem.pin >= 0)
    blocks = sorted((int(problem.pin[i]), int(problem.pin[i] + problem.size[i])) for i in pinned)
    offsets = np.zeros(len(problem), np.int64)
    at = 0
    for i in range(len(problem)):
        if problem.pin[i] >= 0:
            offsets[i] = problem.pin[i]
            continue
        alignment, size = int(problem.alignment[i]), int(problem.size[i])
        at = -(-at // alignment) * alignment
        for low, high in blocks:
            if low < at + size and at < high:
                at = -(-high // alignment) * alignment
        if at + size >= 2**63:
            raise GraphError(f"buffer {problem.names[i]!r} would end beyond 2**63 bytes")
        offsets[i] = at
        at += size
    return offsets
