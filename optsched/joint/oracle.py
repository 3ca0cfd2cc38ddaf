"""Packing oracle: whether an order packs into a capacity, and which range of steps refutes it.

Example: steps 0 to 9 of an order do not pack into 12 bytes. The oracle finds that steps [3, 6)
alone do not, and returns this range, so that other orders with the same conflicts there can be
refuted without a search.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

import numpy as np

from optsched.errors import GraphError
from optsched.model.arrays import IntArray
from optsched.model.elements import MAX_ADDRESS
from optsched.model.packing_buffers import COLUMNS
from optsched.model.packing_problem import Gap, PackingProblem
from optsched.packing import PackingOutcome, solve_packing
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits


class GiveUpError(Exception):
    """A search has reached its limits without an answer."""


WORK_PER_SECOND = 1_000_000
"""Units of `Limits.work` that replace a second of an engine's time limit."""


def portion(clock: Clock, seconds: float, seed: int) -> Clock:
    """Return a clock for one call of an engine: a part of the rest of `clock`.

    The part is at most `seconds` seconds, or the equivalent amount of work if work is limited.
    Without any limit it is work too, so that results do not depend on the machine.
    """
    left, work = clock.left(), seconds * WORK_PER_SECOND
    if left is None:
        return Clock.of(Limits(work=int(work), seed=seed))
    amount = seconds if clock.limits.work is None else work
    # A limit on work stays one, so that results do not depend on the machine.
    part = clock.share(min(1.0, amount / max(left, 1e-9)))
    part.limits = replace(clock.limits, seed=seed)
    return part


class PackingOracle:
    """Oracle that calls the exact packing engine with a short limit for each call.

    Each packing has a limit of `seconds`, see :func:`portion`; the search gives up if one is not
    decided.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock, self.seconds = clock, seconds
        self.known: dict[bytes, tuple[int, IntArray] | None] = {}

    def within(self, problem: PackingProblem, capacity: int) -> IntArray | None:
        """Return offsets within a capacity, or None if it is proved that none exist.

        Raise `GiveUpError` if the question is not decided.
        """
        # Live bytes alone refute the capacity, without a search.
        if problem.max_load > capacity:
            return None
        try:
            outcome = self._ask(problem, capacity)
        except GraphError:
            # Two pinned buffers overlap.
            return None
        capacity = min(capacity, MAX_ADDRESS)
        if outcome.slab is not None and outcome.slab <= capacity:
            return outcome.offsets
        if outcome.bound > capacity:
            return None
        raise GiveUpError

    def minimum(self, problem: PackingProblem) -> tuple[int, IntArray] | None:
        """Return the minimum slab and its offsets, or None if no packing is valid.

        No packing is valid if pinned buffers overlap, or if every packing takes more than
        `MAX_ADDRESS` bytes.

        Raise `GiveUpError` if no slab is proved to be the minimum.
        """
        key = problem_key(problem)
        # Different orders often have equal live ranges in a pool, so answers are kept.
        if key not in self.known:
            self.known[key] = self._minimize(problem)
        return self.known[key]

    def _minimize(self, problem: PackingProblem) -> tuple[int, IntArray] | None:
        try:
            outcome = self._ask(problem, None)
        except GraphError:
            return None
        if outcome.bound > MAX_ADDRESS:
            return None
        if outcome.offsets is None or outcome.slab is None or outcome.slab > outcome.bound:
            raise GiveUpError
        return outcome.slab, outcome.offsets

    def stretch(self, problem: PackingProblem, capacity: int) -> tuple[int, int]:
        """Return a range of steps `[low, high)` that alone does not pack into the capacity.

        All steps together do not pack. First `high` is made as small as possible, then `low` as
        large as possible.
        """

        # Fewer steps never make a packing harder, so both ends are found by bisection.
        def refuses(low: int, high: int) -> bool:
            return self.within(clip(problem, low, high), capacity) is None

        ends = range(1, int(problem.end.max()))
        high = 1 + bisect_left(ends, True, key=lambda end: refuses(0, end))
        starts = range(high - 1, 0, -1)
        return high - 1 - bisect_left(starts, True, key=lambda start: refuses(start, high)), high

    def _ask(self, problem: PackingProblem, capacity: int | None) -> PackingOutcome:
        part = portion(self.clock, self.seconds, self.clock.limits.seed)
        outcome = solve_packing(problem, limits=part, capacity=capacity)
        outcome.stop_reason.raise_if_interrupted()
        return outcome


def problem_key(problem: PackingProblem) -> bytes:
    """Return a key that is equal for two problems exactly if they differ in names only."""
    demands = repr((problem.gaps, problem.keep_apart.tolist(), problem.must_share))
    return b"".join(getattr(problem, what).tobytes() for what in COLUMNS) + demands.encode()


def clip(problem: PackingProblem, low: int, high: int) -> PackingProblem:
    """Restrict a problem to the steps `[low, high)`."""
    start = np.clip(problem.start, low, high)
    # An end before the start would make a negative live range.
    end = np.maximum(start, np.clip(problem.end, low, high))
    gaps = tuple(
        tuple(
            Gap(max(gap.start, low), min(gap.end, high), gap.window)
            for gap in row
            if max(gap.start, low) < min(gap.end, high)
        )
        for row in problem.gaps
    )
    return replace(problem, start=start, end=end, gaps=gaps)
