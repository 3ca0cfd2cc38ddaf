"""Results of packing live ranges: offsets, proved bounds, and the reason why the search stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem
from optsched.model.reserved import Region
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Proof, StopReason
from optsched.runtime.shown import Shown
from optsched.solver.in_pools import PackedInPools, PackingInPools
from optsched.solver.status import Status, judge, short

LEAVE_FREE = "leave the reserved bytes free"
"""The rule of packings with reserved regions, in words."""


@dataclass(frozen=True, slots=True)
class PackingResult(Shown, PackedInPools):
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
    in_pools
        Packing of each pool, if pools were given; `packed`, `spilled`, `spilled_bytes`,
        `spilled_bound`, `unplaced`, `shortage` and `short` are its attributes.
    reserved
        Regions that the packing had to leave free.
    problem
        The live ranges, as rounded by `align`; None if :func:`optsched.pack` did not make this.

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
    in_pools: PackingInPools | None = field(default=None, repr=False)
    reserved: tuple[Region, ...] = ()
    problem: PackingProblem | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        slab = short("slab", self.slab, self.slab_bound, self.slab_proof)
        among = f" among {self.restriction}" if self.restriction else ""
        return f"PackingResult({self.status}, {slab}{among}, {self.stop_reason})"

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
        if self.in_pools is not None:
            return status_in_pools(self.in_pools)
        refuted = self.capacity is not None and self.slab_bound > self.capacity
        # A packing above the capacity does not answer the decision that was asked for.
        too_large = (
            self.slab is not None and self.capacity is not None and self.slab > self.capacity
        )
        return judge(None if too_large else self.slab, self.slab_bound, refuted=refuted)

    def places(self, count: int) -> tuple[list[str], IntArray]:
        """Return pool and offset of each of `count` buffers; "" and -1 for those without."""
        names, offsets = [""] * count, np.full(count, -1, np.int64)
        if self.in_pools is None and self.offsets is not None:
            offsets[:] = self.offsets
        for part in self.packed:
            if part.result.offsets is not None:
                offsets[part.ids] = part.result.offsets
                for i in part.ids.tolist():
                    names[i] = part.pool.name
        return names, offsets


def status_in_pools(found: PackingInPools) -> Status:
    """Return the status of packings of all pools; see :attr:`PackingResult.status`."""
    states = {part.result.status for part in found.packed}
    lacks = found.unplaced or states & {Status.UNKNOWN, Status.INFEASIBLE}
    good = all(
        part.result.status is Status.OPTIMAL or part.pool.capacity is not None
        for part in found.packed
    )
    return judge(
        None if lacks else found.spilled_bytes,
        found.spilled_bound,
        refuted=found.shortage is not None,
        # Once bytes are spilled, their number is what is proved, not the slabs.
        proved=None if found.spilled else good,
    )


def result_in_pools(
    problem: PackingProblem, found: PackingInPools, stop_reason: StopReason, clock: Clock
) -> PackingResult:
    """Return the packings of all pools as a packing of the problem."""
    offsets = np.zeros(len(problem), np.int64)
    for part in found.packed:
        if part.result.offsets is not None:
            offsets[part.ids] = part.result.offsets
    results = [part.result for part in found.packed]
    placed = status_in_pools(found) in (Status.OPTIMAL, Status.FEASIBLE)
    # The pools' own bounds hold as long as every buffer stays in its own pool.
    in_own_pool = placed and not found.spilled
    bound = sum(part.slab_bound for part in results) if in_own_pool else problem.peak
    slab = sum(part.slab or 0 for part in results) if placed else None
    proofs = {part.slab_proof for part in results}
    known = Proof.PACKING if not in_own_pool or proofs <= {Proof.PACKING} else Proof.PACKING_SEARCH
    return PackingResult(
        offsets=offsets if placed else None,
        slab=slab,
        slab_bound=bound,
        slab_proof=known if slab == bound else None,
        stop_reason=stop_reason,
        runtime=clock.seconds(),
        compile_seconds=clock.compile_seconds(),
        in_pools=found,
    )
