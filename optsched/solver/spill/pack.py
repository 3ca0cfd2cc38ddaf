"""Several slabs with capacities: each buffer in its own pool, or in a later one if it must.

Without spilling each pool is a packing problem of its own, and its minimum slab is proved by
solving that problem. The buffers to spill are chosen greedily, the choice is improved by exchanges
and then searched best first; each choice is tried by packing the buffers that stay. The search ends
with a bound on the bytes that leave a pool. These bounds add up over all pools to a bound on the
spilled bytes, since buffers that arrive from other pools need room as well.

Example: buffers of 3 and 2 bytes conflict and both name pool `sram` of 4 bytes; pool `dram` has no
limit. One of them must leave. The cheaper choice, 2 bytes, leaves 3 bytes in `sram`, which fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optsched.check.packing import check_packing
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem
from optsched.model.pools import Pool
from optsched.model.reductions import ByPool
from optsched.model.selection import select
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits, OnEvent, StopReason
from optsched.solver.effort import SPILL
from optsched.solver.packing_result import PackedPool, PackingResult, Shortage, with_sums
from optsched.solver.packing_stages import pack_slab, try_to_fit
from optsched.solver.spill.pooled import PooledProblem, refuse_groups_apart, room_of
from optsched.solver.spill.search import choose_spill, steps_of_pool
from optsched.solver.status import Status


def pack_in_pools(
    asked: PooledProblem, clock: Clock, on_event: OnEvent | None = None
) -> PackingResult:
    """Give every buffer a pool and an offset in it: :func:`optsched.pack` with pools."""
    filler = _PoolFiller(asked.joined(), clock, on_event)
    found = filler.result()
    reason = filler.stop_reason(found)
    # Groups were packed as one buffer; give every member its offset.
    if asked.problem.must_share:
        found = _with_members(found, asked.problem.joined.place)
    return with_sums(asked.problem, found, reason, clock)


def _with_members(found: PackingResult, place: IntArray) -> PackingResult:
    """Return packings of one buffer for each group as packings of all buffers.

    Spilled bytes are those of the one buffer. `place` has the position of each buffer in it.
    """

    def members(ids: IntArray | Sequence[int]) -> IntArray:
        return np.flatnonzero(np.isin(place, ids))

    def packed(part: PackedPool) -> PackedPool:
        ids, offsets = members(part.ids), part.result.offsets
        if offsets is not None:
            offsets = offsets[np.searchsorted(part.ids, place[ids])]
        return PackedPool(part.pool, ids, replace(part.result, offsets=offsets))

    def shortage(short: Shortage) -> Shortage:
        return replace(short, ids=members(short.ids))

    return replace(
        found,
        packed=tuple(packed(part) for part in found.packed),
        spilled=tuple(members(found.spilled).tolist()),
        unplaced=tuple(members(found.unplaced).tolist()),
        shortage=None if found.shortage is None else shortage(found.shortage),
        short={name: shortage(short) for name, short in found.short.items()},
    )


def check_pools(problem: PackingProblem, pools: Sequence[str], offsets: Sequence[int]) -> int:
    """Check the offsets of each pool and return the bytes of all slabs together.

    The problem's capacity is that of one slab: it counts where there is one pool.

    Raises
    ------
    PlanError
        As of :func:`optsched.check.packing.check_packing`.
    UsageError
        If buffers that share an offset lie in different pools.
    """
    refuse_groups_apart(problem, pools)
    rows = ByPool.of(pools)
    capacity = problem.capacity if len(rows) == 1 else None
    return sum(
        check_packing(part, [offsets[i] for i in row], capacity=capacity)
        for part, row in zip(rows.reduce(problem), rows, strict=False)
    )


class _PoolFiller:
    """Fills the pools in turn."""

    def __init__(self, asked: PooledProblem, clock: Clock, on_event: OnEvent | None) -> None:
        self.asked, self.clock, self.on_event = asked, clock, on_event
        self.interrupted = False
        self.spilled_bound = 0

    def result(self) -> PackingResult:
        """Pack all pools, or return the reason why that is impossible."""
        asked = self.asked
        shortage = asked.shortage()
        packed: list[PackedPool] = []
        at = asked.own_pool.copy()
        if shortage is None:
            for number, pool in enumerate(asked.pools):
                ids, result = self.fill(number, pool, np.flatnonzero(at == number))
                # What does not fit moves on to the next pool, where it competes with that pool's
                # own.
                at[(at == number) & ~np.isin(np.arange(len(at)), ids)] += 1
                packed.append(PackedPool(pool, ids, result))
            # The last pool cannot hold what must lie there, so no choice of pools does.
            if result.status is Status.INFEASIBLE and (asked.first[ids] == number).all():
                text = f"pool {pool.name!r} cannot hold all buffers that fit into no other pool"
                bytes_ = result.slab_bound
                room = bytes_ if pool.capacity is None else pool.capacity
                shortage = Shortage(ids, bytes_, room, text)
        unplaced = np.flatnonzero(at == len(asked.pools))
        spilled = np.flatnonzero((at > asked.own_pool) & (at < len(asked.pools)))
        return PackingResult(
            *(None, None, 0, None, StopReason.EXHAUSTED),
            packed=tuple(packed),
            spilled=tuple(spilled.tolist()),
            spilled_bytes=int(asked.problem.size[spilled].sum()),
            spilled_bound=self.spilled_bound,
            unplaced=tuple(unplaced.tolist()),
            shortage=shortage,
            short=asked.short(),
        )

    def fill(self, number: int, pool: Pool, members: IntArray) -> tuple[IntArray, PackingResult]:
        """Pack what a pool can hold of the buffers that want to lie in it."""
        asked = self.asked
        last = number + 1 == len(asked.pools)
        share = self.clock.share(1 / (len(asked.pools) - number))
        result = self.pack(members, pool.capacity, share)
        # It fits, or the pool has no limit.
        if result.status in (Status.OPTIMAL, Status.FEASIBLE) or pool.capacity is None:
            return members, result
        # After the last pool nothing is left to spill to.
        if last and result.status is Status.INFEASIBLE:
            return members, result
        chosen = choose_spill(
            asked.problem,
            members,
            ~asked.pinned[members],
            pool.capacity,
            self.try_packing,
            lambda leavers: self.has_room(number + 1, leavers),
            self.clock,
        )
        bound = chosen.bound
        # Buffers from other pools were spilled there: only the pool's own buffers count here.
        own = asked.own(number)
        if not np.array_equal(own, members):
            free = ~asked.pinned[own]
            steps = steps_of_pool(asked.problem, own, free, pool.capacity)
            bound = steps.more(np.ones(len(own), np.bool_), free, self.clock) or 0
        self.spilled_bound += bound
        return chosen.ids, chosen.result

    def has_room(self, later: int, leavers: IntArray) -> bool:
        """Return False only if the pools from `later` on have no room for more."""
        pools = self.asked.pools[later:]
        room, ids = room_of(pools), np.union1d(self.asked.from_pool(later), leavers)
        if not pools or room is None:
            return True
        if len(pools) == 1:
            # Only a proof says no: a packing that was not found may exist.
            return self.try_packing(ids, room).status is not Status.INFEASIBLE
        return self.asked.load(ids) <= room

    def try_packing(self, ids: IntArray, capacity: int) -> PackingResult:
        """Pack some buffers for a short while."""
        limits: Limits | Clock = self.clock.share(SPILL.try_share)
        # Without a time limit one attempt must end at some time.
        if self.clock.left() is None:
            limits = replace(self.clock.limits, seconds=SPILL.try_seconds)
        part = select(self.asked.problem, ids)
        return self.noted(try_to_fit(part, capacity, limits, self.on_event))

    def pack(self, ids: IntArray, capacity: int | None, limits: Limits | Clock) -> PackingResult:
        """Pack some buffers."""
        part = select(self.asked.problem, ids)
        return self.noted(pack_slab(part, capacity, limits, self.on_event))

    def noted(self, result: PackingResult) -> PackingResult:
        """Return a result; an interrupt leaves no time for more."""
        if result.stop_reason is StopReason.INTERRUPTED:
            self.interrupted = True
            self.clock.stop()
        return result

    def stop_reason(self, found: PackingResult) -> StopReason:
        """Return why it ended."""
        if self.interrupted:
            return StopReason.INTERRUPTED
        if found.shortage is not None:
            return StopReason.DECIDED
        minimum = all(part.result.status is Status.OPTIMAL for part in found.packed)
        if found.status is Status.OPTIMAL and (found.spilled or minimum):
            return StopReason.PROVED
        reasons = {part.result.stop_reason for part in found.packed}
        in_own_pool = not found.spilled and not found.unplaced
        if in_own_pool and reasons <= {StopReason.PROVED, StopReason.DECIDED}:
            return StopReason.DECIDED
        return self.clock.limit_reason() if self.clock.expired() else StopReason.EXHAUSTED
