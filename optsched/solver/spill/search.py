"""Choice of buffers that leave a pool that is too small: few bytes, and a bound on how few.

A table lists the steps whose live bytes exceed the capacity, with the bytes of each buffer there.
First buffers leave greedily, those that relieve most bytes per byte of their own. Then a best-first
search looks for fewer bytes: each node of its tree decides for some buffers whether they leave or
stay. No choice costs less than the smallest bound of the open nodes, so the search has a bound
whenever it ends, and an answer as soon as its best choice can be packed.

Example: buffers of 4, 3 and 2 bytes are live at one step, and the capacity is 6. At least 3 bytes
must leave. The buffer of 3 bytes alone does, the buffer of 2 bytes does not; so 3 is the minimum
if the other two, 4 and 2 bytes, can be packed.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from optsched.model.arrays import BoolArray, IntArray
from optsched.model.packing_problem import PackingProblem
from optsched.model.selection import select
from optsched.runtime.clock import Clock
from optsched.solver.effort import SPILL_CHOICE
from optsched.solver.packing_result import PackingResult
from optsched.solver.status import Status


@dataclass(frozen=True, slots=True)
class Steps:
    """Table of live buffers: one row per step at which live bytes may be most."""

    height: IntArray
    """Shape `(steps, n)`: bytes of each buffer that are there."""
    size: IntArray
    """Shape `(n,)`: bytes that a buffer costs if it leaves, never less than its height."""
    movable: BoolArray
    """Shape `(n,)`."""
    capacity: int
    """Bytes."""
    length: npt.NDArray[np.float64]
    """Shape `(steps,)`: duration, which guides the greedy choice; bounds do not depend on it."""

    def excess(self, stays: BoolArray) -> IntArray:
        """Return the bytes by which each step exceeds the capacity; shape `(steps,)`."""
        return np.maximum(self.height @ stays - self.capacity, 0).astype(np.int64, copy=False)

    def more(self, stays: BoolArray, free: BoolArray, clock: Clock) -> int | None:
        """Return a lower bound on the bytes that must still leave; None if no choice is enough.

        Only the `free` buffers may leave. At a step over the capacity, the heights of those that
        leave add up to the excess or more, and a buffer costs at least its height. The smallest
        such sum is exact while time is left, otherwise the excess itself is used. Bounds of steps
        without a common free buffer add up.
        """
        excess = self.excess(stays)
        needs: list[tuple[int, int]] = []
        for t in np.flatnonzero(excess).tolist():
            heights = self.height[t][free & (self.height[t] > 0)]
            least = least_sum(heights, int(excess[t]), exact=not clock.expired())
            if least is None:
                # Even all free buffers together do not relieve this step.
                return None
            needs.append((least, t))
        total = 0
        taken = np.zeros(len(free), np.bool_)
        # Steps with a common buffer could be relieved by it at once, so only one of them counts.
        for least, t in sorted(needs, reverse=True):
            here = free & (self.height[t] > 0)
            if not (here & taken).any():
                taken |= here
                total += least
        return total

    def relieved(self, clock: Clock, *, lasting: bool) -> BoolArray:
        """Return a mask of the buffers that stay if the best relief per byte leaves first.

        Excess that movable buffers cannot relieve remains, as does any excess after the time limit.
        With `lasting`, excess counts for as long as it lasts, so that a buffer that relieves little
        at one step may make up for it at another.
        """
        stays = np.ones(len(self.size), np.bool_)
        while True:
            able, share = self._relief(stays, lasting=lasting)
            # Nothing left to relieve, or no buffer can.
            if not len(able) or clock.expired():
                return stays
            clock.spend(1)
            # Equal relief per byte: the larger one leaves, so that fewer do.
            order = np.lexsort((-self.size[able], -share / self.size[able]))
            # Some at a time, since relief is costly to compute: one in `at_once`.
            stays[able[order][: 1 + len(able) // SPILL_CHOICE.at_once]] = False

    def _relief(self, stays: BoolArray, *, lasting: bool) -> tuple[IntArray, IntArray]:
        """Return the buffers that relieve a step over the capacity, and how much each relieves."""
        excess = self.excess(stays)
        full = np.flatnonzero(excess)
        excess, height = excess[full], self.height[full]
        if lasting:
            length = self.length[full]
            share = np.minimum(length * excess @ (height > 0), length @ height)
        else:
            share = np.minimum(excess[:, None], height).sum(axis=0)
        able = np.flatnonzero(stays & self.movable & (share > 0))
        return able, share[able]


class _Load:
    """Live bytes of some buffers at each step at which one of them begins."""

    def __init__(self, problem: PackingProblem, members: IntArray) -> None:
        parts = select(problem, members).solid
        self.owner, self.height = parts.owner, parts.high - parts.low
        self.at, self.horizon = np.unique(parts.start), parts.end.max(initial=0)
        self.first = np.searchsorted(self.at, parts.start)
        self.last = np.searchsorted(self.at, parts.end)
        self.count = len(members)

    def of(self, stays: BoolArray) -> IntArray:
        """Return the live bytes of those that stay, shape `(steps,)`."""
        height = np.where(stays[self.owner], self.height, 0)
        change = np.zeros(len(self.at) + 1, np.int64)
        np.add.at(change, self.first, height)
        np.subtract.at(change, self.last, height)
        return np.cumsum(change)[:-1]

    def at_fullest(self) -> BoolArray:
        """Return the buffers that are live at the step with most bytes, shape `(n,)`."""
        load = self.of(np.ones(self.count, np.bool_))
        step = int(np.argmax(load)) if len(load) else 0
        found = np.zeros(self.count, np.bool_)
        found[self.owner[(self.first <= step) & (step < self.last)]] = True
        return found

    def leavers(self, movable: BoolArray, size: IntArray, capacity: int) -> BoolArray:
        """Return the ids that leave if relief is computed again only a few times.

        Of the least number that must leave in turn three in four leave, and then of the rest.
        """
        stays = np.ones(self.count, np.bool_)
        while True:
            turn = self._turn(stays, movable, size, capacity)
            count = self._enough(stays, turn, capacity)
            if not count:
                return ~stays
            # Three quarters only, as relief changes with each buffer that leaves.
            stays[turn[: (3 * count + 3) // 4]] = False

    def _turn(
        self, stays: BoolArray, movable: BoolArray, size: IntArray, capacity: int
    ) -> IntArray:
        """Return those that may leave, the one that relieves most steps per byte first."""
        full = np.append(0, np.cumsum(self.of(stays) > capacity))
        relief = (full[self.last] - full[self.first]) * self.height
        share = np.bincount(self.owner, relief, self.count) * (movable & stays) / size.clip(1)
        return np.argsort(-share, kind="stable")[: np.count_nonzero(share)]

    def _enough(self, stays: BoolArray, turn: IntArray, capacity: int) -> int:
        """Return how many of some must leave in turn for no more live bytes than if all do."""

        def load(count: int) -> IntArray:
            kept = stays.copy()
            kept[turn[:count]] = False
            return self.of(kept)

        least = np.maximum(load(len(turn)), capacity)
        # More that leave never make more live bytes.
        counts = range(len(turn) + 1)
        # Load falls as more leave, so the number is found by bisection.
        return bisect_left(counts, True, key=lambda count: bool((load(count) <= least).all()))


def steps_of_pool(
    problem: PackingProblem,
    members: IntArray,
    movable: BoolArray,
    capacity: int,
    *,
    every: bool = False,
) -> Steps:
    """Return the steps at which the members' live bytes pass a capacity, `movable` being theirs.

    Of very many steps only the fullest are looked at: any choice has to relieve these.
    """
    live = _Load(problem, members)
    load = live.of(np.ones(len(members), np.bool_))
    # A step after which nothing ends before the next one begins is contained in that.
    closes = np.zeros(len(live.at) + 1, np.bool_)
    closes[live.last] = True
    rows = np.flatnonzero((load > capacity) & (closes[1:] | every))
    most = SPILL_CHOICE.table // max(1, len(live.owner))
    rows = rows[np.argsort(-load[rows], kind="stable")[:most], None]
    step, part = np.nonzero((live.first <= rows) & (rows < live.last))
    table = np.zeros((len(rows), len(members)), np.int64)
    table[step, live.owner[part]] = live.height[part]
    length = np.diff(np.append(live.at, live.horizon))[rows[:, 0]].astype(np.float64)
    return Steps(table, problem.size[members], movable, capacity, length)


def least_sum(heights: IntArray, least: int, *, exact: bool = True) -> int | None:
    """Return the least sum of some of these numbers that is `least` or more; None without one.

    A bound on it unless `exact`, and for large numbers.
    """
    if int(heights.sum()) < least:
        return None
    # All sums are multiples of the common divisor.
    unit = int(np.gcd.reduce(heights))
    want = -(-least // unit)
    if want > SPILL_CHOICE.sum_bits or not exact:
        return want * unit
    # Bit s says that a sum s below `want` can be had; of those from there on the least counts.
    sums, best = 1, None
    for height in (heights // unit).tolist():
        moved = sums << height if height < want else 1 << want
        reached = height if height >= want else 0
        # Sums at or above `want` are all enough; the lowest of them is the best of this height.
        if not reached and moved >> want:
            above = moved >> want
            reached = want + (above & -above).bit_length() - 1
        if reached:
            best = reached if best is None else min(best, reached)
        sums |= moved & ((1 << want) - 1)
    return None if best is None else best * unit


class Spill(NamedTuple):
    """Ids that stay, their packing, and a lower bound on the bytes that leave."""

    ids: IntArray
    result: PackingResult
    bound: int


def choose_spill(
    problem: PackingProblem,
    members: IntArray,
    movable: BoolArray,
    capacity: int,
    pack: Callable[[IntArray, int], PackingResult],
    has_room: Callable[[IntArray], bool],
    clock: Clock,
) -> Spill:
    """Return the buffers that stay, and their packing, which fits if any was found.

    The buffers `members` want to stay, and the `movable` among them may leave; both have shape
    `(n,)`. `pack` tries to pack given buffers under a capacity. `has_room` returns False only if
    later pools certainly lack room for given buffers. After the time limit buffers leave in ever
    larger groups, without a search for a better choice.
    """
    movable = movable & (problem.size[members] > 0) & (problem.end > problem.start)[members]
    # Each of the two ways to count relief is sometimes better, and sometimes fails to pack.
    relief = clock.share(SPILL_CHOICE.relief_share)
    ways = [
        _relieved(problem, members, movable, capacity, relief.share(0.5), lasting=True),
        _relieved(problem, members, movable, capacity, relief, lasting=False),
    ]
    # The choice that keeps most bytes is tried first.
    for stays in sorted(ways, key=lambda kept: -int(problem.size[members[kept]].sum())):
        result = pack(members[stays], capacity)
        if _fits(result, capacity):
            break
    count = 1 + len(members) // SPILL_CHOICE.at_once
    while not _fits(result, capacity) and (stays & movable).any():
        # The bytes fit and no packing does: the smallest of the fullest step leaves.
        ids = np.flatnonzero(stays)
        live = _Load(problem, members[ids]).at_fullest()
        able = ids[movable[ids] & live]
        able = able if len(able) >= count else np.flatnonzero(stays & movable)
        stays[able[np.argsort(problem.size[members[able]], kind="stable")[:count]]] = False
        # Packing many takes long: they leave in ever larger groups, as do all out of time.
        late = clock.expired()
        count = 1 if count == 1 and not late else 4 * count if late else 2 * count
        result = pack(members[stays], capacity)
    if not _fits(result, capacity):
        return Spill(members[stays], result, 0)
    packed = [result]

    def packs(stays: BoolArray) -> bool | None:
        if not has_room(members[~stays]):
            return False
        packed.append(pack(members[stays], capacity))
        if _fits(packed[-1], capacity):
            return True
        return False if packed[-1].status is Status.INFEASIBLE else None

    # Only a choice that later pools have room for is one to improve on.
    gone = int(problem.size[members[~stays]].sum()) if has_room(members[~stays]) else None
    steps = steps_of_pool(problem, members, movable, capacity)
    better, bound = least_leaving(steps, gone, packs, clock)
    if better is None:
        return Spill(members[stays], result, bound)
    return Spill(members[better], packed[-1], bound)


def _relieved(
    problem: PackingProblem,
    members: IntArray,
    movable: BoolArray,
    capacity: int,
    clock: Clock,
    *,
    lasting: bool,
) -> BoolArray:
    """Return which of the members stay so that their live bytes are within the capacity."""
    stays = np.ones(len(members), np.bool_)
    while True:
        now = np.flatnonzero(stays)
        if clock.expired():
            live = _Load(problem, members[now])
            leavers = live.leavers(movable[now], problem.size[members[now]], capacity)
            stays[now[leavers]] = False
            return stays
        steps = steps_of_pool(problem, members[now], movable[now], capacity, every=True)
        kept = steps.relieved(clock, lasting=lasting)
        if kept.all():
            return stays
        stays[now[~kept]] = False


def _fits(result: PackingResult, capacity: int) -> bool:
    return result.slab is not None and result.slab <= capacity


@dataclass(order=True)
class _Node:
    cost: int
    turn: int
    stays: BoolArray = field(compare=False)
    free: BoolArray = field(compare=False)


def least_leaving(
    steps: Steps, cost: int | None, packs: Callable[[BoolArray], bool | None], clock: Clock
) -> tuple[BoolArray | None, int]:
    """Search for the fewest bytes that leave; nodes are the clock's work.

    `cost` is what leaves in the best choice known, and `packs` tells whether those that stay, shape
    `(n,)`, pack into the capacity, or None. Returns the buffers that stay, if a packing better than
    that cost was found, and a lower bound on the bytes that leave: never more than the cost.
    """
    every = np.ones(len(steps.size), np.bool_)
    first = steps.more(every, steps.movable, clock)
    # Without a known choice, anything that may leave could have to.
    limit = int(steps.size[steps.movable].sum()) + 1 if cost is None else cost
    if first is None or int(steps.movable.sum()) > SPILL_CHOICE.movable:
        return None, limit if first is None else min(first, limit)
    heap = [_Node(first, 0, every, steps.movable)]
    unknown = limit
    nodes = packings = 0
    # No open node can lead to fewer bytes than what is known or undecided.
    while heap and heap[0].cost < unknown:
        if nodes >= SPILL_CHOICE.nodes or packings >= SPILL_CHOICE.packings or clock.expired():
            break
        nodes += 1
        clock.spend(1)
        node = heapq.heappop(heap)
        excess = steps.excess(node.stays)
        if not excess.any():
            packings += 1
            fits = packs(node.stays)
            if fits:
                # Best first: no open node costs less than this one.
                return node.stays, min(int(steps.size[~node.stays].sum()), unknown)
            if fits is None:
                # Not packed and not refuted: the bound must not exceed its cost.
                unknown = min(unknown, node.cost)
                continue
        for stays, free in _children(steps, node, excess):
            more = steps.more(stays, free, clock)
            if more is not None:
                left = int(steps.size[~stays].sum())
                child = _Node(max(node.cost, left + more), len(heap) + nodes, stays, free)
                if child.cost < unknown:
                    heapq.heappush(heap, child)
    return None, min([unknown, *(node.cost for node in heap)])


def _children(steps: Steps, node: _Node, excess: IntArray) -> Iterator[tuple[BoolArray, BoolArray]]:
    """One buffer leaves or stays; where the steps fit but no packing does, a free one leaves."""
    free = node.free.copy()
    if excess.any():
        here = free & (steps.height[int(np.argmax(excess))] > 0)
        leavers = [int(np.argmax(np.where(here, steps.size, -1)))]
    else:
        # Which free buffer must leave is not known, so each of them is tried.
        leavers = np.flatnonzero(free).tolist()
    for x in leavers:
        # The first free one that leaves: those before it stay.
        free[x] = False
        without = node.stays.copy()
        without[x] = False
        yield without, free.copy()
    if excess.any():
        yield node.stays, free
