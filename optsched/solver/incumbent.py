"""One run of the pipeline: the best plan, orders and bounds so far, and how they were found."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from heuristics.portfolio import candidate_offsets
from optsched.check.pins import pins_clash
from optsched.check.plan import check_plan
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.inplace_choice import pair_choices
from optsched.model.liveness import Order, peak_memory
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan, make_plan
from optsched.model.pools import pinned_bytes, pool_graph, pool_rows, pools_of, sum_of_slabs
from optsched.runtime.limits import Event, Limits, Objective, OnEvent, Proof, StopReason
from optsched.solver.result import Result

SLOWER = 4
"""A packing, and the check of its plan, may take so many times as long as the one before it."""

CHECKS_A_PLAN = 2.0
"""To pack an order and check its plan takes so many times as long as the check; what is compiled
meanwhile counts for nothing."""


class Candidate(NamedTuple):
    """An order; `rank` is what it is preferred by, its peak or the sum of its pools' peaks."""

    rank: int
    peak: int
    order: IntArray


@dataclass
class Run:
    """The best plan and bounds so far."""

    graph: Graph
    objective: Objective
    capacity: int | None
    limits: Limits
    on_event: OnEvent
    started: float = field(default_factory=time.perf_counter)
    plan: Plan | None = None
    peak: int = 0
    slab: int = 0
    candidates: list[Candidate] = field(default_factory=list)
    bound: int = 0
    proof: Proof = Proof.BOUND
    pool_graphs: tuple[Graph, ...] = ()
    pool_peaks: int = 0
    refuted_slab: int = 0
    packed: set[bytes] = field(default_factory=set)
    claimed_peak: int = 0
    claimed_slab: int = 0
    trace: list[Event] = field(default_factory=list)
    order_search: dict[str, int] = field(default_factory=dict)
    order_peak: int | None = None
    interrupted: bool = False
    exhausted: bool = False
    plan_takes: float = 0.0

    def __post_init__(self) -> None:
        pools = pools_of(self.graph)
        if len(pools) > 1:
            self.pool_graphs = tuple(pool_graph(self.graph, pool) for pool in pools)
        # Whatever the order, a pinned buffer ends where it ends.
        self.refuted_slab = max(0, pinned_bytes(self.graph) - 1)

    def offer(self, plan: Plan, source: str) -> None:
        """Check a plan and keep it if it is better."""
        begun = time.perf_counter()
        checked = check_plan(self.graph, plan)
        self.plan_takes = CHECKS_A_PLAN * (time.perf_counter() - begun)
        if not self.is_better(checked.peak, checked.slab):
            return
        self.plan, self.peak, self.slab = plan, checked.peak, checked.slab
        self.report(source)

    def is_better(self, peak: int, slab: int) -> bool:
        """Whether a plan with these numbers is better than the best so far."""
        return self.plan is None or self._key(peak, slab) < self._key(self.peak, self.slab)

    def offer_order(self, order: Order, source: str) -> None:
        """Remember an order; pack it at once if there is no plan yet."""
        found = np.asarray(order, np.int64)
        peak = rank = peak_memory(self.graph, found)
        if self.pool_graphs and self.objective is Objective.SLAB:
            rank = sum(peak_memory(graph, found) for graph in self.pool_graphs)
        self.candidates.append(Candidate(rank, peak, found))
        if self.plan is None:
            self.pack(found, source, packings=1)

    def pack(self, order: IntArray, source: str, packings: int | None = None) -> None:
        """Offer the plans that the heuristic packers make of an order, until the slab is least."""
        peak = peak_memory(self.graph, order)
        for taken in islice(pair_choices(self.graph, order, self.bound, tries=0), packings):
            problem, ids = packing_problem(self.graph, order, taken)
            if pins_clash(self.graph, problem, ids):
                continue
            rows = pool_rows(self.graph, ids)
            begun = time.perf_counter()
            for name, offsets in islice(candidate_offsets(problem, rows), packings):
                # Making and checking a plan takes longer than most packings.
                if self.is_better(peak, sum_of_slabs(problem, rows, offsets)):
                    self.offer(make_plan(self.graph, order, offsets, taken), f"{source} + {name}")
                begun, took = time.perf_counter(), time.perf_counter() - begun
                left = self.seconds_left()
                if self.done() or (left is not None and left < SLOWER * took):
                    return

    def best_orders(self, count: int) -> list[tuple[int, IntArray]]:
        """Peak and order of the best few candidates, each order once."""
        found: dict[bytes, tuple[int, IntArray]] = {}
        for _, peak, order in sorted(self.candidates, key=lambda candidate: candidate.rank):
            found.setdefault(order.tobytes(), (peak, order))
            if len(found) == count:
                break
        return list(found.values())

    def raise_bound(self, value: int, proof: Proof, source: str) -> None:
        """Keep a proved lower bound on the peak of every order."""
        if value > self.bound:
            self.bound, self.proof = value, proof
            self.report(source)

    @property
    def slab_bound(self) -> int:
        """Bytes that every slab has: those of every peak, or one more than all orders refuse."""
        refuted = self.refuted_slab + 1 if self.refuted_slab else 0
        return max(self.bound, self.pool_peaks, refuted)

    def refute_slab(self, refuted: int, source: str) -> None:
        """Keep that no order packs into so many bytes."""
        if refuted >= self.slab_bound:
            self.refuted_slab = refuted
            self.report(source)

    def raise_pool_bounds(self, peaks: int, slabs: int, source: str) -> None:
        """Keep what the pools need by themselves: least peaks and least slabs, each summed."""
        before = self.slab_bound
        self.pool_peaks = max(self.pool_peaks, peaks)
        self.refuted_slab = max(self.refuted_slab, slabs - 1)
        if self.slab_bound > before:
            self.report(source)

    def claim(self, objective: Objective, bound: int) -> None:
        """Keep a bound that only a solver vouches for."""
        if objective is Objective.PEAK:
            self.claimed_peak = max(self.claimed_peak, bound)
        else:
            self.claimed_slab = max(self.claimed_slab, bound)

    def seconds_left(self) -> float | None:
        """Time that may still be spent; None without a limit."""
        if self.limits.seconds is None:
            return None
        return max(0.0, self.limits.seconds - (time.perf_counter() - self.started))

    def share_spent(self, share: float) -> bool:
        """Whether this share of the whole time is over."""
        left, seconds = self.seconds_left(), self.limits.seconds
        return left is not None and seconds is not None and left <= seconds * (1 - share)

    def limits_left(self, share: float = 1.0) -> Limits:
        """The limits of a stage that may use this share of the time left.

        What it finds is still to become a plan, which of a large graph takes seconds.
        """
        left = self.seconds_left()
        seconds = None if left is None else max(0.0, min(left * share, left - self.plan_takes))
        return replace(self.limits, seconds=seconds)

    def has_time(self) -> bool:
        """Whether there is time for one more plan, if its check takes as long as the last."""
        left = self.seconds_left()
        return left is None or left > self.plan_takes

    def deadline(self, share: float) -> float | None:
        """The `time.monotonic()` at which this share of the time left is over."""
        left = self.seconds_left()
        return None if left is None else time.monotonic() + left * share

    def asks_for_slab(self) -> bool:
        """Whether offsets decide the question; what writes in place is packed by others."""
        wanted = self.objective is Objective.SLAB or self.capacity is not None
        return wanted and not self.graph.in_place

    def order_done(self) -> bool:
        """Whether an order of least peak is known and proved."""
        return any(candidate.peak <= self.bound for candidate in self.candidates)

    def done(self) -> bool:
        """Whether the question is answered."""
        if self.capacity is not None and self.slab_bound > self.capacity:
            return True
        if self.plan is None:
            return False
        if self.capacity is not None and self.slab <= self.capacity:
            return True
        if self.objective is Objective.PEAK:
            return self.peak <= self.bound
        return self.slab <= self.slab_bound

    def relay(self, source: str) -> OnEvent:
        """An event handler for an engine: its bound, on this run's clock, with our best value."""

        def forward(event: Event) -> None:
            self.report(source, event.bound)

        return forward

    def relay_orders(self, source: str) -> OnEvent:
        """The same for a search of orders; its best peak too, where that is what is asked for."""
        # Where bytes are pinned, an order may have no packing at all.
        wanted = self.objective is Objective.PEAK and not pinned_bytes(self.graph)

        def forward(event: Event) -> None:
            self.order_peak = event.incumbent if wanted else None
            self.report(source, event.bound)

        return forward

    def stop_if(self, reason: StopReason) -> None:
        """End the run where an engine was interrupted and has handed over what it found."""
        if reason is StopReason.INTERRUPTED:
            raise KeyboardInterrupt

    def result(self) -> Result:
        """Put together what is known."""
        has_plan = self.plan is not None
        peak_proof = slab_proof = None
        if has_plan and self.peak <= self.bound:
            peak_proof = self.proof
        elif has_plan and self.peak <= self.claimed_peak:
            peak_proof = Proof.CLAIMED
        if has_plan and self.slab <= max(self.bound, self.pool_peaks):
            slab_proof = Proof.JOINT
        elif has_plan and self.slab <= self.slab_bound:
            slab_proof = Proof.JOINT_SEARCH
        elif has_plan and self.slab <= self.claimed_slab:
            slab_proof = Proof.CLAIMED
        claimed = self.claimed_slab if self.objective is Objective.SLAB else self.claimed_peak
        return Result(
            plan=self.plan,
            peak=self.peak if has_plan else None,
            slab=self.slab if has_plan else None,
            peak_bound=self.bound,
            slab_bound=self.slab_bound,
            peak_proof=peak_proof,
            slab_proof=slab_proof,
            objective=self.objective,
            stop_reason=self._stop_reason(),
            capacity=self.capacity,
            claimed_bound=claimed if claimed > self._proved() else None,
            runtime=time.perf_counter() - self.started,
            trace=tuple(self.trace),
            order_search=self.order_search,
            graph=self.graph,
        )

    def _stop_reason(self) -> StopReason:
        if self.capacity is not None and self.done():
            return StopReason.DECIDED
        if self.done():
            return StopReason.PROVED
        if self.interrupted:
            return StopReason.INTERRUPTED
        if not self.has_time():
            return StopReason.TIME_LIMIT
        return StopReason.EXHAUSTED

    def _key(self, peak: int, slab: int) -> tuple[int, int]:
        return (slab, peak) if self.objective is Objective.SLAB else (peak, slab)

    def _proved(self) -> int:
        return self.slab_bound if self.objective is Objective.SLAB else self.bound

    def report(self, source: str, bound: int = 0) -> None:
        """Tell the caller what is known now, or an engine's bound if that is more."""
        value = None
        if self.plan is not None:
            value = self.slab if self.objective is Objective.SLAB else self.peak
            value = value if self.order_peak is None else min(value, self.order_peak)
        seconds = time.perf_counter() - self.started
        event = Event(seconds, value, max(self._proved(), bound), source)
        self.trace.append(event)
        self.on_event(event)
