"""Results of packing live ranges: offsets, proved bounds, and the reason why the search stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from optsched.errors import UsageError
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem
from optsched.model.plan import Planned
from optsched.model.pools import Pool
from optsched.model.reserved import Region
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Proof, StopReason
from optsched.runtime.shown import Shown
from optsched.solver.status import Status, judge, short

LEAVE_FREE = "leave the reserved bytes free"
"""The rule of packings with reserved regions, in words."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """Buffers, shape `(n,)`, that need more bytes than are available; `reason` says it in words."""

    ids: IntArray
    required: int
    available: int
    reason: str


@dataclass(frozen=True, slots=True)
class PackedPool:
    """The buffers that lie in a pool, shape `(n,)`, and their packing."""

    pool: Pool
    ids: IntArray
    result: PackingResult


@dataclass(frozen=True, slots=True)
class PackingResult(Shown):
    """A checked packing and what is proved about it.

    Parameters
    ----------
    offsets
        Shape `(k,)`, or None if no packing of all buffers was found that fits.
    slab, slab_bound
        Bytes of all pools together; no packing of these live ranges that spills as few bytes has
        less than the bound.
    slab_proof
        Proof of the slab if it meets the bound, `claimed`, or None.
    stop_reason, capacity, runtime, compile_seconds
        As in :class:`optsched.Result`. In pools, DECIDED: all buffers lie in their own pools,
        within the capacities. PROVED: and every slab is minimum, or the fewest bytes are spilled.
    left_out
        Heuristic packers that were not tried since there are many buffers, and the reason.
    packed
        The packing of each pool, in the order of preference, if pools were given.
    spilled
        Positions of the buffers that lie in a later pool than their own.
    spilled_bytes, spilled_bound
        Bytes of these, and a lower bound on the bytes spilled by any packing.
    unplaced
        Positions of the buffers for which no pool has room.
    shortage
        Reason why no choice of pools has room, or None.
    short
        By pool name: reason why the pool cannot hold all buffers that name it.
    reserved
        Regions that the packing had to leave free.
    problem
        The live ranges, as rounded by `align`; None if only numbers are kept.

    Examples
    --------
    >>> from optsched import PackingProblem, pack
    >>> problem = PackingProblem(size=[8, 4, 4], start=[0, 2, 4], end=[4, 6, 8])
    >>> result = pack(problem)
    >>> result.status.value, result.slab, result.slab_proof.words
    ('optimal', 12, 'packing bound')
    """

    offsets: IntArray | None
    slab: int | None
    slab_bound: int
    slab_proof: Proof | None
    stop_reason: StopReason
    capacity: int | None = None
    runtime: float = 0.0
    compile_seconds: float = 0.0
    left_out: Mapping[str, str] = field(default_factory=dict)
    packed: tuple[PackedPool, ...] = field(default=(), repr=False)
    spilled: tuple[int, ...] = ()
    spilled_bytes: int = 0
    spilled_bound: int = 0
    unplaced: tuple[int, ...] = ()
    shortage: Shortage | None = None
    short: Mapping[str, Shortage] = field(default_factory=dict)
    reserved: tuple[Region, ...] = ()
    problem: PackingProblem | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        slab = short("slab", self.slab, self.slab_bound, self.slab_proof)
        among = f" among {self.restriction}" if self.restriction else ""
        return f"PackingResult({self.status}, {slab}{among}, {self.stop_reason})"

    @property
    def graph_and_plan(self) -> Planned:
        """None: raises, as live ranges have no ops."""
        raise UsageError("a packing has no ops to order: check_packing checks its offsets")

    @property
    def in_pools(self) -> bool:
        """True if pools were given, into which buffers may spill."""
        return bool(self.packed) or self.shortage is not None

    @property
    def is_limited(self) -> bool:
        """True if every pool that holds a buffer has a capacity, so that fitting is enough."""
        # Pools without buffers do not count: a plan need not use every pool that is offered.
        held = [part for part in self.packed if len(part.ids)]
        return bool(held) and all(part.pool.capacity is not None for part in held)

    @property
    def rank(self) -> tuple[int, ...]:
        """Key of packings in pools: all buffers placed first, then few spilled bytes and slab."""
        missing = int(self.shortage is not None) + len(self.unplaced)
        return missing, self.spilled_bytes, self.slab or 0

    @property
    def restriction(self) -> str:
        """The packings that the bounds are about, in words; empty if they are all."""
        return f"packings that {LEAVE_FREE}" if self.reserved else ""

    @property
    def status(self) -> Status:
        """Optimal only if proved; infeasible only if the bound exceeds the capacity.

        In pools it is optimal if the spilled bytes are proved the fewest. If none are spilled,
        slabs must be within their capacities, or minimum without one.
        """
        if self.in_pools:
            return self._status_in_pools()
        refuted = self.capacity is not None and self.slab_bound > self.capacity
        # A packing above the capacity does not answer the decision that was asked for.
        too_large = (
            self.slab is not None and self.capacity is not None and self.slab > self.capacity
        )
        return judge(None if too_large else self.slab, self.slab_bound, refuted=refuted)

    def _status_in_pools(self) -> Status:
        states = {part.result.status for part in self.packed}
        lacks = self.unplaced or states & {Status.UNKNOWN, Status.INFEASIBLE}
        good = all(
            part.result.status is Status.OPTIMAL or part.pool.capacity is not None
            for part in self.packed
        )
        return judge(
            None if lacks else self.spilled_bytes,
            self.spilled_bound,
            refuted=self.shortage is not None,
            # Once bytes are spilled, their number is what is proved, not the slabs.
            proved=None if self.spilled else good,
        )

    def places(self, count: int) -> tuple[list[str], IntArray]:
        """Return pool and offset of each of `count` buffers; "" and -1 for those without."""
        names, offsets = [""] * count, np.full(count, -1, np.int64)
        if not self.in_pools and self.offsets is not None:
            offsets[:] = self.offsets
        for part in self.packed:
            if part.result.offsets is not None:
                offsets[part.ids] = part.result.offsets
                for i in part.ids.tolist():
                    names[i] = part.pool.name
        return names, offsets


def with_sums(
    problem: PackingProblem, found: PackingResult, stop_reason: StopReason, clock: Clock
) -> PackingResult:
    """Return packings of all pools with the offsets and the slab of all of them together."""
    offsets = np.zeros(len(problem), np.int64)
    for part in found.packed:
        if part.result.offsets is not None:
            offsets[part.ids] = part.result.offsets
    results = [part.result for part in found.packed]
    placed = found.status in (Status.OPTIMAL, Status.FEASIBLE)
    # The pools' own bounds hold as long as every buffer stays in its own pool.
    in_own_pool = placed and not found.spilled
    bound = sum(part.slab_bound for part in results) if in_own_pool else problem.peak
    slab = sum(part.slab or 0 for part in results) if placed else None
    proofs = {part.slab_proof for part in results}
    known = Proof.PACKING if not in_own_pool or proofs <= {Proof.PACKING} else Proof.PACKING_SEARCH
    return replace(
        found,
        offsets=offsets if placed else None,
        slab=slab,
        slab_bound=bound,
        slab_proof=known if slab == bound else None,
        stop_reason=stop_reason,
        runtime=clock.seconds(),
        compile_seconds=clock.compile_seconds(),
        problem=problem,
    )
