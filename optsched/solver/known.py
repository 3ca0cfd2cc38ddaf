"""State of a search for a question: the best plan and orders, bounds with proofs, the trace.

:meth:`Known.merge` is the only place where plans, orders and bounds are accepted. The checker sees
every plan there, and orders that the question does not allow are dropped.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optsched.check.plan import check_plan
from optsched.errors import PlanError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.order_rules import moved_ops
from optsched.model.plan import Plan
from optsched.model.pools import apart_bytes, pinned_bytes
from optsched.model.question import Question
from optsched.model.steps import Order
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits, Objective, OnEvent, Proof, StopReason
from optsched.solver.driver import Knowledge
from optsched.solver.effort import PACKING
from optsched.solver.features import Feature, features_of
from optsched.solver.finding import MOVED, SPILLED, Bound, Finding
from optsched.solver.order_list import OrderList
from optsched.solver.result import Result
from optsched.solver.resume import Resume

if TYPE_CHECKING:
    from optsched.solver.packing_result import PackingResult, Shortage
    from optsched.solver.spill.bounds import OwnPools

_LOG = logging.getLogger(__name__)


class Measured(NamedTuple):
    """Peak and slab of a plan in bytes, and the number of ops of the baseline that it moves."""

    peak: int
    slab: int
    moved: int


class Known(Knowledge):
    """State of a search for plans of a graph.

    `limits`: limits, which count from now, or a running clock. `on_event`: called with every better
    plan and bound. `own_pools`: pools of the question, into which buffers may spill; None without
    them.
    """

    def __init__(
        self,
        question: Question,
        limits: Limits | Clock,
        on_event: OnEvent | None = None,
        own_pools: OwnPools | None = None,
    ) -> None:
        enough = question.capacity if own_pools is None else own_pools.capacity()
        super().__init__(limits, enough, on_event)
        self.question, self.features = question, features_of(question)
        self.own_pools = own_pools
        # Packing in pools of the best plan, or of the best order if none has a plan.
        self.packing: PackingResult | None = None
        self.shortage: Shortage | None = None
        self.plan: Plan | None = None
        self.measured = Measured(0, 0, 0)
        # For the peak, pools do not matter: all bytes count together.
        ranked_by_pool = question.objective is Objective.SLAB
        self.orders = OrderList(self.graph, question.pool_graphs if ranked_by_pool else ())
        # In every order a pinned buffer ends where it ends, and pairs stay apart.
        least = max(pinned_bytes(self.graph), apart_bytes(self.graph))
        self.bounds: dict[str, Bound] = {
            Objective.PEAK: Bound(Objective.PEAK, 0, Proof.BOUND),
            Objective.SLAB: Bound(Objective.SLAB, least, Proof.JOINT_SEARCH),
            MOVED: Bound(MOVED, 0, Proof.SEARCH),
            SPILLED: Bound(SPILLED, 0, Proof.BOUND),
        }
        # True once plans that are as good are chosen by moves of the graph's own order.
        self.breaks_ties = False
        self.claimed: dict[str, int] = {Objective.PEAK: 0, Objective.SLAB: 0}
        self.statistics: dict[str, int] = {}

    @property
    def graph(self) -> Graph:
        """The planned graph: order rules are control edges of it."""
        return self.question.planned

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of ops."""
        return len(self.graph.ops)

    # The objective.

    def value(self) -> int | None:
        """Return the objective of the best plan in bytes; None without a plan."""
        if self.plan is None:
            return None
        is_slab = self.question.objective is Objective.SLAB
        return self.measured.slab if is_slab else self.measured.peak

    def bound(self) -> int:
        """Return the proved lower bound on the objective in bytes."""
        return self.slab_bound if self.question.objective is Objective.SLAB else self.peak_bound

    @property
    def peak_bound(self) -> int:
        """The proved lower bound on the peak in bytes."""
        return self.bounds[Objective.PEAK].value

    @property
    def slab_bound(self) -> int:
        """The proved lower bound on the slab, which is at least the peak, in bytes."""
        # By slabs holds only if all buffers stay in their own pools, by live bytes always.
        if Feature.SPILL in self.features:
            return self.peak_bound
        return max(self.peak_bound, self.bounds[Objective.SLAB].value)

    @property
    def moved_bound(self) -> int:
        """Number of ops that every plan as good as the best one moves."""
        return self.bounds[MOVED].value

    @property
    def slab_wanted(self) -> int:
        """Slab of the best plan, or the capacity if that is enough and moves are minimized."""
        counts_moves = Feature.FEWEST in self.features
        return max(self.measured.slab, self.capacity or 0) if counts_moves else self.measured.slab

    def done(self) -> bool:
        """Return True if the question is answered."""
        # A bound above the capacity refutes it, with or without a plan.
        if self.capacity is not None and self.slab_bound > self.capacity:
            return True
        if self.plan is None:
            return False
        if Feature.SPILL in self.features and self.packing is not None:
            return self.packing.spilled_bytes <= self.bounds[SPILLED].value
        if Feature.FEWEST in self.features and self.measured.moved > self.moved_bound:
            return False
        fits = self.capacity is not None and self.measured.slab <= self.capacity
        # With a capacity any plan that fits answers the question, also far above the bound.
        return fits or (self.value() or 0) <= self.bound()

    def fits(self) -> bool:
        """Return True if the best plan keeps the capacities of the pools."""
        return self.plan is not None and (
            self.packing is not None or self.own_pools is None or self.own_pools.fits(self.plan)
        )

    def order_done(self) -> bool:
        """Return True if an order of minimum peak is known and proved."""
        # An order of minimum peak may lack a plan: packing is another matter.
        least = self.orders.least_peak()
        return least is not None and least <= self.peak_bound

    def best_orders(self, count: int) -> list[tuple[int, IntArray]]:
        """Return the peak and order of the best few orders."""
        return self.orders.best(count)

    def is_better(self, measured: Measured) -> bool:
        """Return True if a plan with these figures is better than the best so far."""
        key = self.question.key
        if self.plan is not None and self.breaks_ties and measured[:2] == self.measured[:2]:
            return measured.moved < self.measured.moved
        return self.plan is None or key(*measured) < key(*self.measured)

    def moved(self, order: Order) -> int:
        """Return the moved ops of the baseline, or of the graph's own order if these break ties."""
        if self.breaks_ties:
            return moved_ops(np.asarray(order).tolist(), range(self.size))
        return self.question.moved(order)

    def break_ties(self) -> None:
        """From now on, of plans that are as good one that moves fewer ops is better."""
        assert self.plan is not None
        self.breaks_ties = True
        self.measured = self.measured._replace(moved=self.moved(self.plan.order))

    # What stages find.

    def merge(self, finding: Finding[Plan]) -> None:
        """Check the plans of a finding, and keep all that is better than what is known.

        Raise `PlanError` if a plan breaks a rule of the graph, and no heuristic made it.
        """
        if finding.packing is not None:
            self._keep_packing(finding, finding.packing)
            return
        for plan in finding.plans:
            try:
                self._keep_plan(plan, finding.source)
            except PlanError as error:
                # A heuristic's invalid plan is dropped; an invalid plan of ours is an error that
                # must be seen.
                if not finding.trial:
                    raise
                name = self.graph.name
                _LOG.warning("packing %s is wrong on %s: %s", finding.source, name, error)
        for bound in finding.bounds:
            self._keep_bound(bound, finding.source)
        for order in finding.orders:
            if self.question.allows(order):
                self.orders.add(order)
        self.statistics |= finding.statistics

    def _keep_packing(self, finding: Finding[Plan], packing: PackingResult) -> None:
        """Keep a packing in pools that is better than the one before, and its plan if it has one.

        Plans in which every buffer lies in its own pool count as long as they keep the capacities.
        """
        if self.packing is not None and self.packing.rank <= packing.rank:
            return
        self.packing, self.plan = packing, next(iter(finding.plans), None)
        if self.plan is not None:
            assert self.own_pools is not None
            checked = check_plan(self.graph, self.plan, capacities=self.own_pools.capacities)
            moved = self.moved(self.plan.order)
            self.measured = Measured(checked.peak, checked.slab, moved)

    def _keep_plan(self, plan: Plan, source: str) -> None:
        begun = self.clock.now()
        checked = check_plan(self.graph, plan)
        self.clock.spend(len(self.graph.buffers))
        self.reserve = PACKING.checks_a_plan * (self.clock.now() - begun)
        measured = Measured(checked.peak, checked.slab, self.moved(plan.order))
        # An order that moves too many ops does not answer the question, however good its plan.
        if self.question.allows(plan.order) and self.is_better(measured):
            self.plan, self.measured = plan, measured
            self.report(source)

    def _keep_bound(self, bound: Bound, source: str) -> None:
        if bound.proof is Proof.CLAIMED:
            self._keep_claim(bound, source)
            return
        before = self.peak_bound, self.slab_bound
        # Equal bounds are replaced only if the proof says more.
        if bound.rank > self.bounds[bound.quantity].rank:
            self.bounds[bound.quantity] = bound
        if (self.peak_bound, self.slab_bound) != before:
            self.report(source)

    def _keep_claim(self, bound: Bound, source: str) -> None:
        """Keep a solver's claim, unless the best plan refutes it."""
        from optsched.joint.claims import refutation, report

        by_slab = bound.quantity == Objective.SLAB
        value = self.measured.slab if by_slab else self.measured.peak
        known = None if self.plan is None else value
        # A claim above a checked plan is refuted by it: the solver has made a mistake.
        if not report(refutation(source, bound.value, known, "a checked plan")):
            self.claimed[bound.quantity] = max(self.claimed[bound.quantity], bound.value)

    def relay(self, source: str, *, orders: bool = False) -> OnEvent:
        """Return an event handler for an engine, which reports its bound with our best value.

        With `orders` it reports the engine's best peak too, if the peak is minimized.
        """
        # With pinned buffers an order may have no packing at all.
        packs = not pinned_bytes(self.graph) and Feature.MOVES not in self.features
        wanted = orders and self.question.objective is Objective.PEAK and packs
        return lambda event: self.report(source, event.bound, event.incumbent if wanted else None)

    # What the caller gets.

    def result(self, resume: Resume, cut_short: bool) -> Result:
        """Return the result; in pools the checker sees its plan once more, with their capacities.

        `resume`: state from which a later search could continue. `cut_short`: True if an engine was
        stopped by its share of the time.
        """
        if self.plan is not None and self.own_pools is not None:
            given, rooms = self.own_pools.given, self.own_pools.capacities
            peak, slab, _ = self.measured
            check_plan(given, self.plan, peak=peak, slab=slab, capacities=rooms)
        claimed, spills = self.claimed[self.question.objective], Feature.SPILL in self.features
        return Result(
            plan=self.plan,
            peak=None if self.plan is None else self.measured.peak,
            slab=None if self.plan is None else self.measured.slab,
            peak_bound=self.peak_bound,
            slab_bound=self.slab_bound,
            peak_proof=self._peak_proof(),
            slab_proof=self._slab_proof(),
            stop_reason=self._stop_reason(cut_short),
            question=self.question,
            claimed_bound=claimed if claimed > self.bound() and not spills else None,
            runtime=self.clock.seconds(),
            compile_seconds=self.clock.compile_seconds(),
            trace=tuple(self.trace),
            order_search=self.statistics,
            state=self._left_for_later(resume),
            moved_bound=self.moved_bound,
            spilled_bytes=0 if self.packing is None else self.packing.spilled_bytes,
            spilled_bound=self.bounds[SPILLED].value,
            packing=self.packing,
            shortage=self.shortage,
        )

    def _left_for_later(self, resume: Resume) -> Resume | None:
        """Return what a later search can start from; None if it would not be of use."""
        # Bounds about orders near a baseline do not hold for all orders.
        if self.done() or self.capacity is not None or Feature.MOVES in self.features:
            return None
        orders = [order.tolist() for _, order in self.best_orders(PACKING.packed_orders)]
        return resume.left(self.bounds, orders)

    def _stop_reason(self, cut_short: bool) -> StopReason:
        """Return the stop reason; nothing is exhausted if an engine ran out of its share."""
        reason = self.stop_reason()
        if self.own_pools is not None and reason is not StopReason.INTERRUPTED:
            # Without a packing no order has room. A plan within all capacities decides the
            # question, but proves no minimum.
            limited = Feature.SPILL not in self.features and reason is not StopReason.PROVED
            if self.packing is None or (limited and self.packing.is_limited):
                return StopReason.DECIDED
        if reason is StopReason.EXHAUSTED and cut_short:
            return self.clock.limit_reason()
        return reason

    def _peak_proof(self) -> Proof | None:
        if self.plan is None:
            return None
        if self.measured.peak <= self.peak_bound:
            # A proof counts more than a claim, also where both name the same bytes.
            return self.bounds[Objective.PEAK].proof
        return Proof.CLAIMED if self.measured.peak <= self.claimed[Objective.PEAK] else None

    def _slab_proof(self) -> Proof | None:
        slab, own = self.measured.slab, self.bounds[Objective.SLAB]
        if self.plan is None:
            return None
        # A slab at the bound on the peak is proved by orders alone.
        if slab <= self.peak_bound:
            return Proof.JOINT
        if Feature.SPILL in self.features:
            return None
        if slab <= own.value:
            return own.proof
        return Proof.CLAIMED if slab <= self.claimed[Objective.SLAB] else None
