"""pack(): offsets for given live ranges: heuristics, then the exact engine.

The same stages pack the orders of :func:`optsched.solver.pipeline.solve`, pool by pool.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import SupportsIndex, Unpack

from heuristics import OWN_PACKINGS
from heuristics.portfolio import packing_turn, packings_left_out
from optsched.check.packing import check_packing
from optsched.errors import GraphError, UsageError
from optsched.formats.minimalloc import PackingTable
from optsched.model.arrays import IntArray
from optsched.model.elements import MAX_ADDRESS
from optsched.model.memory_model import aligned_packing, parse_alignment
from optsched.model.packing_problem import PackingProblem
from optsched.model.reserved import Region, with_reserved
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.clock import Clock
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import (
    Event,
    LimitKeywords,
    Limits,
    OnEvent,
    Proof,
    StopReason,
    choose_limits,
)
from optsched.solver.driver import Incumbent, Stage, run_stages
from optsched.solver.result import PackingResult

_LOG = logging.getLogger(__name__)
LAST = "hill_climb"
"""The one heuristic packer that is slower than a search which succeeds."""


@keywords
def pack(
    problem: PackingProblem | PackingTable,
    *,
    capacity: int | str | SupportsIndex | None = None,
    reserved: Sequence[Region] = (),
    align: int | str | SupportsIndex | None = None,
    limits: Limits | Clock | None = None,
    on_event: OnEvent | None = None,
    **named: Unpack[LimitKeywords],
) -> PackingResult:
    """Find offsets of minimum slab for given live ranges, or ones that fit a capacity.

    Parameters
    ----------
    problem
        Buffers and their live ranges, or what :func:`optsched.read_packing` returns.
    capacity
        Stop at the first packing of at most this many bytes (`65536` or `"64KiB"`);
        `problem.capacity` if None.
    reserved
        Bytes that no buffer may use; they count as part of the slab.
    align
        A power of two to whose multiples sizes are rounded up and offsets are placed.
    limits, on_event, named
        As for :func:`optsched.solve`.

    Raises
    ------
    GraphError
        If a region makes no sense or a buffer is pinned into one, or onto another buffer.
    UsageError
        If the buffers name pools, which `pack_pools` is for, or an option makes no sense.
    """
    clock = Clock.of(choose_limits(limits, named))
    problem = problem_of(problem)
    if align is not None:
        problem = aligned_packing(problem, parse_alignment(align))
    capacity = problem.capacity if capacity is None else parse_bytes(capacity)
    joined = problem.joined
    joined.problem.refuse_clashing_pins()
    problem = with_reserved(joined.problem, reserved, capacity=capacity)
    best = PackingIncumbent(problem, clock, capacity, on_event)
    run_stages(best, WHOLE)
    result = best.result()
    if result.slab_bound > MAX_ADDRESS and (capacity is None or capacity > MAX_ADDRESS):
        raise GraphError(f"{problem.name}: every packing takes more than 2**63 - 1 bytes")
    # Regions stand behind the buffers, and are not for the caller.
    own = None if result.offsets is None else result.offsets[joined.place]
    return replace(result, offsets=own)


def problem_of(problem: PackingProblem | PackingTable) -> PackingProblem:
    """Return the packing problem that is meant."""
    if not isinstance(problem, PackingProblem):
        if any(getattr(problem, "pools", None) or ()):
            raise UsageError("the buffers of this packing name pools: use pack_pools")
        problem = getattr(problem, "problem", problem)
    if not isinstance(problem, PackingProblem):
        raise UsageError(f"pack wants a PackingProblem, got {type(problem).__name__}")
    return problem


class PackingIncumbent(Incumbent):
    """The best packing of one problem so far."""

    def __init__(
        self,
        problem: PackingProblem,
        limits: Limits | Clock,
        capacity: int | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        super().__init__(limits, capacity, on_event)
        self.problem, self.size = problem, len(problem)
        self.slab_bound, self.proof = problem.slab_bound, Proof.PACKING
        self.offsets: IntArray | None = None
        self.slab = 0
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
        is_least = self.offsets is not None and self.slab <= self.slab_bound
        return PackingResult(
            offsets=self.offsets,
            slab=self.value(),
            slab_bound=self.slab_bound,
            slab_proof=self.proof if is_least else None,
            stop_reason=self.stop_reason(),
            capacity=self.capacity,
            runtime=self.clock.seconds(),
            compile_seconds=self.compile_seconds(),
            left_out={} if self.done() else packings_left_out(len(self.problem)),
        )


def try_heuristics(best: PackingIncumbent, clock: Clock) -> None:
    """Try the heuristic packers, the best one first; that one whatever the time."""
    turn = packing_turn(len(best.problem)) if best.problem.is_in_range else []
    for name in turn:
        if best.done() or (best.offsets is not None and clock.expired()):
            break
        if name != LAST:
            best.try_packer(name)


def search_packings(best: PackingIncumbent, clock: Clock) -> None:
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
    best.is_searched = not outcome.stop_reason.is_limit
    outcome.stop_reason.raise_if_interrupted()


def climb_hills(best: PackingIncumbent, clock: Clock) -> None:
    """Try the one packer that is slower than a search which succeeds."""
    if LAST in packing_turn(len(best.problem)) and best.problem.is_in_range:
        best.try_packer(LAST)


CONTINUED: tuple[Stage[PackingIncumbent], ...] = (Stage(search_packings),)
"""For an order that the quick heuristics have packed already."""
WHOLE: tuple[Stage[PackingIncumbent], ...] = (Stage(try_heuristics), *CONTINUED, Stage(climb_hills))
"""All that is known of packing."""
