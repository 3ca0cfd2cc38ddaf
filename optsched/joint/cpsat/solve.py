"""Order and offsets of a graph from one run of CP-SAT.

Results of CP-SAT are claims, not proofs. Values are therefore recomputed in integers, and bounds
are kept separate from proved ones.

>>> from optsched.model.builder import GraphBuilder
>>> build = GraphBuilder()
>>> build.op("a", writes={"x": 4})
>>> solve_joint(build.build()).value
4
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from heuristics.orderings.program import program
from heuristics.portfolio import candidate_orders
from optsched.check.plan import check_plan
from optsched.errors import PlanError
from optsched.joint.claims import refutation, report
from optsched.joint.cpsat.benders import can_decompose, decompose
from optsched.joint.cpsat.joint_model import JointModel
from optsched.joint.cpsat.order import OrderClaim, has_time_to_build, solve_order_cpsat
from optsched.joint.cpsat.point import ModelPoint
from optsched.joint.cpsat.solver import EFFORT, CpSatEffort, CpSatRun, SolverThread
from optsched.joint.instance import graph_instance
from optsched.joint.other_orders import OtherOrdersEffort, other_plans
from optsched.joint.packed import best_plan
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.plan import Plan
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import held_interrupts
from optsched.runtime.limits import Event, Limits, Objective, OnEvent, StopReason

ORDER_SHARE = 0.6
"""Share of the time for the order of minimum peak."""
PACKING_SHARE = 0.2
"""Share of the remaining time for packing that order."""
HEURISTICS_SHARE = 0.1
"""Share of the time after which no further heuristic order is tried, without a warm start."""
OTHERS = OtherOrdersEffort(tries=20)
"""Effort for other orders of the same peak."""
FIRST_SHARE = 0.6
"""Share of the remaining time for the first of the two joint methods."""
SMALL_ITEMS = 80
"""Number of buffers up to which the model of order and offsets comes before the decomposition."""


@dataclass(frozen=True, slots=True)
class CpSatOutcome:
    """The best plan, and CP-SAT's claim about all other plans."""

    value: int | None
    """Value of the objective (slab or peak) in bytes, or None without a plan."""
    bound: int
    """Claimed lower bound in bytes: at least the bound passed in, and above the capacity if CP-SAT
    reports that no plan fits.
    """
    stop_reason: StopReason
    """EXHAUSTED: CP-SAT reports that its search is complete. DECIDED: a plan fits the capacity."""
    plan: Plan | None = None
    """Order and offsets, or None."""
    refuted: str = ""
    """Line that says which claim was refuted and dropped, or an empty string."""

    @property
    def optimal(self) -> bool:
        """Return True if the plan is claimed to be optimal: its value equals the bound."""
        return self.value is not None and self.value <= self.bound

    @property
    def infeasible(self) -> bool:
        """Return True if it is claimed that no plan satisfies the pins or the capacity."""
        return self.value is None and self.stop_reason is StopReason.EXHAUSTED


def solve_joint(
    graph: Graph,
    *,
    objective: Objective = Objective.SLAB,
    capacity: int | None = None,
    limits: Limits | Clock | None = None,
    warm_start: Plan | None = None,
    peak_bound: int = 0,
    slab_bound: int = 0,
    on_event: OnEvent | None = None,
    effort: CpSatEffort = EFFORT,
    independent: bool = False,
) -> CpSatOutcome:
    """Choose order and offsets together.

    First an order of minimum peak is searched (:mod:`optsched.joint.cpsat.order`) and packed: its
    claimed minimum is a bound on every slab, and mostly the slab meets it. Where it does not,
    CP-SAT chooses orders that our packing search packs or refutes
    (:mod:`optsched.joint.cpsat.benders`). The model of order and offsets
    (:mod:`optsched.joint.cpsat.joint_model`) has the rest of the time, and the graphs that cannot
    be decomposed; offsets enter every node of its search, so that only graphs of about 30 ops are
    within its reach. The result is never worse than the warm start.

    Parameters
    ----------
    graph
        The graph, on one stream.
    objective
        Quantity to minimize.
    capacity
        If given, only decide whether the objective can be at most this number of bytes; the first
        such plan ends the search.
    limits
        Time and work limits, workers and seed.
    warm_start
        Valid plan to start from.
    peak_bound, slab_bound
        Proved lower bounds in bytes.
    on_event
        Called in this thread with every incumbent and bound. If it raises, the search is stopped
        and the error is passed on; KeyboardInterrupt ends the search with the incumbent.
    effort
        Parameters of CP-SAT.
    independent
        Leave out the exact reductions of our own search, and what our packing search refutes.

    Raises
    ------
    UsageError
        If sizes are outside the range in which CP-SAT is exact.
    PlanError
        If the warm start is not valid.
    """
    graph.refuse_streams("the CP-SAT model")
    clock = Clock.of(limits or Limits())
    search = _JointSearch(graph, objective, capacity, clock, on_event, effort)
    return search.run(warm_start, peak_bound, slab_bound, independent)


def _has_time_for_model(graph: Graph, clock: Clock) -> bool:
    """Return True if building the model, which has no clock, leaves half of the time."""
    return has_time_to_build((len(graph.ops) ** 2 + len(graph.buffers) ** 2) // 2, clock)


def _first_order(graph: Graph, clock: Clock) -> Sequence[int]:
    """Return the order of smallest peak that heuristics find in a part of the time."""
    best: list[int] = program(graph).tolist()
    least: int | None = None
    for _, order in candidate_orders(graph, seed=clock.limits.seed):
        clock.spend(len(order))
        peak = peak_memory(graph, order)
        if least is None or peak < least:
            best, least = order.tolist(), peak
        if clock.spent(HEURISTICS_SHARE):
            break
    return best


class _JointSearch:
    """The best plan and the claimed bound, in bytes, while the models are solved."""

    def __init__(
        self,
        graph: Graph,
        objective: Objective,
        capacity: int | None,
        clock: Clock,
        on_event: OnEvent | None,
        effort: CpSatEffort,
    ) -> None:
        self.graph, self.instance = graph, graph_instance(graph)
        self.is_slab, self.capacity = objective is Objective.SLAB, capacity
        # A limit above this number of bytes does not constrain any plan.
        self.room = self.instance.slab_limit * self.instance.unit
        self.clock, self.on_event, self.effort = clock, on_event, effort
        self.plan: Plan | None = None
        self.value: int | None = None
        self.bound = 0
        self.refuted = ""

    def run(
        self, warm_start: Plan | None, peak_bound: int, slab_bound: int, independent: bool
    ) -> CpSatOutcome:
        """Return a plan with fewer bytes than the warm start, or the warm start."""
        proved = self.bound = slab_bound if self.is_slab else peak_bound
        if warm_start is not None:
            checked = check_plan(self.graph, warm_start)
            self.plan, self.value = warm_start, checked.slab if self.is_slab else checked.peak
        try:
            reason = self._solve(peak_bound, slab_bound, independent)
        except KeyboardInterrupt:
            reason = StopReason.INTERRUPTED
        line = self.refuted or refutation("cpsat", self.bound, self.value)
        # The line of a refuted plan was reported when it was refuted.
        if line and not self.refuted:
            report(line)
        if line:
            # With one wrong claim, no other claim of this run can be kept.
            self.bound = proved
        return CpSatOutcome(self.value, self.bound, reason, self.plan, line)

    def _solve(self, peak_bound: int, slab_bound: int, independent: bool) -> StopReason:
        """Run the models in turn; return why the search ended."""
        if self._fits():
            return StopReason.DECIDED
        # Nothing is claimed where nothing was run.
        if self.clock.expired():
            return self.clock.limit_reason()
        with held_interrupts():
            start = _first_order(self.graph, self.clock) if self.plan is None else self.plan.order
            claim = self._solve_order(start, peak_bound, independent)
        if not independent and self.is_slab and can_decompose(self.graph):
            self._pack_others(claim)
        bounds = claim.bound, slab_bound
        methods = [
            partial(self._decompose, start if claim.order is None else claim.order, independent),
            partial(self._solve_model, *bounds),
        ]
        if len(self.instance.items) <= SMALL_ITEMS:
            methods.reverse()
        for method, share in zip(methods, (FIRST_SHARE, 1.0), strict=True):
            if self._is_settled():
                return self._settled()
            if self.clock.expired():
                break
            reason = method(self.clock.share(share))
            if reason is not None:
                return reason
        return self.clock.limit_reason()

    def _solve_model(self, peak_bound: int, slab_bound: int, clock: Clock) -> StopReason | None:
        """Solve the model of order and offsets; return why the search ended, None if it did not."""
        if not _has_time_for_model(self.graph, clock):
            return None
        with held_interrupts():
            variables = self._model(peak_bound, slab_bound)
        found = SolverThread(variables, self._units, clock, self.effort).run(self._note)
        self._note(found)
        return self._stop_reason(found)

    def _solve_order(self, start: Sequence[int], peak_bound: int, independent: bool) -> OrderClaim:
        """Improve the order and pack it."""
        claim = solve_order_cpsat(
            self.graph,
            start,
            clock=self.clock.share(ORDER_SHARE),
            bound=peak_bound,
            independent=independent,
            effort=self.effort,
            note=lambda _, bound: self._raise(bound),
        )
        self.refuted = claim.refuted
        self._raise(claim.bound)
        if claim.order is not None and not claim.interrupted and not self._is_settled():
            clock = self.clock.share(PACKING_SHARE)
            # A packing at the bound, or within the capacity, is as good as any.
            target = max(self.bound, self.capacity or 0)
            plan = best_plan(self.graph, claim.order, clock, target=target)
            if plan is not None:
                self._offer(plan)
        if claim.interrupted:
            raise KeyboardInterrupt
        return claim

    def _pack_others(self, claim: OrderClaim) -> None:
        """Pack other orders of the peak that is reached: they may pack into it, or nearly so."""
        if claim.order is None or claim.peak is None or self._is_settled():
            return
        orders = [np.array(claim.order, np.int64)]
        room = max(claim.peak, self.capacity or 0)
        clock = self.clock.share(PACKING_SHARE)
        for plan in other_plans(
            self.graph, orders, room, bound=claim.bound, limits=clock, effort=OTHERS
        ):
            self._offer(plan)
            if self._is_settled():
                break

    def _decompose(
        self, start: Sequence[int], independent: bool, clock: Clock
    ) -> StopReason | None:
        """Pack one order after another; return why the search ended, None if it did not."""
        pairs = len(self.graph.ops) ** 2 // 2
        if independent or not self.is_slab or not can_decompose(self.graph):
            return None
        if not has_time_to_build(pairs, clock):
            return None
        limits = [self.capacity, None if self.value is None else self.value - 1, self.room]
        found = decompose(
            self.graph,
            min(limit for limit in limits if limit is not None),
            floor=self.bound,
            offer=self._offer,
            clock=clock,
            start=start,
            once=self.capacity is not None,
            effort=self.effort,
        )
        # With room for all items, only pins can refute every order.
        if found.refuted >= self.room:
            return StopReason.EXHAUSTED
        self._raise(found.refuted + 1)
        return self._settled() if self._is_settled() else None

    def _is_settled(self) -> bool:
        if self.capacity is not None and self.bound > self.capacity:
            return True
        return self._fits() or (self.value is not None and self.value <= self.bound)

    def _settled(self) -> StopReason:
        return StopReason.DECIDED if self._fits() else StopReason.EXHAUSTED

    def _offer(self, plan: Plan) -> None:
        """Check a plan, and keep it if it is better and fits the capacity."""
        checked = check_plan(self.graph, plan)
        value = checked.slab if self.is_slab else checked.peak
        # Only plans that answer the question count as a value.
        if self.capacity is not None and value > self.capacity:
            return
        if self.value is None or value < self.value:
            self.plan, self.value = plan, value
            self._tell()

    def _raise(self, bound: int) -> None:
        if bound > self.bound:
            self.bound = bound
            self._tell()

    def _tell(self) -> None:
        if self.on_event is not None:
            self.on_event(Event(self.clock.seconds(), self.value, self.bound, "cpsat"))

    def _model(self, peak_bound: int, slab_bound: int) -> JointModel:
        """Return the model, with the requirement to improve on known values."""
        variables = JointModel(self.instance, peak_bound=peak_bound, slab_bound=slab_bound)
        target = variables.slab if self.is_slab else variables.peak
        if self.capacity is None:
            # With a capacity any solution will do, so no objective is set.
            variables.model.minimize(target)
        limit = self.value if self.capacity is None else self.capacity
        if limit is not None and limit < self.room:
            variables.model.add(target <= max(-1, limit // self.instance.unit))
        if self.plan is not None:
            variables.add_hint(ModelPoint.of_plan(self.instance, self.plan))
        return variables

    def _stop_reason(self, found: CpSatRun[ModelPoint]) -> StopReason | None:
        """Return why the search ended, None if it did not; a refuted capacity raises the bound."""
        if found.interrupted:
            return StopReason.INTERRUPTED
        if not found.finished:
            return None
        if self._fits():
            return StopReason.DECIDED
        # With room for all items, infeasibility is due to the pins and not to the capacity.
        if self.capacity is not None and self.capacity < self.room:
            self.bound = max(self.bound, self.capacity + 1)
        return StopReason.EXHAUSTED

    def _note(self, state: CpSatRun[ModelPoint]) -> None:
        """Record what CP-SAT has found so far, and report improvements."""
        if state.bound is not None:
            self._raise(state.bound * self.instance.unit)
        if state.best is None:
            return
        found = self._units(state.best) * self.instance.unit
        # Only better plans are worth the check.
        if self.value is not None and found >= self.value:
            return
        try:
            self._offer(self._plan_of(state.best))
        except PlanError as error:
            self.refuted = report(f"cpsat: claimed a plan of {found:,} bytes, refuted: {error}")

    def _units(self, point: ModelPoint) -> int:
        return point.slab if self.is_slab else point.peak

    def _fits(self) -> bool:
        if self.capacity is None or self.value is None:
            return False
        return self.value <= self.capacity

    def _plan_of(self, point: ModelPoint) -> Plan:
        items = zip(self.instance.items, point.offsets, strict=True)
        places = {item.id: offset * self.instance.unit for item, offset in items}
        return Plan(point.order, tuple(places.get(root) for root in self.graph.roots))
