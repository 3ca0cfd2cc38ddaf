"""Several slabs with capacities: each buffer in its own pool, or in a later one if it must.

Without spilling each pool is a packing problem by itself, and its least slab is proved as such.
What to spill is chosen greedily, improved by exchanges, and then searched best first, each choice
tried by packing what stays. The search ends with a bound on the bytes that leave a pool; over all
pools these add up to a bound on what is spilled, since what comes from other pools needs room too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optsched.check.plan import check_packing
from optsched.errors import UsageError
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem, select
from optsched.runtime.limits import Limits, OnEvent, StopReason
from optsched.solver.pack import pack, packing_bound
from optsched.solver.result import DEFAULT_LIMITS, PackingResult, Status
from optsched.solver.spill.choose import TRY_SHARE, choose_spill, least_spill

TRY_SECONDS = 5.0
"""For one attempt to fill a pool after spilling, where there is no time limit."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A slab.

    Parameters
    ----------
    name
        As buffers name it.
    capacity
        Bytes, or None for as many as it takes.
    """

    name: str
    capacity: int | None = None


@dataclass(frozen=True, slots=True)
class PackedPool:
    """The buffers that lie in a pool, shape `(n,)`, and their packing."""

    pool: Pool
    ids: IntArray
    result: PackingResult


@dataclass(frozen=True, slots=True)
class Shortage:
    """Buffers, shape `(n,)`, that need more bytes than there are for them, and that in words."""

    ids: IntArray
    required: int
    available: int
    reason: str


@dataclass(frozen=True, slots=True)
class PoolsResult:
    """Checked packings of all pools and what is known about them.

    Parameters
    ----------
    packed
        One entry per pool, in the order of preference.
    spilled
        Buffers that lie in a later pool than their own.
    spilled_bytes, spilled_bound
        Bytes of these, and bytes that are spilled at least, whatever lies where.
    unplaced
        Buffers that found room in no pool.
    shortage
        Why no choice of pools can do, or None.
    short
        By pool name: why it can not hold all buffers that name it, so that some must leave.
    stop_reason
        DECIDED: all lie in their own pools, within the capacities. PROVED: and every slab is least.
    runtime
        Seconds.
    """

    packed: tuple[PackedPool, ...]
    spilled: tuple[int, ...]
    spilled_bytes: int
    spilled_bound: int
    unplaced: tuple[int, ...]
    shortage: Shortage | None
    short: Mapping[str, Shortage]
    stop_reason: StopReason
    runtime: float

    @property
    def slab(self) -> int | None:
        """Bytes of all slabs together; None unless every buffer has its place."""
        if self.status in (Status.INFEASIBLE, Status.UNKNOWN):
            return None
        return sum(part.result.slab or 0 for part in self.packed)

    @property
    def status(self) -> Status:
        """Optimal only if nothing is spilled and the least slab of each pool is proved."""
        if self.shortage is not None:
            return Status.INFEASIBLE
        found = {part.result.status for part in self.packed}
        if self.unplaced or found & {Status.UNKNOWN, Status.INFEASIBLE}:
            return Status.UNKNOWN
        return Status.OPTIMAL if found <= {Status.OPTIMAL} and not self.spilled else Status.FEASIBLE

    def places(self, count: int) -> tuple[list[str], IntArray]:
        """Return pool and offset of each of `count` buffers; "" and -1 for those without."""
        names = [""] * count
        offsets = np.full(count, -1, np.int64)
        for part in self.packed:
            if part.result.offsets is not None:
                offsets[part.ids] = part.result.offsets
                for i in part.ids.tolist():
                    names[i] = part.pool.name
        return names, offsets


def pack_pools(
    problem: PackingProblem,
    homes: Sequence[str],
    pools: Sequence[Pool],
    *,
    limits: Limits | None = None,
    on_event: OnEvent | None = None,
) -> PoolsResult:
    """Give every buffer a pool and an offset in it.

    Parameters
    ----------
    problem
        All buffers. A pinned buffer stays in its own pool.
    homes
        The pool that each buffer names, or "" for the first.
    pools
        In order of preference: what does not fit into its pool goes to the next one.
    limits
        Time for all of it, workers, seed; a minute if None.
    on_event
        Called whenever the packing of a pool moves.

    Raises
    ------
    UsageError
        If a buffer names no given pool, or a pool is given twice.
    """
    order = {pool.name: at for at, pool in enumerate(pools)}
    if len(order) < len(pools) or not pools:
        raise UsageError("each pool is given once, and at least one")
    home = np.array([order.get(name or pools[0].name, -1) for name in homes], np.int64)
    for i in np.flatnonzero(home < 0)[:1]:
        raise UsageError(f"buffer {problem.names[i]!r} names pool {homes[i]!r}, which is not given")
    run = _Run(problem, home, pools, limits or DEFAULT_LIMITS, on_event)
    return run.result()


def check_pools(problem: PackingProblem, pools: Sequence[str], offsets: Sequence[int]) -> int:
    """Check the offsets of each pool and return the bytes of all slabs together.

    Raises
    ------
    PlanError
        As of :func:`optsched.check.plan.check_packing`.
    """
    total = 0
    for name in sorted(set(pools)):
        ids = np.array([i for i, pool in enumerate(pools) if pool == name], np.int64)
        total += check_packing(select(problem, ids), [offsets[i] for i in ids])
    return total


class _Run:
    """Fills the pools in turn."""

    def __init__(
        self,
        problem: PackingProblem,
        home: IntArray,
        pools: Sequence[Pool],
        limits: Limits,
        on_event: OnEvent | None,
    ) -> None:
        self.problem, self.home, self.pools = problem, home, pools
        self.limits, self.on_event = limits, on_event
        self.started = time.perf_counter()
        self.interrupted = False
        self.least = 0

    def result(self) -> PoolsResult:
        """Pack all pools, or say why that can not be."""
        shortage = self.shortage()
        packed: list[PackedPool] = []
        at = self.home.copy()
        if shortage is None:
            for number, pool in enumerate(self.pools):
                ids, result = self.fill(number, pool, np.flatnonzero(at == number))
                at[(at == number) & ~np.isin(np.arange(len(at)), ids)] += 1
                packed.append(PackedPool(pool, ids, result))
                last = number + 1 == len(self.pools)
                if last and result.status is Status.INFEASIBLE and (self.home[ids] == number).all():
                    text = f"pool {pool.name!r} can not hold what may lie in no other"
                    least = result.slab_bound
                    shortage = Shortage(
                        ids, least, least if pool.capacity is None else pool.capacity, text
                    )
        unplaced = np.flatnonzero(at == len(self.pools))
        spilled = np.flatnonzero((at > self.home) & (at < len(self.pools)))
        return PoolsResult(
            packed=tuple(packed),
            spilled=tuple(spilled.tolist()),
            spilled_bytes=int(self.problem.size[spilled].sum()),
            spilled_bound=self.least,
            unplaced=tuple(unplaced.tolist()),
            shortage=shortage,
            short=self.short(),
            stop_reason=self.stop_reason(packed, bool(len(spilled) + len(unplaced)), shortage),
            runtime=time.perf_counter() - self.started,
        )

    def fill(self, number: int, pool: Pool, members: IntArray) -> tuple[IntArray, PackingResult]:
        """Pack what a pool can hold of the buffers that want to lie in it."""
        result = self.pack(members, pool.capacity, share=1 / (len(self.pools) - number))
        if result.status not in (Status.INFEASIBLE, Status.UNKNOWN) or pool.capacity is None:
            return members, result
        if number + 1 == len(self.pools) and result.status is Status.INFEASIBLE:
            return members, result
        pinned = self.problem.pin >= 0
        ids, result, bound = choose_spill(
            self.problem, members, pinned[members], pool.capacity, self.pack, self.in_time
        )
        # What came from other pools was spilled there: only the pool's own buffers count here.
        own = np.flatnonzero(self.home == number)
        if not np.array_equal(own, members):
            bound = least_spill(self.problem, own, pinned[own], pool.capacity)
        self.least += bound
        return ids, result

    def pack(self, ids: IntArray, capacity: int | None, *, share: float) -> PackingResult:
        """Pack some buffers within a share of the time left."""
        seconds = self.limits.seconds
        if seconds is None and share == TRY_SHARE:
            seconds = TRY_SECONDS
        elif seconds is not None:
            seconds = share * max(0.0, seconds - (time.perf_counter() - self.started))
        limits = replace(self.limits, seconds=0.0 if self.interrupted else seconds)
        part = select(self.problem, ids)
        result = pack(part, capacity=capacity, limits=limits, on_event=self.on_event)
        self.interrupted |= result.stop_reason is StopReason.INTERRUPTED
        return result

    def in_time(self) -> bool:
        """Whether there is time left."""
        seconds = self.limits.seconds
        late = seconds is not None and time.perf_counter() - self.started >= seconds
        return not (late or self.interrupted)

    def shortage(self) -> Shortage | None:
        """Return a reason why no choice of pools has room, if a simple one is found."""
        for number, pool in enumerate(self.pools):
            room, ids = self.room(number), np.flatnonzero(self.home >= number)
            if room is not None:
                bytes_ = select(self.problem, ids).max_load
                if bytes_ > room:
                    text = (
                        f"{bytes_} bytes are live at once, pools from {pool.name!r} on have {room}"
                    )
                    return Shortage(ids, bytes_, room, text)
            pinned = np.flatnonzero((self.home == number) & (self.problem.pin >= 0))
            least = packing_bound(select(self.problem, pinned))
            if pool.capacity is not None and least > pool.capacity:
                text = f"pins in pool {pool.name!r} reach {least} bytes, it has {pool.capacity}"
                return Shortage(pinned, least, pool.capacity, text)
        live = self.problem.end > self.problem.start
        for i in np.flatnonzero(live).tolist():
            later = [pool.capacity for pool in self.pools[int(self.home[i]) :]]
            room = max((x for x in later if x is not None), default=0)
            size = int(self.problem.size[i])
            if None not in later and size > room:
                name = self.problem.names[i]
                text = f"buffer {name!r} is larger than every pool it may lie in"
                return Shortage(np.array([i]), size, room, text)
        return None

    def short(self) -> dict[str, Shortage]:
        """Return why pools can not hold what names them: live bytes of one step, or pins."""
        found = {}
        for number, pool in enumerate(self.pools):
            own = np.flatnonzero(self.home == number)
            least = packing_bound(select(self.problem, own))
            if pool.capacity is not None and least > pool.capacity:
                text = f"pool {pool.name!r} is too small for the buffers that name it"
                found[pool.name] = Shortage(own, least, pool.capacity, text)
        return found

    def room(self, number: int) -> int | None:
        """Bytes of the pools from one on; None if one of them has no capacity."""
        total = 0
        for pool in self.pools[number:]:
            if pool.capacity is None:
                return None
            total += pool.capacity
        return total

    def stop_reason(
        self, packed: Sequence[PackedPool], moved: bool, shortage: Shortage | None
    ) -> StopReason:
        """Why it ended."""
        reasons = {part.result.stop_reason for part in packed}
        if self.interrupted:
            return StopReason.INTERRUPTED
        if shortage is not None:
            return StopReason.DECIDED
        if not moved and reasons <= {StopReason.PROVED, StopReason.DECIDED}:
            return StopReason.PROVED if reasons <= {StopReason.PROVED} else StopReason.DECIDED
        seconds = self.limits.seconds
        if seconds is not None and time.perf_counter() - self.started >= seconds:
            return StopReason.TIME_LIMIT
        return StopReason.EXHAUSTED
