"""Whether packings of an order fit, by the exact engine, each within a short time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optsched.errors import GraphError
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem
from optsched.packing import PackingOutcome, solve_packing
from optsched.runtime.interrupt import take_interrupt
from optsched.runtime.limits import Limits, StopReason

PACK_SECONDS = 5.0
"""What one packing may take; without a decision the search gives up."""


class GiveUpError(Exception):
    """The limits of the search are reached."""


class Decider:
    """Asks the engine, and counts how often.

    Parameters
    ----------
    limits
        Time for all packings, and seed.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.end = None if limits.seconds is None else time.perf_counter() + limits.seconds
        self.packings = 0
        self.known: dict[bytes, tuple[int, IntArray] | None] = {}

    def late(self) -> bool:
        """Whether the time is over; raise an interrupt that waits."""
        take_interrupt()
        return self.end is not None and time.perf_counter() > self.end

    def within(self, problem: PackingProblem, capacity: int) -> IntArray | None:
        """Return offsets within a capacity, or None if there are none.

        Raises
        ------
        GiveUpError
            If the engine does not know.
        """
        if problem.max_load > capacity:
            return None
        outcome = self._ask(problem, capacity)
        if outcome is None:
            return None
        if outcome.slab is not None and outcome.slab <= capacity:
            return outcome.offsets
        if outcome.bound > capacity:
            return None
        raise GiveUpError

    def least(self, problem: PackingProblem) -> tuple[int, IntArray] | None:
        """Return the least slab and its offsets, or None if pins clash.

        Raises
        ------
        GiveUpError
            If the engine can not prove it.
        """
        key = b"".join(
            values.tobytes()
            for values in (problem.start, problem.end, problem.size, problem.alignment, problem.pin)
        )
        key += repr(problem.gaps).encode()
        if key not in self.known:
            outcome = self._ask(problem, None)
            if outcome is None:
                self.known[key] = None
            elif outcome.offsets is None or outcome.slab is None or outcome.slab > outcome.bound:
                raise GiveUpError
            else:
                self.known[key] = (outcome.slab, outcome.offsets)
        return self.known[key]

    def stretch(self, problem: PackingProblem, capacity: int) -> tuple[int, int]:
        """Return steps `[low, high)` of which the packing alone is refused, as all of them are.

        `high` is the least that there is, then `low` the greatest.
        """
        low, high = 0, int(problem.end.max())
        least = 1
        while least < high:
            middle = (least + high) // 2
            if self.within(_clip(problem, 0, middle), capacity) is None:
                high = middle
            else:
                least = middle + 1
        most = high - 1
        while low < most:
            middle = (low + most + 1) // 2
            if self.within(_clip(problem, middle, high), capacity) is None:
                low = middle
            else:
                most = middle - 1
        return low, high

    def _ask(self, problem: PackingProblem, capacity: int | None) -> PackingOutcome | None:
        self.packings += 1
        left = None if self.end is None else max(0.0, self.end - time.perf_counter())
        seconds = PACK_SECONDS if left is None else min(PACK_SECONDS, left)
        limits = Limits(seconds=seconds, seed=self.limits.seed)
        try:
            outcome = solve_packing(problem, limits=limits, capacity=capacity)
        except GraphError:
            # Two pins clash in this order.
            return None
        if outcome.stop_reason is StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        return outcome


def thresholds(least: Sequence[int | None], capacity: int) -> list[int]:
    """Return capacities of the pools that their packings refuse, and that leave no other choice.

    Parameters
    ----------
    least
        The least slab of each pool, None where pins clash; more than the capacity together.
    capacity
        Bytes of all slabs together.

    Returns
    -------
    list
        Bytes that each pool refuses, -1 where it is not asked. Slabs that are larger than these
        in every pool that is asked are more than the capacity together.
    """
    refused = [-1] * len(least)
    if None in least:
        refused[least.index(None)] = capacity
        return refused
    wanted = capacity + 1
    # The largest first: what they leave to be shown by the others is little.
    for number in sorted(range(len(least)), key=lambda p: -(least[p] or 0)):
        share = min(least[number] or 0, wanted)
        wanted -= share
        refused[number] = share - 1
    return refused


def _clip(problem: PackingProblem, low: int, high: int) -> PackingProblem:
    """Leave only what happens in the steps `[low, high)`."""
    start = np.clip(problem.start, low, high)
    return replace(problem, start=start, end=np.maximum(start, np.clip(problem.end, low, high)))
