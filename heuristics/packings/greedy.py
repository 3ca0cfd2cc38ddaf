"""Packings that take the buffers one after another, in one of several sequences.

First fit puts each into the lowest hole that holds it, best fit into the tightest. Best fit by size
is `greedy_by_size`, by breadth `greedy_by_profile_breadth`. First fit in the sequence of arrival is
a first-fit allocator at run time, best fit by start a best-fit one. What a placement costs is said
in `heuristics.kernels`: all are quasi-linear on traces of models, and quadratic at worst; memory is
O(k log k).

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
from heuristics.packings.common import Packing, is_swept, place_by_start, place_in_turn
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem

Sequence = Callable[[PackingProblem], IntArray]


def fit(problem: PackingProblem, *, sequence: Sequence, tightest: bool) -> IntArray:
    """Place all buffers in a sequence."""
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
"""First fit, by what comes first in its name."""
BEST_FIT: dict[str, Packing] = {
    f"best_fit_{name}": partial(fit, sequence=_SEQUENCES[name], tightest=True)
    for name in ("area", "start", "lifetime", "conflicts")
}
"""Best fit, by what comes first in its name."""


def greedy_by_size(problem: PackingProblem) -> IntArray:
    """Place the largest first, each into the smallest hole that holds it.

    Equal sizes keep their order. A hole lies between buffers placed before that overlap in time;
    where none is large enough, the buffer goes above the top of the highest.

    References
    ----------
    Y. Pisarchyk, J. Lee, "Efficient Memory Management for Deep Neural Net Inference",
    arXiv:2001.03288. aitemplate/compiler/transform/memory_planning.py.
    """
    sequence = np.argsort(-problem.size, kind="stable")
    return place_in_turn(problem, sequence, tightest=True)


def greedy_by_longest_and_size(problem: PackingProblem) -> IntArray:
    """Place the longest-lived first, the larger among equals, each into the smallest hole.

    What is equal in both too: the earlier start first. Where no hole is large enough, the buffer
    goes above the top of the highest that it meets.

    References
    ----------
    PyTorch pull request 64347, torch/csrc/jit/passes/memory_planning/greedy_by_size.cpp.
    """
    sequence = np.lexsort((problem.start, -problem.size, problem.start - problem.end))
    return place_in_turn(problem, sequence, tightest=True)


def greedy_by_breadth(problem: PackingProblem) -> IntArray:
    """Take the ops by the bytes they read and write, most first; place each one's, largest first.

    A buffer goes into the smallest hole that holds it, else above all it meets. Which ops read and
    write a buffer says `problem.uses`; live ranges without a graph are taken as written at their
    first step and read at their last.

    References
    ----------
    PyTorch pull request 64347, torch/csrc/jit/passes/memory_planning/greedy_by_breadth.cpp.
    """
    return place_in_turn(problem, sequences.by_own_breadth(problem), tightest=True)


def greedy_by_profile_breadth(problem: PackingProblem) -> IntArray:
    """Take the ops by bytes live at them, most first; place each one's buffers, largest first.

    A buffer goes into the smallest hole that holds it, else above all it meets. Sorting takes
    O(k log k) time and memory: a buffer's turn comes with the fullest op that it is live at.

    References
    ----------
    Y. Pisarchyk, J. Lee, "Efficient Memory Management for Deep Neural Net Inference",
    arXiv:2001.03288: "greedy by breadth" for offset calculation; an op's profile is all that is
    live at it.
    """
    return place_in_turn(problem, sequences.by_breadth(problem), tightest=True)


def tflm_greedy(problem: PackingProblem) -> IntArray:
    """Place the largest first, as listed last first among equals, each into the lowest hole.

    References
    ----------
    tensorflow/lite/micro/memory_planner/greedy_memory_planner.cc of
    https://github.com/tensorflow/tflite-micro
    """
    last_first = np.arange(len(problem))[::-1]
    sequence = last_first[np.argsort(-problem.size[::-1], kind="stable")]
    return place_in_turn(problem, sequence, tightest=False)


def linear_scan(problem: PackingProblem) -> IntArray:
    """Walk over the starts; take the smallest free region that is enough, else grow at the end.

    Equal starts: the earlier end first. What has ended becomes a free region, regions that touch
    become one, and what a buffer leaves of its region stays free. A region at the end of the slab
    is not extended: a buffer that fits nowhere lies above all bytes ever used. An allocator at
    run time that keeps them as they arrive and takes the lowest is `first_fit_arrival`.
    O(k h) time with h regions.

    References
    ----------
    PyTorch pull request 64347, torch/csrc/jit/passes/memory_planning/linear_scan.cpp.
    C. Wimmer, H. Moessenboeck, "Optimized interval splitting in a linear scan register
    allocator", VEE 2005.
    """
    sequence = np.lexsort((problem.end, problem.start))
    if not is_swept(problem):
        # Of pins and pairs the kernel knows nothing: each goes into the tightest hole.
        return place_in_turn(problem, sequence, tightest=True)
    return run_scan.for_work(len(problem))(
        sequence,
        np.argsort(problem.end, kind="stable"),
        problem.start,
        problem.end,
        problem.size,
        problem.alignment,
    )
