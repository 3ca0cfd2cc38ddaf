"""Facts about a graph in pools that hold for every order: no room, or bytes that must spill."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from optsched.errors import UsageError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.limits import refuse_limits
from optsched.model.plan import Plan
from optsched.model.pools import Pool, pinned_bytes, pool_graph
from optsched.model.question import Question
from optsched.model.steps import Order
from optsched.ordering.bound.single_ops import op_bound, peak_lower_bound
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Objective
from optsched.solver.effort import SPILL_CHOICE
from optsched.solver.packing_result import Shortage
from optsched.solver.spill.pooled import find_numbers, find_too_large, room_of
from optsched.solver.spill.search import Steps, least_leaving


class OwnBounds(NamedTuple):
    """Lower bounds on peak and slab of all plans whose buffers lie in their own pools, in bytes."""

    peak: int
    slab: int


@dataclass(frozen=True)
class OwnPools:
    """A question about pools, and the pool that each buffer of its graph names."""

    given: Graph
    """As the caller has it."""
    question: Question
    """The question with a pool named by every buffer."""
    own_pool: IntArray
    """Shape `(m,)`: the number of each buffer's pool."""

    @property
    def graph(self) -> Graph:
        """The graph with a pool named by every buffer."""
        return self.question.graph

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Pools in order of preference."""
        return self.question.pools

    @cached_property
    def capacities(self) -> dict[str, int]:
        """Bytes of each pool that has a capacity, by name."""
        return {pool.name: pool.capacity for pool in self.pools if pool.capacity is not None}

    @cached_property
    def counted(self) -> IntArray:
        """Ids of the buffers that have bytes."""
        return np.flatnonzero(self.graph.arrays.size)

    @cached_property
    def used(self) -> list[int]:
        """Numbers of the pools that these name; the first one if there are none."""
        return sorted(set(self.own_pool[self.counted].tolist())) or [0]

    def capacity(self) -> int | None:
        """Bytes of the pool that all buffers name; None if there are several or it has none."""
        return self.pools[self.used[0]].capacity if len(self.used) == 1 else None

    def fits(self, plan: Plan) -> bool:
        """Return True if no slab of a plan is larger than its pool."""
        slabs = plan.slabs(self.graph)
        return all(slabs.get(name, 0) <= room for name, room in self.capacities.items())


def find_own_pools(question: Question) -> OwnPools:
    """Put each buffer into the pool that it names, or into the first one if it names none.

    Raise `UsageError` if a buffer names no given pool, a pool is given twice, or the question has a
    capacity, too.
    """
    graph, pools = question.planned, question.pools
    graph.refuse_streams("pools that spill into each other")
    refuse_limits(graph, "pools that spill into each other")
    if question.capacity is not None:
        raise UsageError("pools exclude capacity: give each pool its own, Pool(name, bytes)")
    if question.near is not None and question.near.fewest_moves:
        raise UsageError("pools exclude fewest_moves: spilled bytes come first")
    named = [graph.buffers[root].pool for root in graph.roots]
    own_pool = find_numbers(named, [buffer.name for buffer in graph.buffers], pools)
    names = tuple(pools[number].name for number in own_pool.tolist())
    # Pools become part of the graph, so that all engines see which buffers lie together.
    placed = Plan((), (None,) * len(names), names).placed(graph)
    found = OwnPools(graph, replace(question, graph=placed), own_pool)
    if found.capacity() is None:
        return found
    # A capacity limits the slab, so that the slab is what the search lowers.
    return replace(found, question=replace(found.question, objective=Objective.SLAB))


def find_shortage(own_pools: OwnPools, own: OwnBounds) -> Shortage | None:
    """Return why no order has room, if that is known before buffers spill."""
    # Buffers may spill to later pools only, so earlier ones do not add room.
    graph, later = own_pools.graph, own_pools.pools[own_pools.used[0] :]
    room = room_of(later)
    if room is not None and own.peak > room:
        text = f"every order needs {own.peak} bytes, the pools have {room}"
        return Shortage(own_pools.counted, own.peak, room, text)
    if len(later) == 1 and room is not None and own.slab > room:
        text = f"every plan needs {own.slab} bytes, the pool has {room}"
        return Shortage(own_pools.counted, own.slab, room, text)
    # Buffers that are never live need no room, however large they are.
    used = np.diff(graph.arrays.user.ptr) > 0
    live = np.flatnonzero(
        (graph.arrays.size > 0) & ((graph.arrays.producer >= 0) | used | graph.arrays.keep)
    ).tolist()
    names = [buffer.name for buffer in graph.buffers]
    sizes = [buffer.size for buffer in graph.buffers]
    alone = find_too_large(names, sizes, own_pools.own_pool, live, own_pools.pools)
    if alone is not None:
        return alone
    pinned = {buffer.pool for buffer in graph.buffers if buffer.pin is not None}
    for pool in own_pools.pools:
        if pool.name not in pinned:
            continue
        pins = pinned_bytes(pool_graph(own_pools.graph, pool.name))
        if pool.capacity is not None and pins > pool.capacity:
            text = f"pins in pool {pool.name!r} reach {pins} bytes, it has {pool.capacity}"
            return Shortage(own_pools.counted, pins, pool.capacity, text)
    return None


def own_shortage(own_pools: OwnPools, own: OwnBounds) -> Shortage | None:
    """Return why no plan fits into the only pool that buffers name, if that is known."""
    capacity = own_pools.capacity()
    if capacity is None or own.slab <= capacity:
        return None
    return Shortage(own_pools.counted, own.slab, capacity, "")


def spilled_bound(own_pools: OwnPools, own: OwnBounds, order: Order, clock: Clock) -> int:
    """Return bytes that are spilled in every order: the excess of the pools' own peaks.

    Any order will do; less time makes a weaker bound.
    """
    # Each pool alone gives a bound, and buffers leave their own pool only once.
    alone = sum(_spilled_alone(own_pools, number, clock) for number in own_pools.used)
    if len(own_pools.used) == 1:
        capacity = own_pools.capacity()
        if capacity is None:
            return 0
        # Bytes of peak above the capacity must leave, and one byte at least if no packing fits.
        return max(own.peak - capacity, int(own.slab > capacity), alone)
    total = 0
    for number in own_pools.used:
        pool = own_pools.pools[number]
        if pool.capacity is not None:
            part = pool_graph(own_pools.graph, pool.name)
            total += max(0, peak_lower_bound(part, [order]).value - pool.capacity)
    return max(total, alone)


def _spilled_alone(own_pools: OwnPools, number: int, clock: Clock) -> int:
    """Return bytes that leave a pool in every order, from the buffers live whenever each op runs.

    The same buffers are spilled at all ops: the fewest bytes that relieve every op are searched.
    """
    graph, capacity = own_pools.graph, own_pools.pools[number].capacity
    # In place, an input's bytes may be reused, which the table of live buffers cannot say.
    if capacity is None or graph.in_place or len(graph.ops) > SPILL_CHOICE.bound_ops:
        return 0
    size = np.where(own_pools.own_pool == number, graph.arrays.size, 0)
    rows: list[IntArray] = []
    for v in range(len(graph.ops)):
        if len(rows) * len(size) > SPILL_CHOICE.table or clock.expired():
            # Fewer ops to relieve are a weaker bound, and still one.
            break
        row = np.zeros(len(size), np.int64)
        live = list(op_bound(graph.arrays, v).buffers)
        row[live] = size[live]
        if row.sum() > capacity:
            rows.append(row)
    if not rows:
        return 0
    height = np.unique(rows, axis=0)
    for first, *others in graph.must_share:
        # A group leaves as one, and no two of it are live at once.
        height[:, first] += height[:, others].sum(axis=1)
        height[:, others] = 0
    there = height.any(axis=0)
    movable = np.array([buffer.pin is None for buffer in graph.buffers], np.bool_)
    # Each row counts once: how long it lasts matters to the greedy choice only.
    once = np.ones(len(height))
    steps = Steps(height[:, there], height.max(axis=0)[there], movable[there], capacity, once)
    return least_leaving(steps, None, lambda _: True, clock)[1]
