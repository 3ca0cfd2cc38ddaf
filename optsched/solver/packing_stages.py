"""Stages of packing live ranges into one slab: heuristics, then the exact engine.

They pack the problems of :func:`optsched.pack` and the orders of :func:`optsched.solve`, pool by
pool.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NoReturn

from heuristics import OWN_PACKINGS
from heuristics.portfolio import MANY_BUFFERS, packing_turn, packings_left_out
from optsched.check.packing import check_packing
from optsched.errors import GraphError, UnsupportedVersionError
from optsched.model.arrays import IntArray
from optsched.model.elements import MAX_ADDRESS
from optsched.model.packing_problem import PackingProblem
from optsched.model.reductions import Groups, Reduced
from optsched.model.reserved import Region, Reserved
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Event, Limits, OnEvent, Proof, StopReason
from optsched.solver.driver import Knowledge, Stage, run_stages
from optsched.solver.finding import Finding, slab_bound
from optsched.solver.packing_result import PackingResult

_LOG = logging.getLogger(__name__)
LAST = "hill_climb"
"""The one heuristic packer that is slower than a successful search."""


def pack_slab(
    problem: PackingProblem,
    capacity: int | None,
    limits: Limits | Clock,
    on_event: OnEvent | None,
    reserved: Sequence[Region] = (),
) -> PackingResult:
    """Pack live ranges into one slab: :func:`optsched.pack` without pools."""
    # Groups and reserved bytes are reductions: the engines see neither.
    reduced = Reduced(problem, Groups(), Reserved(reserved, capacity))
    (part,) = reduced.parts
    part.refuse_clashing_pins()
    known = KnownPacking(part, limits, capacity, on_event)
    run_stages(known, None, WHOLE)
    result = known.result()
    # Above the address space: no plan can be written down.
    if result.slab_bound > MAX_ADDRESS and (capacity is None or capacity > MAX_ADDRESS):
        _refuse(part)
    # Lifted back, so that the offsets are those of the caller's buffers.
    own = None if result.offsets is None else reduced.lift([result.offsets])
    return replace(result, offsets=own, problem=problem, reserved=tuple(reserved))


def _refuse(problem: PackingProblem) -> NoReturn:
    """Raise `GraphError` for a problem that has no packing."""
    from optsched.packing.solve import overfull

    full, missed = overfull(problem), "misses an upper limit or " if problem.has_limits else ""
    if full is not None:
        limit, load = full
        text = f"{load} bytes of one step must end at or below {limit}"
        raise GraphError(f"{problem.name}: {text}")
    raise GraphError(f"{problem.name}: every packing {missed}takes more than 2**63 - 1 bytes")


def try_to_fit(
    problem: PackingProblem, capacity: int, limits: Limits | Clock, on_event: OnEvent | None
) -> PackingResult:
    """Return a packing within a capacity, or a result without offsets.

    Packings above the capacity are not results and not checked, which would take most of the time
    if there are many buffers.
    """
    problem.refuse_clashing_pins()
    known = KnownPacking(problem, limits, capacity, on_event, must_fit=True)
    run_stages(known, None, WHOLE)
    return known.result()


class KnownPacking(Knowledge):
    """State of a search for a packing of live ranges.

    `problem`: live ranges. `limits`, `capacity`, `on_event`: as for
    :class:`optsched.solver.driver.Knowledge`. `must_fit`: True if packings above the capacity are
    only starts of the search: they are not checked, and the result is without offsets if no packing
    fits.
    """

    def __init__(
        self,
        problem: PackingProblem,
        limits: Limits | Clock,
        capacity: int | None = None,
        on_event: OnEvent | None = None,
        *,
        must_fit: bool = False,
    ) -> None:
        super().__init__(limits, capacity, on_event)
        self.problem, self.size, self.must_fit = problem, len(problem), must_fit
        self.slab_bound, self.proof = problem.slab_bound, Proof.PACKING
        self.offsets: IntArray | None = None
        self.slab = 0
        self.is_searched = False

    def value(self) -> int | None:
        """Return the slab of the best packing in bytes; None without one."""
        return None if self.offsets is None else self.slab

    def bound(self) -> int:
        """Return the proved lower bound on the slab in bytes."""
        return self.slab_bound

    def done(self) -> bool:
        """Return True if the slab is proved minimum, or the capacity decided."""
        if self.capacity is not None and self.slab_bound > self.capacity:
            return True
        # A capacity above the bound is enough; a smaller slab is then not asked for.
        enough = max(self.slab_bound, self.capacity or 0)
        return self.offsets is not None and self.slab <= enough

    def merge(self, finding: Finding[IntArray]) -> None:
        """Check packings and keep the best one, and the highest bound.

        Raise `PlanError` if a packing is wrong, and no heuristic made it.
        """
        for bound in finding.bounds:
            # A higher bound only: an equal one keeps the proof found first, which is the simpler
            # one.
            if bound.value > self.slab_bound:
                self.slab_bound, self.proof = bound.value, bound.proof
        for offsets in finding.plans:
            try:
                self._keep(offsets, finding.source)
            except UnsupportedVersionError:
                raise
            except Exception as error:
                # Users may register packers; one that fails must not end the search.
                if not finding.trial:
                    raise
                name = self.problem.name
                _LOG.warning("packing %s failed on %s: %r", finding.source, name, error)

    def _keep(self, offsets: IntArray, source: str) -> None:
        slab = self.problem.slab_size(offsets)
        if self.offsets is None or slab < self.slab:
            # Checked before it is kept, so that no unchecked packing can be returned.
            if self._is_result(slab):
                check_packing(self.problem, offsets.tolist(), slab=slab)
            self.offsets, self.slab = offsets, slab
            self.report(source)

    def _is_result(self, slab: int) -> bool:
        # With `must_fit`, packings above the capacity are starts only.
        return not self.must_fit or self.capacity is None or slab <= self.capacity

    def relay(self, event: Event) -> None:
        """Report an engine's progress on our own clock, with our best packing."""
        self.report(event.source, event.bound, event.incumbent)

    def stop_reason(self) -> StopReason:
        """Return the reason why the search ended."""
        reason = super().stop_reason()
        return StopReason.EXHAUSTED if self.is_searched and not self.done() else reason

    def result(self) -> PackingResult:
        """Return the result."""
        offsets = self.offsets if self._is_result(self.slab) else None
        is_least = offsets is not None and self.slab <= self.slab_bound
        return PackingResult(
            offsets=offsets,
            slab=None if offsets is None else self.slab,
            slab_bound=self.slab_bound,
            slab_proof=self.proof if is_least else None,
            stop_reason=self.stop_reason(),
            capacity=self.capacity,
            runtime=self.clock.seconds(),
            compile_seconds=self.clock.compile_seconds(),
            left_out={} if self.done() else packings_left_out(len(self.problem)),
        )


Packings = Iterator[Finding[IntArray]]


def try_heuristics(known: KnownPacking, resume: None, clock: Clock) -> Packings:
    """Try the heuristic packers, the best one first and regardless of the time.

    Many buffers take a second, and no packer can be stopped: another one is only tried if there is
    time for as much as the one before it took.
    """
    # Sums beyond 64 bits would overflow in the packers.
    turn = packing_turn(len(known.problem)) if known.problem.is_in_range else []
    took = 0.0
    for name in turn:
        if known.done() or (known.offsets is not None and _is_late(clock, took)):
            break
        begun = clock.now()
        # The slow one has a stage of its own, after the search.
        if name != LAST:
            yield from _packed_by(known, name)
        # With few buffers every packer takes milliseconds.
        took = clock.now() - begun if len(known.problem) >= MANY_BUFFERS else 0.0


def _is_late(clock: Clock, needed: float) -> bool:
    left = clock.left()
    return clock.expired() or (left is not None and left < needed)


def search_packings(known: KnownPacking, resume: None, clock: Clock) -> Packings:
    """Search all packings."""
    from optsched.packing import solve_packing

    outcome = solve_packing(
        known.problem,
        limits=clock,
        capacity=known.capacity,
        warm_start=known.offsets,
        on_event=known.relay,
    )
    # An exhausted search without a proof (parts that are too large) must not look like a time
    # limit.
    known.is_searched = not outcome.stop_reason.is_limit
    yield Finding(
        "packing search",
        plans=() if outcome.offsets is None else (outcome.offsets,),
        bounds=slab_bound(outcome.bound, outcome.proof or Proof.PACKING_SEARCH),
    )
    outcome.stop_reason.raise_if_interrupted()


def climb_hills(known: KnownPacking, resume: None, clock: Clock) -> Packings:
    """Try the one packer that is slower than a successful search."""
    if LAST in packing_turn(len(known.problem)) and known.problem.is_in_range:
        yield from _packed_by(known, LAST)


def _packed_by(known: KnownPacking, name: str) -> Packings:
    """Yield the packing of a heuristic packer; one that fails is logged and left out."""
    known.clock.spend(len(known.problem))
    try:
        offsets = OWN_PACKINGS[name](known.problem)
    except UnsupportedVersionError:
        raise
    except GraphError:
        # It finds no valid packing, as it may where sizes are huge.
        return
    except Exception as error:
        _LOG.warning("packing %s failed on %s: %r", name, known.problem.name, error)
        return
    yield Finding(name, plans=(offsets,), trial=True)


CONTINUED: tuple[Stage[KnownPacking], ...] = (Stage(search_packings),)
"""Stages for an order that quick heuristics have packed already."""
WHOLE: tuple[Stage[KnownPacking], ...] = (
    Stage(try_heuristics),
    *CONTINUED,
    Stage(climb_hills),
)
"""All stages of packing."""
