"""Packing without any reuse of memory: the baseline of all tables."""

from __future__ import annotations

import numpy as np

from optsched.errors import GraphError
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem


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
