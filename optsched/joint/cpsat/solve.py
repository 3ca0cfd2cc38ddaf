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
from functools import partial

import numpy as np

from heuristics.orderings.program import program
from heuristics.portfolio import candidate_orders
from optsched.joint.claims import OrderClaim, misread, refutation, report
from optsched.joint.cpsat.benders import can_decompose, decompose
from optsched.joint.cpsat.incumbent import CpSatOutcome, Incumbent
from optsched.joint.cpsat.joint_model import JointModel
from optsched.joint.cpsat.order import has_time_to_build, solve_order_cpsat
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
from optsched.runtime.limits import Limits, Objective, OnEvent, StopReason

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

    Raise `UsageError` if sizes are outside the range in which CP-SAT is exact. Raise `PlanError` if
    the warm start is not valid.

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
    """
    graph.refuse_streams("the CP-SAT model")
    clock = Clock.of(limits or Limits())
    proved = slab_bound if objective is Objective.SLAB else peak_bound
    best = Incumbent(graph, objective, capacity, clock, on_event, warm_start, proved)
    return _JointSearch(graph, best, effort).run(peak_bound, slab_bound, independent)


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
    """The models of one graph, in turn."""

    def __init__(self, graph: Graph, best: Incumbent, effort: CpSatEffort) -> None:
        self.graph, self.instance, self.best = graph, graph_instance(graph), best
        # A limit above this number of bytes does not constrain any plan.
        self.room = self.instance.slab_limit * self.instance.unit
        self.clock, self.effort = best.clock, effort

    def run(self, peak_bound: int, slab_bound: int, independent: bool) -> CpSatOutcome:
        """Return a plan with fewer bytes than the warm start, or the warm start."""
        try:
            reason = self._solve(peak_bound, slab_bound, independent)
        except KeyboardInterrupt:
            reason = StopReason.INTERRUPTED
        return self.best.outcome(reason)

    def _solve(self, peak_bound: int, slab_bound: int, independent: bool) -> StopReason:
        """Run the models in turn; return why the search ended."""
        best = self.best
        if best.fits():
            return StopReason.DECIDED
        # Nothing is claimed where nothing was run.
        if self.clock.expired():
            return self.clock.limit_reason()
        with held_interrupts():
            start = _first_order(self.graph, self.clock) if best.plan is None else best.plan.order
            claim = self._solve_order(start, peak_bound, independent)
        if not independent and best.is_slab and can_decompose(self.graph):
            self._pack_others(claim)
        bounds = claim.bound, slab_bound
        methods = [
            partial(self._decompose, start if claim.order is None else claim.order, independent),
            partial(self._solve_model, *bounds),
        ]
        if len(self.instance.items) <= SMALL_ITEMS:
            methods.reverse()
        for method, share in zip(methods, (FIRST_SHARE, 1.0), strict=True):
            if best.is_settled():
                return best.settled()
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
        best = self.best
        claim = solve_order_cpsat(
            self.graph,
            start,
            clock=self.clock.share(ORDER_SHARE),
            bound=peak_bound,
            independent=independent,
            effort=self.effort,
            note=lambda _, bound: best.raise_bound(bound),
        )
        best.refuted = claim.refuted
        best.raise_bound(claim.bound)
        if claim.order is not None and not claim.interrupted and not best.is_settled():
            clock = self.clock.share(PACKING_SHARE)
            # A packing at the bound, or within the capacity, is as good as any.
            target = max(best.bound, best.capacity or 0)
            plan = best_plan(self.graph, claim.order, clock, target=target)
            if plan is not None:
                best.offer(plan)
        if claim.interrupted:
            raise KeyboardInterrupt
        return claim

    def _pack_others(self, claim: OrderClaim) -> None:
        """Pack other orders of the peak that is reached: they may pack into it, or nearly so."""
        if claim.order is None or claim.value is None or self.best.is_settled():
            return
        orders = [np.array(claim.order, np.int64)]
        room = max(claim.value, self.best.capacity or 0)
        clock = self.clock.share(PACKING_SHARE)
        for plan in other_plans(
            self.graph, orders, room, bound=claim.bound, limits=clock, effort=OTHERS
        ):
            self.best.offer(plan)
            if self.best.is_settled():
                break

    def _decompose(
        self, start: Sequence[int], independent: bool, clock: Clock
    ) -> StopReason | None:
        """Pack one order after another; return why the search ended, None if it did not."""
        best, pairs = self.best, len(self.graph.ops) ** 2 // 2
        if independent or not best.is_slab or not can_decompose(self.graph):
            return None
        if not has_time_to_build(pairs, clock):
            return None
        limits = [best.capacity, None if best.value is None else best.value - 1, self.room]
        found = decompose(
            self.graph,
            min(limit for limit in limits if limit is not None),
            floor=best.bound,
            offer=best.offer,
            clock=clock,
            start=start,
            once=best.capacity is not None,
            effort=self.effort,
        )
        # With room for all items, only pins can refute every order.
        if found.refuted >= self.room:
            return StopReason.EXHAUSTED
        best.raise_bound(found.refuted + 1)
        return best.settled() if best.is_settled() else None

    def _model(self, peak_bound: int, slab_bound: int) -> JointModel:
        """Return the model, with the requirement to improve on known values."""
        best = self.best
        variables = JointModel(self.instance, peak_bound=peak_bound, slab_bound=slab_bound)
        target = variables.slab if best.is_slab else variables.peak
        if best.capacity is None:
            # With a capacity any solution will do, so no objective is set.
            variables.model.minimize(target)
        limit = best.value if best.capacity is None else best.capacity
        if limit is not None and limit < self.room:
            variables.model.add(target <= max(-1, limit // self.instance.unit))
        if best.plan is not None:
            variables.add_hint(ModelPoint.of_plan(self.instance, best.plan))
        return variables

    def _stop_reason(self, found: CpSatRun[ModelPoint]) -> StopReason | None:
        """Return why the search ended, None if it did not; a refuted capacity raises the bound."""
        best = self.best
        if found.interrupted:
            return StopReason.INTERRUPTED
        self._judge(found)
        if not found.finished:
            return None
        if best.fits():
            return StopReason.DECIDED
        # With room for all items, infeasibility is due to the pins and not to the capacity.
        if best.capacity is not None and best.capacity < self.room:
            best.bound = max(best.bound, best.capacity + 1)
        return StopReason.EXHAUSTED

    def _judge(self, found: CpSatRun[ModelPoint]) -> None:
        """Report a claim that the best plan refutes, or the replay of the plan itself."""
        best, line = self.best, ""
        if found.infeasible and best.value is not None and not self._is_above_capacity():
            line = refutation("cpsat", best.value + 1, best.value)
        elif found.reported is not None and found.best is not None:
            unit = self.instance.unit
            line = misread("cpsat", found.reported * unit, self._units(found.best) * unit)
        best.refuted = best.refuted or report(line)

    def _is_above_capacity(self) -> bool:
        return self.best.capacity is not None and not self.best.fits()

    def _note(self, state: CpSatRun[ModelPoint]) -> None:
        """Record what CP-SAT has found so far, and report improvements."""
        unit = self.instance.unit
        if state.bound is not None:
            self.best.raise_bound(state.bound * unit)
        if state.best is not None:
            self.best.offer_claimed(self._plan_of(state.best), self._units(state.best) * unit)

    def _units(self, point: ModelPoint) -> int:
        return point.slab if self.best.is_slab else point.peak

    def _plan_of(self, point: ModelPoint) -> Plan:
        items = zip(self.instance.items, point.offsets, strict=True)
        places = {item.id: offset * self.instance.unit for item, offset in items}
        return Plan(point.order, tuple(places.get(root) for root in self.graph.roots))
