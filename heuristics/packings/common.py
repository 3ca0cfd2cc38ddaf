"""Helpers of the packings: their type, and the placement of buffers in a given sequence.

Example: the sequence (b, a) places `b` at the lowest offset at which it overlaps no placed buffer,
then `a`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import Protocol

import numpy as np

from heuristics.kernels.place import run_place
from heuristics.kernels.place_indexed import run_place_indexed
from heuristics.kernels.sweep import run_sweep
from optsched.errors import GraphError
from optsched.model.arrays import IntArray, distinct, pack_rows
from optsched.model.packing_problem import PackingProblem

MANY = 1_000
"""Number of buffers above which the index over time is faster than a scan over all of them."""
BLOCKS = 128
"""Number of blocks of that index."""


class Packing(Protocol):
    """Function that returns offsets for a packing problem; gaps in buffers are ignored."""

    def __call__(self, problem: PackingProblem) -> IntArray:
        """Return the offsets, shape `(k,)`: aligned, and equal to the pins of pinned buffers."""


def joining(packings: Mapping[str, Packing]) -> dict[str, Packing]:
    """Return packings that treat each group of buffers with a common offset as one buffer.

    They raise `GraphError` if a buffer does not end within its upper limit.
    """
    return {name: _join_first(packing) for name, packing in packings.items()}


def _join_first(packing: Packing) -> Packing:
    @wraps(packing)
    def packed(problem: PackingProblem) -> IntArray:
        if not problem.must_share:
            offsets = packing(problem)
        else:
            joined = problem.joined
            offsets = packing(joined.problem)[joined.place]
        if not problem.keeps_limits(offsets):
            raise GraphError(f"{problem.name}: no packing that keeps upper limits was found")
        return offsets

    return packed


def place_in_turn(
    problem: PackingProblem, sequence: IntArray, *, tightest: bool, times: int = 1
) -> IntArray:
    """Place pinned buffers at their pins, then the others in sequence; see the kernels.

    Buffers with an upper limit come before those without, the lowest limit first, and may miss it.
    Buffers that have no bytes or are never live come last, so that they do not affect others.

    `problem`: the packing problem. `sequence`: all buffers, in order of placement. `tightest`: True
    for best fit, False for first fit. `times`: expected number of calls; with more calls, compiling
    pays off sooner.
    """
    if problem.has_limits:
        sequence = sequence[np.argsort(problem.below[sequence], kind="stable")]
    hollow = (problem.size == 0) | (problem.start == problem.end)
    # Pins first, as nothing can move them; hollow buffers last, as they overlap nothing.
    rank = 2 * hollow[sequence] + (problem.pin[sequence] < 0)
    turn = sequence[np.argsort(rank, kind="stable")]
    if not problem.is_in_range:
        return place_exactly(problem, turn, tightest=tightest)
    ptr, partners = _partners(problem)
    # The index makes the list of a buffer's partners in time quadratic in their number.
    squares = int((np.diff(ptr) ** 2).sum())
    if len(turn) > MANY and squares < len(turn) ** 2:
        return _place_indexed(problem, turn, ptr, partners, tightest=tightest)
    columns = (problem.start, problem.end, problem.size, problem.alignment, problem.pin)
    # The kernel compares pairs of buffers, which is cheap: 64 pairs count as one element.
    work = times * len(turn) * len(turn) // 64
    return run_place.for_work(work)(turn, *columns, ptr, partners, tightest)


def _partners(problem: PackingProblem) -> tuple[IntArray, IntArray]:
    """Return the buffers that each buffer must be kept apart from, as rows; see the kernels."""
    if not len(problem.keep_apart):
        return np.zeros(len(problem) + 1, np.int64), np.zeros(0, np.int64)
    live = (problem.size > 0) & (problem.start < problem.end)
    pairs = problem.keep_apart[live[problem.keep_apart].all(axis=1)]
    both = np.concatenate([pairs, pairs[:, ::-1]])
    rows = pack_rows(both[:, 0], both[:, 1], len(problem))
    return rows.ptr, rows.idx


def _place_indexed(
    problem: PackingProblem, turn: IntArray, ptr: IntArray, partners: IntArray, *, tightest: bool
) -> IntArray:
    """Place buffers in sequence with an index over time."""
    starts, first, last = sections_of(problem)
    columns = (problem.size, problem.alignment, problem.pin)
    run = run_place_indexed.for_work(16 * len(turn))
    return run(turn, first, last, *columns, ptr, partners, len(starts), BLOCKS, tightest)


def place_exactly(problem: PackingProblem, turn: IntArray, *, tightest: bool) -> IntArray:
    """Place buffers as the kernels do, in Python integers, which do not overflow.

    Raise `GraphError` if a buffer would end beyond 64-bit integers.
    """
    start, end = problem.start.tolist(), problem.end.tolist()
    size, alignment = problem.size.tolist(), problem.alignment.tolist()
    offsets = problem.pin.tolist()
    placed: list[int] = []
    apart = {pair for a, b in problem.keep_apart.tolist() for pair in ((a, b), (b, a))}
    for i in turn.tolist():
        if offsets[i] < 0:
            met = [
                j
                for j in placed
                if max(start[i], start[j]) < min(end[i], end[j]) or (i, j) in apart
            ]
            holes, low = [], 0
            # From the lowest up, with the highest end so far, as in the kernels.
            for j in sorted(met, key=lambda j: offsets[j]):
                at = -(-low // alignment[i]) * alignment[i]
                if at + size[i] <= offsets[j]:
                    holes.append((offsets[j] - at, at))
                low = max(low, offsets[j] + size[j])
            lowest = min(holes) if tightest and holes else (holes or [(0, low)])[0]
            offsets[i] = -(-lowest[1] // alignment[i]) * alignment[i]
        if offsets[i] + size[i] >= 2**63:
            raise GraphError(f"buffer {problem.names[i]!r} would end beyond 2**63 bytes")
        placed.append(i)
    return np.array(offsets, np.int64)


def place_by_start(problem: PackingProblem, sequence: IntArray, *, tightest: bool) -> IntArray:
    """Place buffers of ascending start as :func:`place_in_turn` does, by a sweep if possible."""
    if not is_plain(problem):
        return place_in_turn(problem, sequence, tightest=tightest)
    return run_sweep.for_work(len(problem))(
        sequence,
        np.argsort(problem.end, kind="stable"),
        problem.start,
        problem.end,
        problem.size,
        problem.alignment,
        tightest,
    )


def is_plain(problem: PackingProblem) -> bool:
    """Return True if buffers have no pins, pairs and limits, and their sums fit in 64 bits.

    The kernels of sweeps and of the skyline support nothing else: they forget ended buffers, which
    pins and pairs could still meet. Other problems are for :func:`place_in_turn`.
    """
    fixed = (problem.pin >= 0).any() or len(problem.keep_apart) or problem.has_limits
    return problem.is_in_range and not fixed


def sections_of(problem: PackingProblem) -> tuple[IntArray, IntArray, IntArray]:
    """Cut time at the starts of live ranges, and return the sections that each range covers.

    Two live ranges overlap if and only if they share the later one of their starts.

    Returns
    -------
    starts, first, last
        First step of each section; half-open range of sections of each buffer, empty if it is never
        live.
    """
    live = problem.start < problem.end
    starts = distinct(problem.start[live])
    return starts, np.searchsorted(starts, problem.start), np.searchsorted(starts, problem.end)
