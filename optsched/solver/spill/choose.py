"""Which buffers leave a pool that can not hold all of them: few bytes, and a bound on how few."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem, select
from optsched.runtime.clock import Clock
from optsched.solver.result import PackingResult, Status
from optsched.solver.spill.search import BoolArray, least_leaving, profile_of, steps_of_pool

AT_ONCE = 200
"""One in this many buffers leaves before the loads are counted anew."""


Pack = Callable[[IntArray, int], PackingResult]
"""Packs the buffers of these ids, in their order, under a capacity."""


class Spill(NamedTuple):
    """Who stays, their packing, and the bytes of the members that must leave whoever does."""

    ids: IntArray
    result: PackingResult
    bound: int


def choose_spill(
    problem: PackingProblem,
    members: IntArray,
    fixed: BoolArray,
    capacity: int,
    pack: Pack,
    clock: Clock,
) -> Spill:
    """Return the buffers that stay, and their packing, which fits if any was found.

    Buffers leave while the bytes live at some step exceed the capacity, those first that relieve
    most per byte; then, while no packing is found, the smallest of the fullest step. At last fewer
    bytes are searched for.

    Parameters
    ----------
    problem, members
        All buffers, and the ids of those that want to stay, shape `(n,)`.
    fixed
        Shape `(n,)`: those that may not leave.
    capacity
        Bytes.
    pack
        Tries to pack what stays.
    clock
        Out of time, buffers leave in ever larger groups, and no better choice is searched for.
    """
    movable = np.zeros(len(problem), np.bool_)
    movable[members[~fixed]] = True
    movable &= (problem.size > 0) & (problem.end > problem.start)
    stays = np.zeros(len(problem), np.bool_)
    stays[members] = True
    while len(leavers := _most_relief(problem, stays, movable, capacity)):
        stays[leavers] = False
    result = pack(np.flatnonzero(stays), capacity)
    count = 1 + len(members) // AT_ONCE
    while not _fits(result, capacity):
        if not (stays & movable).any():
            return Spill(np.flatnonzero(stays), result, 0)
        stays[_smallest_of_fullest(problem, stays, movable, count)] = False
        # Packing many takes long: they leave in ever larger groups, as do all out of time.
        count = 1 if count == 1 and not clock.expired() else 2 * count
        result = pack(np.flatnonzero(stays), capacity)
    ids = np.flatnonzero(stays)
    return _with_fewest(problem, members, movable[members], capacity, pack, clock, ids, result)


def least_spill(problem: PackingProblem, members: IntArray, fixed: BoolArray, capacity: int) -> int:
    """Return a lower bound on the bytes of the members that leave, by single steps."""
    steps = steps_of_pool(problem, members, ~fixed, capacity)
    if steps is None:
        return max(0, select(problem, members).max_load - capacity)
    return steps.more(np.ones(len(members), np.bool_), ~fixed) or 0


def _with_fewest(
    problem: PackingProblem,
    members: IntArray,
    movable: BoolArray,
    capacity: int,
    pack: Pack,
    clock: Clock,
    ids: IntArray,
    result: PackingResult,
) -> Spill:
    """Search for fewer bytes that leave, or for the proof that there are none."""
    gone = int(problem.size[members].sum() - problem.size[ids].sum())
    steps = steps_of_pool(problem, members, movable, capacity)
    if steps is None:
        bound = max(0, select(problem, members).max_load - capacity)
        return Spill(ids, result, min(bound, gone))
    packed: list[PackingResult] = []

    def packs(stays: BoolArray) -> bool | None:
        packed.append(pack(members[stays], capacity))
        if _fits(packed[-1], capacity):
            return True
        return False if packed[-1].status is Status.INFEASIBLE else None

    found = least_leaving(steps, gone, packs, clock)
    if found.stays is None:
        return Spill(ids, result, found.bound)
    return Spill(members[found.stays], packed[-1], found.bound)


def _fits(result: PackingResult, capacity: int) -> bool:
    return result.slab is not None and result.slab <= capacity


def _most_relief(
    problem: PackingProblem,
    stays: BoolArray,
    movable: BoolArray,
    capacity: int,
) -> IntArray:
    """Return who take most excess away per byte of their own; none without excess or movable."""
    ids = np.flatnonzero(stays)
    steps, load, owner, first, last, height = profile_of(select(problem, ids), with_ends=True)
    excess = np.maximum(load - capacity, 0)
    if not excess.any():
        return np.empty(0, np.int64)
    length = np.append(np.diff(steps), 0).astype(np.float64)
    area = np.concatenate([[0.0], np.cumsum(excess * length)])
    time = np.concatenate([[0.0], np.cumsum(np.where(excess > 0, length, 0.0))])
    reach = np.minimum(area[last] - area[first], height * (time[last] - time[first]))
    relief = np.bincount(ids[owner], weights=reach, minlength=len(problem))
    able = np.flatnonzero(stays & movable & (relief > 0))
    # Equal relief per byte: the larger one leaves, so that fewer do.
    rate = relief[able] / problem.size[able]
    return able[np.lexsort((-problem.size[able], -rate))][: 1 + len(able) // AT_ONCE]


def _smallest_of_fullest(
    problem: PackingProblem,
    stays: BoolArray,
    movable: BoolArray,
    count: int,
) -> IntArray:
    able = np.flatnonzero(stays & movable)
    profile = profile_of(select(problem, np.flatnonzero(stays)), with_ends=True)
    fullest = profile.steps[int(np.argmax(profile.load))]
    here = able[(problem.start[able] <= fullest) & (fullest < problem.end[able])]
    here = here if len(here) >= count else able
    return here[np.argsort(problem.size[here], kind="stable")][:count]
