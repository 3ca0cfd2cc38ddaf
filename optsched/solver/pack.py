"""pack(): offsets for given live ranges: heuristics, then the exact engine, then CP-SAT."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from heuristics import OWN_PACKINGS
from heuristics.portfolio import packing_turn, packings_left_out
from optsched.check.plan import check_packing
from optsched.errors import GraphError, PlanError
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem, select
from optsched.model.reserved import Region, with_reserved
from optsched.runtime.interrupt import held_interrupts
from optsched.runtime.limits import Event, Limits, OnEvent, Proof, StopReason
from optsched.solver.core_first import core_packings
from optsched.solver.result import Status

DEFAULT_LIMITS = Limits(seconds=60.0)
"""Where a caller sets no limits: some questions have no answer in useful time."""
CPSAT_BUFFERS = 400
"""Up to this many buffers CP-SAT is asked where the exact engine can do no more."""


@dataclass(frozen=True, slots=True)
class PackingResult:
    """A checked packing and what is proved about it.

    Parameters
    ----------
    offsets
        Shape `(k,)`, or None if nothing was found that fits.
    slab, slab_bound
        Bytes; no packing of these live ranges has less than the bound.
    slab_proof
        What stands behind the slab when it meets the bound, `claimed`, or None.
    stop_reason, capacity, runtime
        As in :class:`optsched.solver.result.Result`.
    left_out
        Heuristic packers that were not tried since there are many buffers, and why not.
    """

    offsets: IntArray | None
    slab: int | None
    slab_bound: int
    slab_proof: Proof | None
    stop_reason: StopReason
    capacity: int | None = None
    runtime: float = 0.0
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def status(self) -> Status:
        """Optimal only if proved; infeasible only if the bound exceeds the capacity."""
        if self.capacity is not None and self.slab_bound > self.capacity:
            return Status.INFEASIBLE
        if self.slab is None or (self.capacity is not None and self.slab > self.capacity):
            return Status.UNKNOWN
        return Status.OPTIMAL if self.slab == self.slab_bound else Status.FEASIBLE


def pack(
    problem: PackingProblem,
    *,
    capacity: int | None = None,
    reserved: Sequence[Region] = (),
    limits: Limits | None = None,
    on_event: OnEvent | None = None,
) -> PackingResult:
    """Find offsets of least slab, or ones that fit a capacity.

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
    search = _Search(problem, capacity, limits or DEFAULT_LIMITS, on_event)
    try:
        for stage in (
            search.run_heuristics,
            search.run_core,
            search.run_engine,
            search.run_hill_climb,
            search.run_cpsat,
        ):
            if not search.done():
                with held_interrupts():
                    stage()
    except KeyboardInterrupt:
        search.interrupted = True
    result = search.result()
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


class _Search:
    def __init__(
        self,
        problem: PackingProblem,
        capacity: int | None,
        limits: Limits,
        on_event: OnEvent | None,
    ) -> None:
        self.problem, self.capacity, self.limits = problem, capacity, limits
        self.on_event = on_event
        self.started = time.perf_counter()
        self.bound = packing_bound(problem)
        self.proof = Proof.PACKING
        self.offsets: IntArray | None = None
        self.slab = 0
        self.claimed = 0
        self.interrupted = False
        self.stop_reason = StopReason.EXHAUSTED

    def done(self) -> bool:
        """Whether the slab is proved least, or the capacity decided."""
        if self.capacity is not None and self.bound > self.capacity:
            return True
        if self.offsets is None:
            return False
        return self.slab <= max(self.bound, self.capacity or 0)

    def offer(self, offsets: IntArray, source: str) -> None:
        """Keep a packing if it is better; every one that is kept is checked."""
        slab = self.problem.slab_size(offsets)
        if self.offsets is None or slab < self.slab:
            check_packing(self.problem, offsets.tolist(), slab=slab)
            self.offsets, self.slab = offsets, slab
            self.report(source)

    def report(self, source: str) -> None:
        """Tell the caller about the best packing and bound."""
        if self.on_event is not None:
            value = None if self.offsets is None else self.slab
            elapsed = time.perf_counter() - self.started
            self.on_event(Event(elapsed, value, self.bound, source))

    def run_heuristics(self) -> None:
        """Try the heuristic packers, the best one first; that one whatever the time."""
        for name in packing_turn(len(self.problem)):
            late = self.offsets is not None and self.limits_left().seconds == 0
            if self.done() or late:
                return
            if name != "hill_climb":
                self.offer(OWN_PACKINGS[name](self.problem), name)

    def run_core(self) -> None:
        """Pack the large ones of many buffers exactly, and the others around them."""
        enough = max(self.bound, self.capacity or 0)
        for name, offsets in core_packings(self.problem, enough, self.limits_left):
            self.offer(offsets, name)
            if self.done():
                return

    def run_hill_climb(self) -> None:
        """Try the one packer that is slower than a search that succeeds."""
        if "hill_climb" not in packing_turn(len(self.problem)) or self.limits_left().seconds == 0:
            return
        self.offer(OWN_PACKINGS["hill_climb"](self.problem), "hill_climb")

    def run_engine(self) -> None:
        """Search all packings."""
        from optsched.packing import solve_packing

        outcome = solve_packing(
            self.problem,
            limits=self.limits_left(),
            capacity=self.capacity,
            warm_start=self.offsets,
            on_event=self.relay,
        )
        if outcome.bound > self.bound:
            self.bound, self.proof = outcome.bound, outcome.proof or Proof.PACKING_SEARCH
        if outcome.offsets is not None:
            self.offer(outcome.offsets, "packing search")
        self.stop_reason = outcome.stop_reason
        if outcome.stop_reason is StopReason.INTERRUPTED:
            raise KeyboardInterrupt

    def run_cpsat(self) -> None:
        """Ask CP-SAT, whose bound is a claim, where the engine ended early on a small problem."""
        out_of_time = self.limits.seconds is not None and self.limits_left().seconds == 0
        if out_of_time or len(self.problem) > CPSAT_BUFFERS:
            return
        from optsched.joint.cpsat import solve_packing

        outcome = solve_packing(
            self.problem,
            capacity=self.capacity,
            limits=self.limits_left(),
            warm_start=None if self.offsets is None else self.offsets.tolist(),
            slab_bound=self.bound,
            on_event=self.relay,
        )
        if outcome.offsets is not None:
            self.offer(np.array(outcome.offsets, np.int64), "cpsat")
        self.claimed = outcome.bound
        if outcome.stop_reason is StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        if outcome.stop_reason is StopReason.TIME_LIMIT:
            self.stop_reason = StopReason.TIME_LIMIT

    def relay(self, event: Event) -> None:
        """Pass an engine's progress on, on our own clock and with our best packing."""
        if self.on_event is not None:
            value = event.incumbent
            if self.offsets is not None:
                value = self.slab if value is None else min(value, self.slab)
            elapsed = time.perf_counter() - self.started
            self.on_event(Event(elapsed, value, max(self.bound, event.bound), event.source))

    def limits_left(self, share: float = 1.0) -> Limits:
        """The limits of a stage that starts now, or of one that may take a share of them."""
        if self.limits.seconds is None:
            return self.limits
        left = self.limits.seconds - (time.perf_counter() - self.started)
        return replace(self.limits, seconds=share * max(0.0, left))

    def result(self) -> PackingResult:
        """Put together what is known."""
        proof = None
        if self.offsets is not None and self.slab <= self.bound:
            proof = self.proof
        elif self.offsets is not None and self.slab <= self.claimed:
            proof = Proof.CLAIMED
        return PackingResult(
            offsets=self.offsets,
            slab=None if self.offsets is None else self.slab,
            slab_bound=self.bound,
            slab_proof=proof,
            stop_reason=self._reason(),
            capacity=self.capacity,
            runtime=time.perf_counter() - self.started,
            left_out={} if self.done() else packings_left_out(len(self.problem)),
        )

    def _reason(self) -> StopReason:
        if self.done():
            return StopReason.PROVED if self.capacity is None else StopReason.DECIDED
        return StopReason.INTERRUPTED if self.interrupted else self.stop_reason
