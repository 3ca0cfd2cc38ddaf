"""What the packings share: their type, and the placing of buffers in a given sequence."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from heuristics.kernels.place import run_place
from optsched.arrays import IntArray
from optsched.problem import PackingProblem


class Packing(Protocol):
    """Makes offsets for a packing problem; a buffer with gaps is packed as if it had none."""

    def __call__(self, problem: PackingProblem) -> IntArray:
        """Return the offsets, shape `(k,)`: aligned, pins honoured."""


def place_in_turn(problem: PackingProblem, sequence: IntArray, *, tightest: bool) -> IntArray:
    """Place pinned buffers at their pins, then the others in sequence; see the kernel."""
    pinned = problem.pin[sequence] >= 0
    turn = np.concatenate([sequence[pinned], sequence[~pinned]])
    # The kernel compares pairs of buffers, a cheap step: 64 of them count as one element.
    run = run_place.for_work(len(turn) * len(turn) // 64)
    return run(
        turn,
        problem.start,
        problem.end,
        problem.size,
        problem.alignment,
        problem.pin,
        tightest,
    )
