"""Checks of the numbers that make up a packing problem: ranges, sizes, pins and gaps."""

from __future__ import annotations

import numpy as np

from optsched.errors import GraphError
from optsched.model.elements import MAX_ADDRESS, MAX_TOTAL_BYTES
from optsched.model.packing_buffers import COLUMNS, PackingBuffers
from optsched.model.parts import Gap


def check_numbers(problem: PackingBuffers) -> None:
    """Raise :class:`GraphError` on the first invalid number of a packing problem."""
    count = len(problem.size)
    for what in COLUMNS:
        if len(getattr(problem, what)) != count:
            given = len(getattr(problem, what))
            raise GraphError(f"{what} has {given} entries, but size has {count}")
    # Loops over offending entries only: a valid problem costs a few array comparisons.
    for i in np.flatnonzero(problem.end < problem.start):
        raise GraphError(
            f"buffer {problem.names[i]!r}: live range "
            f"[{problem.start[i]}, {problem.end[i]}) is reversed"
        )
    for values, what, least in ((problem.size, "size", 0), (problem.alignment, "alignment", 1)):
        for i in np.flatnonzero(values < least):
            raise GraphError(
                f"buffer {problem.names[i]!r}: {what} must be at least {least}, got {values[i]}"
            )
    for i in np.flatnonzero((problem.pin > 0) & (problem.pin % problem.alignment != 0)):
        raise GraphError(
            f"buffer {problem.names[i]!r}: pin {problem.pin[i]} is not a multiple "
            f"of alignment {problem.alignment[i]}"
        )
    # In Python integers, since the sum itself could overflow.
    if sum(problem.size.tolist()) > MAX_TOTAL_BYTES:
        raise GraphError("sizes add up to more than 2**62 bytes")
    _refuse_large(problem)
    lowest = np.maximum(problem.pin, 0) + problem.size
    for i in np.flatnonzero((lowest > problem.below) & (problem.end > problem.start)):
        raise GraphError(
            f"buffer {problem.names[i]!r}: it ends at {lowest[i]} or above, its upper limit is "
            f"{problem.below[i]}"
        )
    if problem.gaps and len(problem.gaps) != count:
        raise GraphError(f"gaps has {len(problem.gaps)} entries, but size has {count}")
    for owner, gaps in enumerate(problem.gaps):
        _check_gaps(problem, owner, gaps)


def _refuse_large(problem: PackingBuffers) -> None:
    """Raise an error if sums of the given numbers could exceed 64-bit integers."""
    for i in np.flatnonzero(problem.alignment > MAX_TOTAL_BYTES):
        raise GraphError(
            f"buffer {problem.names[i]!r}: alignment {problem.alignment[i]} is above the limit of "
            "2**62 bytes"
        )
    for i in np.flatnonzero(problem.pin > MAX_ADDRESS - problem.size):
        raise GraphError(
            f"buffer {problem.names[i]!r}: pinned to {problem.pin[i]} it ends beyond 2**63 - 1"
        )
    for i in np.flatnonzero((problem.start < -MAX_TOTAL_BYTES) | (problem.end > MAX_TOTAL_BYTES)):
        raise GraphError(
            f"buffer {problem.names[i]!r}: live range [{problem.start[i]}, {problem.end[i]}) "
            "is outside -2**62 to 2**62"
        )


def _check_gaps(problem: PackingBuffers, i: int, gaps: tuple[Gap, ...]) -> None:
    at = int(problem.start[i])
    for gap in gaps:
        if not isinstance(gap, Gap):
            raise GraphError(f"buffer {problem.names[i]!r}: expected a Gap, got {gap!r}")
        low, high = gap.window or (0, 0)
        # Gaps ascend and do not touch each other's inside, which later code relies on.
        if not at <= gap.start < gap.end <= problem.end[i]:
            raise GraphError(
                f"buffer {problem.names[i]!r}: gap {gap.start}-{gap.end} is reversed, overlaps "
                f"another gap or exceeds the live range [{problem.start[i]}, {problem.end[i]})"
            )
        if not 0 <= low <= high <= problem.size[i]:
            raise GraphError(
                f"buffer {problem.names[i]!r}: gap window {low}:{high} exceeds its "
                f"{problem.size[i]} bytes"
            )
        at = gap.end
