"""The three questions: an order of minimum peak, a packing of minimum slab, or both together.

Each builds one model and solves it once, for one objective. What CP-SAT says is a claim and never
a proof, so values are replayed in integers and bounds are kept apart from the proved ones.

>>> from optsched.model.builder import GraphBuilder
>>> build = GraphBuilder()
>>> build.op("a", writes={"x": 4})
>>> solve_joint(build.build()).value
4
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from optsched.check.plan import check_order, check_packing, check_plan
from optsched.errors import PlanError
from optsched.joint.cpsat.constraints import joint_model, order_model, packing_model
from optsched.joint.cpsat.hints import add_hint, point_of
from optsched.joint.cpsat.instance import ModelInstance, graph_instance, packing_instance
from optsched.joint.cpsat.solver import SAFE, CpSatRun, SolverThread
from optsched.joint.cpsat.variables import ModelPoint, ModelVariables
from optsched.model.graph import Graph
from optsched.model.liveness import Order
from optsched.model.memory_model import refuse_inplace
from optsched.model.packing_problem import PackingProblem
from optsched.model.plan import Plan
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Event, Limits, Objective, OnEvent, StopReason

SOURCE = "cpsat"
"""Name of this engine in events."""


@dataclass(frozen=True, slots=True)
class CpSatOutcome:
    """The best plan and what CP-SAT claims about all others; nothing here is a proof.

    Parameters
    ----------
    value
        Bytes of the objective (slab, or peak), or None without a plan.
    bound
        CP-SAT says that no plan has fewer bytes; at least the bound it was given, and above the
        capacity if it says that no plan fits.
    stop_reason
        EXHAUSTED: CP-SAT says that its search is complete. DECIDED: a plan fits the capacity.
    order
        Op ids by step; None without a plan.
    offsets
        Of a packing, by position in its problem: first byte of each buffer.
    plan
        Order and offsets of a graph, if both were chosen.
    """

    value: int | None
    bound: int
    stop_reason: StopReason
    order: tuple[int, ...] | None = None
    offsets: tuple[int, ...] | None = None
    plan: Plan | None = None

    @property
    def optimal(self) -> bool:
        """Whether the plan is claimed to be optimal: its value meets the bound."""
        return self.value is not None and self.value <= self.bound

    @property
    def infeasible(self) -> bool:
        """Whether it is claimed that pins, or the capacity, leave no plan at all."""
        return self.value is None and self.stop_reason is StopReason.EXHAUSTED


def solve_order(
    graph: Graph,
    *,
    capacity: int | None = None,
    limits: Limits | Clock | None = None,
    warm_start: Order | None = None,
    peak_bound: int = 0,
    on_event: OnEvent | None = None,
    parameters: Mapping[str, Any] = SAFE,
) -> CpSatOutcome:
    """Choose an order of minimum peak.

    Parameters
    ----------
    graph
        What is to be planned.
    capacity
        Ask only whether the peak can be at most this many bytes; the first such order ends the
        search.
    limits
        Time or work, workers, seed.
    warm_start
        A valid order to start from; the answer is never worse.
    peak_bound
        A lower bound in bytes.
    on_event
        Called in this thread with every incumbent and bound. If it raises, the search is stopped
        and the error passed on; KeyboardInterrupt ends the search with the incumbent.
    parameters
        Names and values of further parameters of CP-SAT.

    Raises
    ------
    UsageError
        If sizes are outside the range in which CP-SAT is exact, or the graph is in-place.
    PlanError
        If the warm start is not valid.
    """
    refuse_inplace(graph, "the CP-SAT model")
    clock, instance = Clock.of(limits or Limits()), graph_instance(graph, placed=False)
    value, start = None, None
    if warm_start is not None:
        order = tuple(int(v) for v in warm_start)
        value, start = check_order(graph, order), point_of(instance, order)
    search = _Minimisation(instance, Objective.PEAK, capacity, peak_bound, clock, on_event)
    best = search.run(partial(order_model, instance, peak_bound), start, value, parameters)
    return search.outcome(order=None if best is None else best.order)


def solve_packing(
    problem: PackingProblem,
    *,
    capacity: int | None = None,
    limits: Limits | Clock | None = None,
    warm_start: Sequence[int] | None = None,
    slab_bound: int = 0,
    on_event: OnEvent | None = None,
    parameters: Mapping[str, Any] = SAFE,
) -> CpSatOutcome:
    """Choose offsets of minimum slab for given live ranges; parameters as of :func:`solve_order`.

    Gaps are supported: the parts of a buffer share its offset.
    """
    clock, instance = Clock.of(limits or Limits()), packing_instance(problem)
    value, start, given = None, None, None
    if warm_start is not None:
        given = tuple(int(offset) for offset in warm_start)
        value = check_packing(problem, given)
        start = point_of(instance, (), [given[item.id] for item in instance.items])
    slab_bound = max(slab_bound, problem.max_load)
    search = _Minimisation(instance, Objective.SLAB, capacity, slab_bound, clock, on_event)
    best = search.run(partial(packing_model, instance, slab_bound), start, value, parameters)
    if best is not None and best is not start:
        offsets = [max(0, int(pin)) for pin in problem.pin]
        for item, offset in zip(instance.items, best.offsets, strict=True):
            offsets[item.id] = offset * instance.unit
        given = tuple(offsets)
    return search.outcome(offsets=given)


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
    parameters: Mapping[str, Any] = SAFE,
) -> CpSatOutcome:
    """Choose order and offsets together; parameters as of :func:`solve_order`.

    The objective is the slab or the peak, and the other number whatever it happens to be. Offsets
    weigh on every node of the search, so about 30 ops are within reach: a good warm start and
    proved bounds help most.
    """
    refuse_inplace(graph, "the CP-SAT model")
    clock, instance = Clock.of(limits or Limits()), graph_instance(graph, placed=True)
    value, start = None, None
    if warm_start is not None:
        checked = check_plan(graph, warm_start)
        value = checked.slab if objective is Objective.SLAB else checked.peak
        places = [_required(warm_start.offsets[item.id]) for item in instance.items]
        start = point_of(instance, warm_start.order, places)
    bound = slab_bound if objective is Objective.SLAB else peak_bound
    search = _Minimisation(instance, objective, capacity, bound, clock, on_event)
    best = search.run(
        lambda: joint_model(instance, peak_bound, slab_bound), start, value, parameters
    )
    plan = warm_start if best is start else _plan_of(graph, best)
    return search.outcome(order=None if plan is None else plan.order, plan=plan)


class _Minimisation:
    """Minimises one objective and keeps the best value and the claimed bound, in bytes."""

    def __init__(
        self,
        instance: ModelInstance,
        objective: Objective,
        capacity: int | None,
        bound: int,
        clock: Clock,
        on_event: OnEvent | None,
    ) -> None:
        self.instance, self.is_slab = instance, objective is Objective.SLAB
        self.capacity = capacity
        # More than this is no constraint, whatever the number.
        self.room = instance.slab_limit * instance.unit
        self.clock, self.on_event = clock, on_event
        self.value: int | None = None
        self.bound = bound
        self.stop_reason = StopReason.DECIDED

    def run(
        self,
        make_model: Callable[[], ModelVariables],
        start: ModelPoint | None,
        value: int | None,
        parameters: Mapping[str, Any],
    ) -> ModelPoint | None:
        """Return a point with fewer bytes than the warm start, or else `start` itself.

        Parameters
        ----------
        make_model
            Builds the model, which may take a while.
        start, value
            The warm start and its bytes, which may be more than those of the point.
        parameters
            Names and values of further parameters of CP-SAT.
        """
        self.value = value
        if self._fits(value):
            return start
        try:
            variables = make_model()
            self._add_objective(variables)
            if start is not None:
                add_hint(variables, start)
        except KeyboardInterrupt:
            self.stop_reason = StopReason.INTERRUPTED
            return start
        found = SolverThread(variables, self._units, self.clock, parameters).run(self._note)
        self._note(found)
        if found.interrupted:
            self.stop_reason = StopReason.INTERRUPTED
        elif found.finished and not self._fits(self.value):
            self.stop_reason = StopReason.EXHAUSTED
            # With room for everything it is the pins that leave no plan.
            if self.capacity is not None and self.capacity < self.room:
                self.bound = max(self.bound, self.capacity + 1)
        elif not found.finished:
            self.stop_reason = StopReason.TIME_LIMIT
        return found.best if self._is_better(found.best, value) else start

    def outcome(self, **answer: Any) -> CpSatOutcome:
        """Return what came of it."""
        return CpSatOutcome(self.value, self.bound, self.stop_reason, **answer)

    def _add_objective(self, variables: ModelVariables) -> None:
        model, target = variables.model, variables.slab if self.is_slab else variables.peak
        if self.capacity is None:
            model.minimize(target)
        limit = self.value if self.capacity is None else self.capacity
        if limit is not None and limit < self.room:
            model.add(target <= max(-1, self.instance.down(limit)))

    def _note(self, state: CpSatRun) -> None:
        """Take in what CP-SAT has found so far, and pass on what moved."""
        before = (self.value, self.bound)
        if state.bound is not None:
            self.bound = max(self.bound, state.bound * self.instance.unit)
        if state.best is not None and self._is_better(state.best, self.value):
            self.value = self._bytes(state.best)
        if (self.value, self.bound) != before and self.on_event is not None:
            self.on_event(Event(self.clock.seconds(), self.value, self.bound, SOURCE))

    def _units(self, point: ModelPoint) -> int:
        return point.slab if self.is_slab else point.peak

    def _bytes(self, point: ModelPoint) -> int:
        return self._units(point) * self.instance.unit

    def _is_better(self, point: ModelPoint | None, value: int | None) -> bool:
        return point is not None and (value is None or self._bytes(point) < value)

    def _fits(self, value: int | None) -> bool:
        return self.capacity is not None and value is not None and value <= self.capacity


def _required(offset: int | None) -> int:
    if offset is None:
        raise PlanError("warm start leaves a live buffer without an offset")
    return offset


def _plan_of(graph: Graph, point: ModelPoint | None) -> Plan | None:
    if point is None:
        return None
    instance = point.instance
    places = {
        item.id: offset * instance.unit
        for item, offset in zip(instance.items, point.offsets, strict=True)
    }
    return Plan(point.order, tuple(places.get(root) for root in graph.roots))
