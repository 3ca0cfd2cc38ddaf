"""pack(): offsets for given live ranges: heuristics, then the exact engine, then CP-SAT.

The same stages pack the orders of :func:`optsched.solver.pipeline.solve`, pool by pool.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from heuristics import OWN_PACKINGS
from heuristics.packings.common import is_in_range
from heuristics.portfolio import packing_turn, packings_left_out
from optsched.check.plan import check_packing
from optsched.errors import GraphError, PlanError
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem, select
from optsched.model.reserved import Region, with_reserved
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Event, Limits, OnEvent, Proof, StopReason
from optsched.solver.driver import Incumbent, Stage, raise_if_interrupted, run_stages
from optsched.solver.effort import EFFORT
from optsched.solver.result import DEFAULT_LIMITS, PackingResult

_LOG = logging.getLogger(__name__)
LAST = "hill_climb"
"""The one heuristic packer that is slower than a search which succeeds."""


def pack(
    problem: PackingProblem,
    *,
    capacity: int | None = None,
    reserved: Sequence[Region] = (),
    limits: Limits | Clock | None = None,
    on_event: OnEvent | None = None,
) -> PackingResult:
    """Find offsets of minimum slab, or ones that fit a capacity.

    Parameters
    ----------
    problem
        Buffers and their live ranges.
    capacity
        Stop at the first packing of at most this many bytes; `problem.capacity` if None.
    reserved
        Bytes that no buffer may use; they count as part of the slab.
    limits
        Time, workers, seed; a minute if None.
    on_event
        Called whenever the best packing moves.

    Raises
    ------
    GraphError
        If a region makes no sense or a buffer is pinned into one, or onto another buffer.
    """
    capacity = problem.capacity if capacity is None else capacity
    count = len(problem)
    _refuse_clashing_pins(problem)
    problem = with_reserved(problem, reserved, capacity=capacity)
    best = PackingIncumbent(problem, limits or DEFAULT_LIMITS, capacity, on_event)
    run_stages(best, WHOLE)
    result = best.result()
    # Regions stand behind the buffers, and are not for the caller.
    own = None if result.offsets is None else result.offsets[:count]
    return replace(result, offsets=own)


def _refuse_clashing_pins(problem: PackingProblem) -> None:
    pinned = np.flatnonzero(problem.pin >= 0)
    if len(pinned) < 2:
        return
    part = select(problem, pinned)
    try:
        check_packing(part, part.pin.tolist())
    except PlanError as error:
        raise GraphError(f"pinned {error}") from None


def packing_bound(problem: PackingProblem) -> int:
    """Return the bytes of the fullest step, or of the highest pin if that is more."""
    live = problem.end > problem.start
    pinned = live & (problem.pin >= 0)
    highest = int((problem.pin[pinned] + problem.size[pinned]).max(initial=0))
    return max(problem.max_load, highest)


class PackingIncumbent(Incumbent):
    """The best packing of one problem so far.

    Parameters
    ----------
    problem
        Buffers with live ranges.
    limits, capacity, on_event
        As for :class:`optsched.solver.driver.Incumbent`.
    """

    def __init__(
        self,
        problem: PackingProblem,
        limits: Limits | Clock,
        capacity: int | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        super().__init__(limits, capacity, on_event)
        self.problem, self.size = problem, len(problem)
        self.slab_bound, self.proof = packing_bound(problem), Proof.PACKING
        self.offsets: IntArray | None = None
        self.slab = self.claimed = 0
        self.is_searched = False

    def value(self) -> int | None:
        """Return the slab of the best packing."""
        return None if self.offsets is None else self.slab

    def bound(self) -> int:
        """Return the proved lower bound on the slab."""
        return self.slab_bound

    @property
    def enough(self) -> int:
        """Bytes below which nobody needs to go."""
        return max(self.slab_bound, self.capacity or 0)

    def done(self) -> bool:
        """Whether the slab is proved minimum, or the capacity decided."""
        if self.capacity is not None and self.slab_bound > self.capacity:
            return True
        return self.offsets is not None and self.slab <= self.enough

    def offer(self, offsets: IntArray, source: str) -> None:
        """Keep a packing if it is better; every one that is kept is checked."""
        slab = self.problem.slab_size(offsets)
        if self.offsets is None or slab < self.slab:
            check_packing(self.problem, offsets.tolist(), slab=slab)
            self.offsets, self.slab = offsets, slab
            self.report(source)

    def try_packer(self, name: str) -> None:
        """Offer what a heuristic packer makes; one that fails is logged and left out."""
        self.clock.spend(len(self.problem))
        try:
            self.offer(OWN_PACKINGS[name](self.problem), name)
        except Exception as error:
            _LOG.warning("packing %s failed on %s: %r", name, self.problem.name, error)

    def relay(self, event: Event) -> None:
        """Pass an engine's progress on, on our own clock and with our best packing."""
        self.report(event.source, event.bound, event.incumbent)

    def stop_reason(self) -> StopReason:
        """Return why it ended."""
        reason = super().stop_reason()
        return StopReason.EXHAUSTED if self.is_searched and not self.done() else reason

    def result(self) -> PackingResult:
        """Put together what is known."""
        proof = None
        if self.offsets is not None and self.slab <= self.slab_bound:
            proof = self.proof
        elif self.offsets is not None and self.slab <= self.claimed:
            proof = Proof.CLAIMED
        return PackingResult(
            offsets=self.offsets,
            slab=self.value(),
            slab_bound=self.slab_bound,
            slab_proof=proof,
            stop_reason=self.stop_reason(),
            capacity=self.capacity,
            runtime=self.clock.seconds(),
            left_out={} if self.done() else packings_left_out(len(self.problem)),
        )


def try_heuristics(best: PackingIncumbent, clock: Clock) -> bool:
    """Try the heuristic packers, the best one first; that one whatever the time."""
    turn = packing_turn(len(best.problem)) if is_in_range(best.problem) else []
    for name in turn:
        if best.done() or (best.offsets is not None and clock.expired()):
            break
        if name != LAST:
            best.try_packer(name)
    return False


def search_packings(best: PackingIncumbent, clock: Clock) -> bool:
    """Search all packings."""
    from optsched.packing import solve_packing

    outcome = solve_packing(
        best.problem,
        limits=clock,
        capacity=best.capacity,
        warm_start=best.offsets,
        on_event=best.relay,
    )
    if outcome.bound > best.slab_bound:
        best.slab_bound, best.proof = outcome.bound, outcome.proof or Proof.PACKING_SEARCH
    if outcome.offsets is not None:
        best.offer(outcome.offsets, "packing search")
    best.is_searched = outcome.stop_reason is not StopReason.TIME_LIMIT
    raise_if_interrupted(outcome.stop_reason)
    return False


def climb_hills(best: PackingIncumbent, clock: Clock) -> bool:
    """Try the one packer that is slower than a search which succeeds."""
    if LAST in packing_turn(len(best.problem)) and is_in_range(best.problem):
        best.try_packer(LAST)
    return False


def ask_cpsat(best: PackingIncumbent, clock: Clock) -> bool:
    """Ask CP-SAT, whose bound is a claim, where the engine ended early on a small problem."""
    from optsched.joint.cpsat import solve_packing

    outcome = solve_packing(
        best.problem,
        capacity=best.capacity,
        limits=clock,
        warm_start=None if best.offsets is None else best.offsets.tolist(),
        slab_bound=best.slab_bound,
        on_event=best.relay,
    )
    if outcome.offsets is not None:
        best.offer(np.array(outcome.offsets, np.int64), "cpsat")
    best.claimed = outcome.bound
    best.is_searched = outcome.stop_reason is not StopReason.TIME_LIMIT
    raise_if_interrupted(outcome.stop_reason)
    return False


CONTINUED: tuple[Stage[PackingIncumbent], ...] = (Stage(search_packings),)
"""For an order that the quick heuristics have packed already."""
WHOLE: tuple[Stage[PackingIncumbent], ...] = (
    Stage(try_heuristics),
    *CONTINUED,
    Stage(climb_hills),
    Stage(ask_cpsat, most=EFFORT.cpsat_buffers),
)
"""All that is known of packing."""
