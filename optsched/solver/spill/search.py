"""The fewest bytes that must leave a pool so that the rest packs into its capacity.

Best first over who leaves and who stays. No choice below the least bound of those still open is
possible, so the search has a bound whenever it ends, and an answer once its best choice packs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem, select
from optsched.runtime.clock import Clock

MOVABLE = 400
"""Up to this many buffers that may leave are searched: each node takes time for all of them."""
NODES = 4000
PACKINGS = 60
"""Sets that stay and are packed, at most."""
TABLE = 4_000_000
"""Steps that are too full times buffers, at most."""
SUM_BITS = 1 << 16
"""Sums of sizes are told apart up to so many units; beyond that any bytes will do."""

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Steps:
    """What is live where: one row per step at which live bytes may be most.

    Parameters
    ----------
    height
        Shape `(steps, n)`: bytes of each buffer that are there.
    size
        Shape `(n,)`: what it costs when a buffer leaves, never less than its height.
    movable
        Shape `(n,)`.
    capacity
        Bytes.
    """

    height: IntArray
    size: IntArray
    movable: BoolArray
    capacity: int

    def excess(self, stays: BoolArray) -> IntArray:
        """Return by how much the live bytes of each step pass the capacity; shape `(steps,)`."""
        return np.asarray(self.height @ stays - self.capacity, np.int64)

    def more(self, stays: BoolArray, free: BoolArray) -> int | None:
        """Return bytes that at least must still leave of the `free` ones; None if no choice does.

        At a step that is too full the buffers that leave have at least the excess, and a sum of
        their heights is no more than they cost. Steps that share no free buffer add up.
        """
        excess = self.excess(stays)
        needs: list[tuple[int, int]] = []
        for t in np.flatnonzero(excess > 0).tolist():
            heights = self.height[t][free & (self.height[t] > 0)]
            least = least_sum(heights, int(excess[t]))
            if least is None:
                return None
            needs.append((least, t))
        total = 0
        taken = np.zeros(len(free), np.bool_)
        for least, t in sorted(needs, reverse=True):
            here = free & (self.height[t] > 0)
            if not (here & taken).any():
                taken |= here
                total += least
        return total


@dataclass(frozen=True, slots=True)
class Found:
    """Who stays, if a packing of them was found, and what the search proved.

    Parameters
    ----------
    stays
        Shape `(n,)`, or None if nothing better than the cost given was found.
    bound
        Bytes that leave at least, whoever leaves; never more than the cost given.
    """

    stays: BoolArray | None
    bound: int


@dataclass(order=True)
class _Node:
    cost: int
    turn: int
    stays: BoolArray = field(compare=False)
    free: BoolArray = field(compare=False)


def least_sum(heights: IntArray, least: int) -> int | None:
    """Return the least sum of some of these numbers that is `least` or more; None without one."""
    if int(heights.sum()) < least:
        return None
    unit = int(np.gcd.reduce(heights))
    want = -(-least // unit)
    if want > SUM_BITS:
        return want * unit
    # Bit s says that a sum s below `want` can be had; of those from there on the least counts.
    sums, best = 1, None
    for height in (heights // unit).tolist():
        moved = sums << height if height < want else 1 << want
        reached = height if height >= want else 0
        if not reached and moved >> want:
            above = moved >> want
            reached = want + (above & -above).bit_length() - 1
        if reached:
            best = reached if best is None else min(best, reached)
        sums |= moved & ((1 << want) - 1)
    return None if best is None else best * unit


class Profile(NamedTuple):
    """Bytes live from one step to the next, and who they belong to.

    `steps` and `load` have an entry a step; the other arrays one a part that has bytes: its
    buffer, the steps `[first, last)` at which it is there, and its bytes.
    """

    steps: IntArray
    load: IntArray
    owner: IntArray
    first: IntArray
    last: IntArray
    height: IntArray


def profile_of(problem: PackingProblem, *, with_ends: bool) -> Profile:
    """Return how much is live at the steps where live ranges start, or where they end as well."""
    parts = problem.parts
    solid = (parts.high > parts.low) & (parts.end > parts.start)
    start, end = parts.start[solid], parts.end[solid]
    height = (parts.high - parts.low)[solid]
    steps = np.unique(np.concatenate([start, end]) if with_ends else start)
    first, last = np.searchsorted(steps, start), np.searchsorted(steps, end)
    change = np.zeros(len(steps) + 1, np.int64)
    np.add.at(change, first, height)
    np.subtract.at(change, last, height)
    return Profile(steps, np.cumsum(change)[:-1], parts.owner[solid], first, last, height)


def steps_of_pool(
    problem: PackingProblem, members: IntArray, movable: BoolArray, capacity: int
) -> Steps | None:
    """Return the steps at which more is live than the capacity; None if that is a large table."""
    starts, load, owner, first, last, bytes_ = profile_of(select(problem, members), with_ends=False)
    full = load > capacity
    # A step after which nothing ends before the next one begins is contained in that.
    closes = np.zeros(len(starts) + 1, np.bool_)
    closes[last] = True
    full &= closes[1:]
    if int(full.sum()) * len(members) > TABLE:
        return None
    row = np.cumsum(full, dtype=np.int64) - full
    height = np.zeros((int(full.sum()), len(members)), np.int64)
    rows: IntArray = np.append(row, len(height))
    low, high = rows[first], rows[last]
    for i, a, b, x in zip(owner.tolist(), low.tolist(), high.tolist(), bytes_, strict=True):
        height[a:b, i] = x
    return Steps(height, problem.size[members], movable, capacity)


def least_leaving(
    steps: Steps,
    cost: int | None,
    packs: Callable[[BoolArray], bool | None],
    clock: Clock,
) -> Found:
    """Search for the fewest bytes that leave.

    Parameters
    ----------
    steps
        What is live where.
    cost
        Bytes that leave in the best choice known, or None.
    packs
        Whether those that stay, shape `(n,)`, pack into the capacity; None if that is not known.
    clock
        Nodes are its work.
    """
    every = np.ones(len(steps.size), np.bool_)
    first = steps.more(every, steps.movable)
    roof = int(steps.size[steps.movable].sum()) + 1 if cost is None else cost
    if first is None or int(steps.movable.sum()) > MOVABLE:
        return Found(None, roof if first is None else min(first, roof))
    heap = [_Node(first, 0, every, steps.movable)]
    unknown = roof
    nodes = packings = 0
    while heap and heap[0].cost < unknown:
        if nodes >= NODES or packings >= PACKINGS or clock.expired():
            break
        nodes += 1
        clock.spend(1)
        node = heapq.heappop(heap)
        excess = steps.excess(node.stays)
        if not (excess > 0).any():
            packings += 1
            fits = packs(node.stays)
            if fits:
                return Found(node.stays, min(int(steps.size[~node.stays].sum()), unknown))
            if fits is None:
                unknown = min(unknown, node.cost)
                continue
        for stays, free in _children(steps, node, excess):
            more = steps.more(stays, free)
            if more is not None:
                left = int(steps.size[~stays].sum())
                child = _Node(max(node.cost, left + more), len(heap) + nodes, stays, free)
                if child.cost < unknown:
                    heapq.heappush(heap, child)
    return Found(None, min([unknown, *(node.cost for node in heap)]))


def _children(steps: Steps, node: _Node, excess: IntArray) -> list[tuple[BoolArray, BoolArray]]:
    """One buffer leaves or stays; where the steps fit but no packing does, a free one leaves."""
    if (excess > 0).any():
        fullest = int(np.argmax(excess))
        here = node.free & (steps.height[fullest] > 0)
        x = int(np.argmax(np.where(here, steps.size, -1)))
        free = node.free.copy()
        free[x] = False
        without = node.stays.copy()
        without[x] = False
        return [(without, free), (node.stays, free)]
    found = []
    free = node.free.copy()
    for x in np.flatnonzero(node.free).tolist():
        # The first free one that leaves: those before it stay.
        free[x] = False
        without = node.stays.copy()
        without[x] = False
        found.append((without, free.copy()))
    return found
