"""Several slabs with capacities: each buffer in its own pool, or in a later one if it must.

Without spilling each pool is a packing problem by itself, and its least slab is proved as such.
What to spill is chosen greedily and improved by exchanges, each tried by packing what stays: a
search without a proof, and the result says so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optsched.arrays import IntArray
from optsched.check import check_packing
from optsched.errors import UsageError
from optsched.packer import DEFAULT_LIMITS, PackingResult, pack, packing_bound
from optsched.problem import PackingProblem, select
from optsched.result import Limits, OnEvent, Status, StopReason
from optsched.spill import TRY_SHARE, choose_spill

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
class PoolsResult:
    """Checked packings of all pools and what is known about them.

    Parameters
    ----------
    packed
        One entry per pool, in the order of preference.
    spilled
        Buffers that lie in a later pool than their own.
    unplaced
        Buffers that found room in no pool.
    refuted
        Why no choice of pools can do, or None.
    stop_reason
        DECIDED: all lie in their own pools, within the capacities. PROVED: and every slab is least.
    runtime
        Seconds.
    """

    packed: tuple[PackedPool, ...]
    spilled: tuple[int, ...]
    unplaced: tuple[int, ...]
    refuted: str | None
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
        if self.refuted is not None:
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
        As of :func:`optsched.check.check_packing`.
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

    def result(self) -> PoolsResult:
        """Pack all pools, or say why that can not be."""
        refuted = self.refutation()
        packed: list[PackedPool] = []
        at = self.home.copy()
        if refuted is None:
            for number, pool in enumerate(self.pools):
                ids, result = self.fill(number, pool, np.flatnonzero(at == number))
                at[(at == number) & ~np.isin(np.arange(len(at)), ids)] += 1
                packed.append(PackedPool(pool, ids, result))
                last = number + 1 == len(self.pools)
                if last and result.status is Status.INFEASIBLE and (self.home[ids] == number).all():
                    refuted = f"pool {pool.name!r} can not hold what may lie in no other"
        unplaced = np.flatnonzero(at == len(self.pools))
        spilled = np.flatnonzero((at > self.home) & (at < len(self.pools)))
        return PoolsResult(
            packed=tuple(packed),
            spilled=tuple(spilled.tolist()),
            unplaced=tuple(unplaced.tolist()),
            refuted=refuted,
            stop_reason=self.stop_reason(packed, bool(len(spilled) + len(unplaced)), refuted),
            runtime=time.perf_counter() - self.started,
        )

    def fill(self, number: int, pool: Pool, members: IntArray) -> tuple[IntArray, PackingResult]:
        """Pack what a pool can hold of the buffers that want to lie in it."""
        result = self.pack(members, pool.capacity, share=1 / (len(self.pools) - number))
        if result.status not in (Status.INFEASIBLE, Status.UNKNOWN) or pool.capacity is None:
            return members, result
        if number + 1 == len(self.pools) and result.status is Status.INFEASIBLE:
            return members, result
        fixed = self.problem.pin[members] >= 0
        return choose_spill(self.problem, members, fixed, pool.capacity, self.pack, self.in_time)

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

    def refutation(self) -> str | None:
        """Return a reason why no choice of pools has room, if a simple one is found."""
        for number, pool in enumerate(self.pools):
            room = self.room(number)
            if room is not None:
                bytes_ = select(self.problem, np.flatnonzero(self.home >= number)).max_load
                if bytes_ > room:
                    return (
                        f"{bytes_} bytes are live at once, pools from {pool.name!r} on have {room}"
                    )
            pinned = np.flatnonzero((self.home == number) & (self.problem.pin >= 0))
            least = packing_bound(select(self.problem, pinned))
            if pool.capacity is not None and least > pool.capacity:
                return f"pins in pool {pool.name!r} reach {least} bytes, it has {pool.capacity}"
        live = self.problem.end > self.problem.start
        for i in np.flatnonzero(live).tolist():
            later = [pool.capacity for pool in self.pools[int(self.home[i]) :]]
            if all(capacity is not None and self.problem.size[i] > capacity for capacity in later):
                return f"buffer {self.problem.names[i]!r} is larger than every pool it may lie in"
        return None

    def room(self, number: int) -> int | None:
        """Bytes of the pools from one on; None if one of them has no capacity."""
        total = 0
        for pool in self.pools[number:]:
            if pool.capacity is None:
                return None
            total += pool.capacity
        return total

    def stop_reason(
        self, packed: Sequence[PackedPool], moved: bool, refuted: str | None
    ) -> StopReason:
        """Why it ended."""
        reasons = {part.result.stop_reason for part in packed}
        if self.interrupted:
            return StopReason.INTERRUPTED
        if refuted is not None:
            return StopReason.DECIDED
        if not moved and reasons <= {StopReason.PROVED, StopReason.DECIDED}:
            return StopReason.PROVED if reasons <= {StopReason.PROVED} else StopReason.DECIDED
        seconds = self.limits.seconds
        if seconds is not None and time.perf_counter() - self.started >= seconds:
            return StopReason.TIME_LIMIT
        return StopReason.EXHAUSTED
