"""Live ranges with the pool that each buffer names, and what they need before any is packed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from optsched.errors import UsageError
from optsched.model.arrays import BoolArray, IntArray
from optsched.model.packing_problem import PackingProblem
from optsched.model.pools import Pool
from optsched.model.selection import select
from optsched.solver.packing_result import Shortage


@dataclass(frozen=True)
class PooledProblem:
    """A packing problem in pools."""

    problem: PackingProblem
    """Live ranges; their capacity is None, as pools have their own."""
    own_pool: IntArray
    """Shape `(k,)`: the number of the pool that each buffer names."""
    pools: tuple[Pool, ...]
    """In order of preference."""

    @classmethod
    def of(
        cls, problem: PackingProblem, own_pools: Sequence[str], pools: Sequence[Pool]
    ) -> PooledProblem:
        """Return the problem in which each buffer names a pool, or "" for the first.

        Raise `UsageError` if a buffer names no given pool, a pool is given twice, buffers that
        share an offset name different ones, or a buffer has an upper limit.
        """
        if problem.has_limits:
            raise UsageError(f"{problem.name}: pools and upper limits exclude each other")
        own_pool = find_numbers(own_pools, problem.names, pools)
        refuse_groups_apart(problem, [pools[number].name for number in own_pool.tolist()])
        return cls(replace(problem, capacity=None), own_pool, tuple(pools))

    def joined(self) -> PooledProblem:
        """Return the problem in which each group is one buffer."""
        joined = self.problem.joined
        return replace(self, problem=joined.problem, own_pool=joined.offsets(self.own_pool))

    @cached_property
    def pinned(self) -> BoolArray:
        """By buffer, True if it is pinned, and so stays in its own pool."""
        return self.problem.pin >= 0

    @cached_property
    def first(self) -> IntArray:
        """By buffer, the first pool from its own on that is large enough for it alone."""
        live = self.problem.end > self.problem.start
        size = np.where(live, self.problem.size, 0)
        first = self.own_pool.copy()
        for number, pool in enumerate(self.pools[:-1]):
            if pool.capacity is not None:
                # Larger than this pool: such a buffer can only lie in a later one.
                first[(first == number) & ~self.pinned & (size > pool.capacity)] += 1
        return first

    def own(self, number: int) -> IntArray:
        """Return the buffers that name a pool."""
        return np.flatnonzero(self.own_pool == number)

    def from_pool(self, number: int) -> IntArray:
        """Return the buffers that can lie in no pool before this one."""
        return np.flatnonzero(self.first >= number)

    def load(self, ids: IntArray) -> int:
        """Return the most bytes of some buffers that are live at once."""
        return select(self.problem, ids).max_load

    def shortage(self) -> Shortage | None:
        """Return a reason why no choice of pools has room, if a simple one is found."""
        for number, pool in enumerate(self.pools):
            room, ids = room_of(self.pools[number:]), self.from_pool(number)
            # All buffers that cannot lie earlier must share the pools from here on.
            live = self.load(ids)
            if room is not None and live > room:
                text = (
                    f"{live:,} bytes are live at once or kept apart, pools from {pool.name!r} on "
                    f"have {room:,}"
                )
                return Shortage(ids, live, room, text)
            pinned = self.own(number)[self.pinned[self.own(number)]]
            reach = select(self.problem, pinned).slab_bound
            if pool.capacity is not None and reach > pool.capacity:
                text = f"pins in pool {pool.name!r} reach {reach} bytes, it has {pool.capacity}"
                return Shortage(pinned, reach, pool.capacity, text)
        problem = self.problem
        ids = np.flatnonzero(problem.end > problem.start)
        return find_too_large(
            problem.names, problem.size.tolist(), self.own_pool, ids.tolist(), self.pools
        )

    def short(self) -> dict[str, Shortage]:
        """Return why pools cannot hold their buffers: live bytes of one step, or pins."""
        found = {}
        for number, pool in enumerate(self.pools):
            own = self.own(number)
            bytes_ = select(self.problem, own).slab_bound
            if pool.capacity is not None and bytes_ > pool.capacity:
                text = f"pool {pool.name!r} is too small for the buffers that name it"
                found[pool.name] = Shortage(own, bytes_, pool.capacity, text)
        return found


def refuse_groups_apart(problem: PackingProblem, pools: Sequence[str]) -> None:
    """Stop where buffers that share an offset lie in different pools.

    Raise `UsageError` if two do.
    """
    for group in problem.must_share:
        for i in group:
            if pools[i] != pools[group[0]]:
                a, b = (f"{problem.names[x]!r} (pool {pools[x]!r})" for x in (group[0], i))
                raise UsageError(f"buffers {a} and {b} must share an offset")


def find_numbers(own_pools: Sequence[str], names: Sequence[str], pools: Sequence[Pool]) -> IntArray:
    """Return the number of the pool that each buffer names, or of the first if it names none.

    Raise `UsageError` if a buffer names no given pool, a pool is given twice or is none, or counts
    differ.
    """
    odd = next((pool for pool in pools if not isinstance(pool, Pool)), None)
    if odd is not None:
        raise UsageError(f"a pool is a Pool, with a name and perhaps a capacity, got {odd!r}")
    if len(own_pools) != len(names):
        raise UsageError(f"{len(own_pools)} pools are named for {len(names)} buffers")
    numbers = {pool.name: number for number, pool in enumerate(pools)}
    if len(numbers) < len(pools) or not pools:
        raise UsageError("each pool is given once, and at least one")
    for name, own_pool in zip(names, own_pools, strict=True):
        if own_pool and own_pool not in numbers:
            raise UsageError(f"buffer {name!r} names pool {own_pool!r}, which is not given")
    # An empty name means the first pool.
    return np.array([numbers[own_pool or pools[0].name] for own_pool in own_pools], np.int64)


def find_too_large(
    names: Sequence[str],
    sizes: Sequence[int],
    own_pool: IntArray,
    ids: Sequence[int],
    pools: Sequence[Pool],
) -> Shortage | None:
    """Return a buffer of `ids` that is larger than every pool it may lie in, if there is one."""
    for i in ids:
        rooms = [pool.capacity for pool in pools[int(own_pool[i]) :]]
        room = max((x for x in rooms if x is not None), default=0)
        if None not in rooms and sizes[i] > room:
            text = f"buffer {names[i]!r} is larger than every pool it may lie in"
            return Shortage(np.array([i]), sizes[i], room, text)
    return None


def room_of(pools: Sequence[Pool]) -> int | None:
    """Return the bytes of several pools; None if one of them has no capacity."""
    rooms = [pool.capacity for pool in pools]
    return None if None in rooms else sum(room or 0 for room in rooms)
