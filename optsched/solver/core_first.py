"""Core and fill: the large buffers exactly at the bound, the others first fit around them.

The search of all packings takes long with thousands of buffers, of which most are small. Those of
at least a part of the load are few and decide: they are packed into the bytes of the fullest step,
and held there while the packers place the rest. No proof, but a packing that meets the bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from heuristics import OWN_PACKINGS
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem, select
from optsched.runtime.clock import Clock
from optsched.runtime.limits import StopReason
from optsched.solver.effort import EFFORT

MANY = 600
"""From this many buffers on: fewer are searched as quickly without."""
SHARES = (50, 100, 200, 500, 1000)
"""A buffer is of the core if this many like it would fill the capacity."""
CORE_PACKERS = ("skyline", "first_fit_size")
FILLERS = ("first_fit_size", "first_fit_breadth")


def core_packings(
    problem: PackingProblem, capacity: int, clock: Clock
) -> Iterator[tuple[str, IntArray]]:
    """Yield packings of which a core lies within a capacity; the whole may be above it.

    Parameters
    ----------
    problem
        Buffers with live ranges.
    capacity
        Bytes that the core has to fit in, the bound on the whole.
    clock
        Each search of a core has a share of what is left.
    """
    if len(problem) < MANY:
        return
    before = 0
    for share in SHARES:
        chosen = problem.size >= -(-capacity // share)
        count = int(chosen.sum())
        if count in (before, len(problem)):
            continue
        before = count
        # Who is pinned stays where it is, of whatever size.
        core = np.flatnonzero(chosen | (problem.pin >= 0))
        offsets = _pack_core(select(problem, core), capacity, clock)
        if offsets is None:
            # A larger core does not fit more easily.
            return
        pin = problem.pin.copy()
        pin[core] = offsets
        held = replace(problem, pin=pin)
        for name in FILLERS:
            if clock.expired():
                return
            yield f"core of {count} + {name}", OWN_PACKINGS[name](held)


def _pack_core(core: PackingProblem, capacity: int, clock: Clock) -> IntArray | None:
    from optsched.packing import solve_packing

    best: IntArray | None = None
    for name in CORE_PACKERS:
        offsets = OWN_PACKINGS[name](core)
        if core.slab_size(offsets) <= capacity:
            return offsets
        if best is None or core.slab_size(offsets) < core.slab_size(best):
            best = offsets
    outcome = solve_packing(
        core, limits=clock.share(EFFORT.core_share), capacity=capacity, warm_start=best
    )
    if outcome.stop_reason is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    if outcome.slab is None or outcome.slab > capacity:
        return None
    return outcome.offsets
