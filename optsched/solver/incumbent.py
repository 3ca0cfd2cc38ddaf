"""What `solve` knows of a graph: the best plan and orders, bounds with their proofs, the trace."""

from __future__ import annotations

import logging
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

import numpy as np

from heuristics.portfolio import candidate_offsets
from optsched.check.plan import check_order, check_plan
from optsched.errors import PlanError, UsageError
from optsched.formats.native_plan import plan_document, read_plan_document
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.inplace_choice import Pairs, pair_choices
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan, placed_plan
from optsched.model.pools import (
    apart_bytes,
    pinned_bytes,
    pins_clash,
    pool_graph,
    pool_rows,
    pools_of,
    sum_of_slabs,
)
from optsched.model.question import Question, digest_of
from optsched.model.steps import Order
from optsched.ordering.progress import NOTHING_BEHIND
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import take_interrupt
from optsched.runtime.limits import Limits, Objective, OnEvent, Proof, StopReason
from optsched.solver.driver import Feature, Incumbent
from optsched.solver.effort import EFFORT, DriverEffort
from optsched.solver.result import Result
from optsched.solver.search_progress import MOST_DIGESTS, SearchProgress

_LOG = logging.getLogger(__name__)


def written_plan(graph: Graph, plan: Plan) -> Plan:
    """Return a plan as it is read back from the file that is written of it."""
    return read_plan_document(graph, plan_document(graph, plan))[0]


class Candidate(NamedTuple):
    """An order; `rank` is what it is preferred by, its peak or the sum of its pools' peaks."""

    rank: int
    peak: int
    order: IntArray


def packing_key(order: Order, taken: Pairs) -> bytes:
    """Return a digest of an order and its in-place pairs: what is packed."""
    rows = [np.asarray(row, np.int64).tobytes() for row in (order, *taken)]
    return blake2b(b"".join(rows), digest_size=16).digest()


class PlanIncumbent(Incumbent):
    """The best plan, orders and bounds of a graph so far; plans are to stay near a baseline."""

    def __init__(
        self,
        question: Question,
        limits: Limits | Clock,
        on_event: OnEvent | None = None,
        effort: DriverEffort = EFFORT,
    ) -> None:
        super().__init__(limits, question.capacity, on_event)
        graph, objective, baseline = question.planned, question.objective, question.near
        self.question, self.graph, self.objective = question, graph, objective
        self.effort = effort
        self.size = len(graph.ops)
        pools = pools_of(graph)
        self.pool_graphs = [pool_graph(graph, pool) for pool in pools] if len(pools) > 1 else []
        self.features = (
            (Feature.INPLACE if graph.in_place else Feature.NONE)
            | (Feature.POOLS if self.pool_graphs else Feature.NONE)
            | (Feature.PEAK if objective is Objective.PEAK else Feature.NONE)
        )
        self.baseline, self.moved, self.moved_bound = baseline, 0, 0
        self.fewest = baseline is not None and baseline.fewest_moves
        self.counts_moves = False
        if baseline is not None and baseline.max_moved is not None:
            self.features |= Feature.MOVES
        self.plan: Plan | None = None
        self.peak = self.slab = 0
        self.candidates: list[Candidate] = []
        self.peak_bound, self.peak_proof = 0, Proof.BOUND
        self.pool_peaks = 0
        # Whatever the order, a pinned buffer ends where it ends, and pairs stay apart.
        self.refuted_slab = max(pinned_bytes(graph), apart_bytes(graph)) - 1
        self.claimed = {Objective.PEAK: 0, Objective.SLAB: 0}
        self.whole = self.clock.left()
        self.cut_short = False
        self.is_only_order = False
        self.searches = 0
        self.continued = False
        self.rounds = NOTHING_BEHIND
        # Dictionaries keep the sequence: of too many the latest are left to a later search.
        self.packed: dict[bytes, None] = {}
        self.seen_orders: dict[bytes, None] = {}
        self.order_search: dict[str, int] = {}
        self.peaks: dict[bytes, int] = {}

    # The objective, as the driver sees it.

    def value(self) -> int | None:
        """Return the objective of the best plan."""
        if self.plan is None:
            return None
        return self.slab if self.objective is Objective.SLAB else self.peak

    def bound(self) -> int:
        """Return the proved lower bound on the objective."""
        return self.slab_bound if self.objective is Objective.SLAB else self.peak_bound

    def done(self) -> bool:
        """Whether the question is answered; that of moves only once it is asked."""
        if self.capacity is not None and self.slab_bound > self.capacity:
            return True
        if self.plan is None or (self.counts_moves and self.moved > self.moved_bound):
            return False
        if self.capacity is not None and self.slab <= self.capacity:
            return True
        return (self.value() or 0) <= self.bound()

    def order_done(self) -> bool:
        """Whether an order of minimum peak is known and proved."""
        return any(candidate.peak <= self.peak_bound for candidate in self.candidates)

    @property
    def slab_wanted(self) -> int:
        """The slab of the best plan, or the capacity if that is enough and moves are counted."""
        return max(self.slab, self.capacity or 0) if self.counts_moves else self.slab

    # What is known before.

    def start_from(self, plan: Plan) -> None:
        """Take up a plan that the caller has."""
        if plan.placed(self.graph) != self.graph:
            raise UsageError("the warm start has buffers in other pools than their own")
        if self.baseline is not None and not self.is_near(self.moved_by(plan.order)):
            most = self.baseline.max_moved
            raise UsageError(f"the warm start moves more than {most} ops of the baseline")
        self.offer(plan, "warm start")
        self.offer_order(plan.order, "warm start")

    def go_on_from(self, progress: SearchProgress) -> None:
        """Resume an earlier search of this graph, whose bounds are believed."""
        known = progress.graph == digest_of(self.graph)
        if not known or len(progress.rounds.blame) not in (0, self.size):
            raise UsageError(
                f"{self.graph.name}: the earlier search was of another graph, or in another "
                "memory model or under other order rules"
            )
        for order in progress.orders:
            check_order(self.graph, order)
            self.offer_order(order, "earlier search")
        if any(candidate.peak < progress.peak_bound for candidate in self.candidates):
            raise UsageError(f"{self.graph.name}: an order refutes the bound of an earlier search")
        self.raise_bound(progress.peak_bound, progress.peak_proof, "earlier search")
        self.refute_slab(progress.refuted_slab, "earlier search", progress.pool_peaks)
        if self.plan is not None and self.slab < self.slab_bound:
            raise UsageError(f"{self.graph.name}: a plan refutes the bound of an earlier search")
        self.rounds = progress.rounds
        self.continued = bool(self.candidates)
        if self.plan is not None:
            # Without the plan that came of them they are worth another look.
            self.packed = dict.fromkeys(progress.packed)
            self.seen_orders = dict.fromkeys(progress.seen)

    def progress(self) -> SearchProgress | None:
        """Return what a later search needs; None where nothing is left to find out."""
        if self.done() or self.capacity is not None or Feature.MOVES in self.features:
            # What is known of orders near a baseline is not so of all.
            return None
        return SearchProgress(
            self.peak_bound,
            self.peak_proof,
            self.refuted_slab,
            self.pool_peaks,
            tuple(
                tuple(order.tolist()) for _, order in self.best_orders(self.effort.packed_orders)
            ),
            self.rounds,
            tuple(self.packed)[-MOST_DIGESTS:],
            tuple(self.seen_orders)[-MOST_DIGESTS:],
            digest_of(self.graph),
        )

    # Plans and orders.

    def offer(self, plan: Plan, source: str) -> None:
        """Check a plan and keep it if it is better."""
        begun = self.clock.now()
        checked = check_plan(self.graph, plan)
        self.clock.spend(len(self.graph.buffers))
        self.reserve = self.effort.checks_a_plan * (self.clock.now() - begun)
        moved = self.moved_by(plan.order)
        if self.is_better(checked.peak, checked.slab, moved):
            self.plan, self.peak, self.slab = plan, checked.peak, checked.slab
            self.moved = moved
            self.report(source)

    def moved_by(self, order: Order) -> int:
        """Return how many ops of the baseline an order moves; 0 without one."""
        if self.baseline is None:
            return 0
        return self.baseline.moved(np.asarray(order).tolist())

    def is_near(self, moved: int) -> bool:
        """Whether the baseline allows an order that moves so many ops."""
        most = None if self.baseline is None else self.baseline.max_moved
        return most is None or moved <= most

    def is_better(self, peak: int, slab: int, moved: int) -> bool:
        """Whether a plan with these numbers is wanted, and better than the best so far."""
        if not self.is_near(moved):
            return False
        best = self._key(self.peak, self.slab, self.moved)
        return self.plan is None or self._key(peak, slab, moved) < best

    def offer_order(self, order: Order, source: str) -> None:
        """Remember an order that may be had; pack it at once if there is no plan yet."""
        found = np.asarray(order, np.int64)
        if not self.is_near(self.moved_by(found)):
            return
        peak = rank = self.peak_of(found)
        if self.pool_graphs and self.objective is Objective.SLAB:
            rank = sum(peak_memory(graph, found) for graph in self.pool_graphs)
        self.candidates.append(Candidate(rank, peak, found))
        if self.plan is None:
            self.pack(found, source, packings=1)

    def pack(self, order: IntArray, source: str, packings: int | None = None) -> None:
        """Offer the plans that the heuristic packers make of an order, until one is proved."""
        peak, moved = self.peak_of(order), self.moved_by(order)
        for taken in islice(pair_choices(self.graph, order, self.peak_bound, tries=0), packings):
            problem, ids = packing_problem(self.graph, order, taken)
            if pins_clash(self.graph, problem, ids):
                continue
            rows = pool_rows(self.graph, ids)
            begun = self.clock.now()
            for name, offsets in islice(candidate_offsets(problem, rows), packings):
                self.clock.spend(len(problem))
                # Making and checking a plan takes longer than most packings.
                if self.is_better(peak, sum_of_slabs(problem, rows, offsets), moved):
                    try:
                        plan = placed_plan(self.graph, order, ids, offsets, taken)
                        self.offer(plan, f"{source} + {name}")
                    except PlanError as error:
                        _LOG.warning("packing %s is wrong on %s: %s", name, self.graph.name, error)
                begun, took = self.clock.now(), self.clock.now() - begun
                left = self.clock.left()
                take_interrupt()
                if self.done() or (left is not None and left < self.effort.slower * took):
                    return

    def peak_of(self, order: IntArray) -> int:
        """Return the peak memory of an order, which is measured once.

        Orders of many ops are megabytes, so that a digest stands for each.
        """
        key = blake2b(order.tobytes(), digest_size=16).digest()
        if key not in self.peaks:
            self.peaks[key] = peak_memory(self.graph, order)
        return self.peaks[key]

    def best_orders(self, count: int) -> list[tuple[int, IntArray]]:
        """Peak and order of the best few candidates, each order once."""
        found: dict[bytes, tuple[int, IntArray]] = {}
        for _, peak, order in sorted(self.candidates, key=lambda candidate: candidate.rank):
            found.setdefault(order.tobytes(), (peak, order))
            if len(found) == count:
                break
        return list(found.values())

    # Bounds.

    @property
    def slab_bound(self) -> int:
        """Bytes that every slab has: those of every peak, or one more than all orders refuse."""
        return max(self.peak_bound, self.pool_peaks, self.refuted_slab + 1)

    def raise_bound(self, value: int, proof: Proof, source: str) -> None:
        """Keep a proved lower bound on the peak of every order."""
        if value > self.peak_bound:
            self.peak_bound, self.peak_proof = value, proof
            self.report(source)

    def raise_moved_bound(self, value: int) -> None:
        """Keep that no plan as good as the best one moves fewer ops."""
        self.moved_bound = max(self.moved_bound, value)

    def refute_slab(self, refuted: int, source: str, pool_peaks: int = 0) -> None:
        """Keep that no plan has a slab of this many bytes, or less than the peaks of its pools."""
        before = self.slab_bound
        self.refuted_slab = max(self.refuted_slab, refuted)
        self.pool_peaks = max(self.pool_peaks, pool_peaks)
        if self.slab_bound > before:
            self.report(source)

    def claim(self, objective: Objective, bound: int) -> None:
        """Keep a bound that only a solver vouches for."""
        self.claimed[objective] = max(self.claimed[objective], bound)

    # What callers see.

    def relay(self, source: str, *, orders: bool = False) -> OnEvent:
        """Return an event handler for an engine: its bound, with our best value.

        Of a search of `orders` its best peak too, where that is what is asked for.
        """
        # Where bytes are pinned, an order may have no packing at all.
        anything = not pinned_bytes(self.graph) and Feature.MOVES not in self.features
        wanted = orders and self.objective is Objective.PEAK and anything
        return lambda event: self.report(source, event.bound, event.incumbent if wanted else None)

    def result(self) -> Result:
        """Put together what is known; the plan is checked once more as it is written to a file."""
        plan = self.plan
        if plan is not None:
            written = written_plan(self.graph, plan)
            if written != plan:
                check_plan(self.graph, written, peak=self.peak, slab=self.slab)
        claimed = self.claimed[self.objective]
        return Result(
            plan=plan,
            peak=None if plan is None else self.peak,
            slab=None if plan is None else self.slab,
            peak_bound=self.peak_bound,
            slab_bound=self.slab_bound,
            peak_proof=None if plan is None else self._peak_proof(),
            slab_proof=None if plan is None else self._slab_proof(),
            stop_reason=self.stop_reason(),
            question=self.question,
            claimed_bound=claimed if claimed > self.bound() else None,
            runtime=self.clock.seconds(),
            compile_seconds=self.compile_seconds(),
            trace=tuple(self.trace),
            order_search=self.order_search,
            progress=self.progress(),
            moved=None if plan is None or self.baseline is None else self.moved,
            moved_bound=self.moved_bound if self.counts_moves else 0,
        )

    def stop_reason(self) -> StopReason:
        """Return why it ended; a search that ran out of its share has not exhausted anything."""
        reason = super().stop_reason()
        if reason is StopReason.EXHAUSTED and self.cut_short:
            return self.clock.limit_reason()
        return reason

    def _peak_proof(self) -> Proof | None:
        if self.peak <= self.peak_bound:
            return self.peak_proof
        return Proof.CLAIMED if self.peak <= self.claimed[Objective.PEAK] else None

    def _slab_proof(self) -> Proof | None:
        if self.slab <= max(self.peak_bound, self.pool_peaks):
            return Proof.JOINT
        if self.slab <= self.slab_bound:
            return Proof.JOINT_SEARCH
        return Proof.CLAIMED if self.slab <= self.claimed[Objective.SLAB] else None

    def _key(self, peak: int, slab: int, moved: int) -> tuple[int, int, int]:
        moves = moved if self.fewest else 0
        if self.objective is Objective.SLAB:
            # Where fewest moves are wanted, whatever fits is as good as any other.
            enough = max(slab, self.capacity or 0) if self.fewest else slab
            return enough, moves, peak
        return peak, moves, slab
