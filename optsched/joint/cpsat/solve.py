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

from dataclasses import dataclass

from optsched.check.plan import check_plan
from optsched.joint.cpsat.constraints import joint_model
from optsched.joint.cpsat.instance import graph_instance
from optsched.joint.cpsat.point import ModelPoint
from optsched.joint.cpsat.solver import EFFORT, CpSatEffort, CpSatRun, SolverThread
from optsched.joint.cpsat.variables import ModelVariables
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import held_interrupts
from optsched.runtime.limits import Event, Limits, Objective, OnEvent, StopReason

BUILD_SECONDS = 4e-5
"""Estimated seconds to build the model, per buffer and step; 2e-5 to 4e-5 were measured."""


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
) -> CpSatOutcome:
    """Choose order and offsets together.

    The objective is the slab or the peak; the other quantity is not minimized. Offsets enter every
    node of the search, so only graphs of about 30 ops are within reach. A good warm start and
    proved bounds help most. The result is never worse than the warm start.

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

    Raises
    ------
    UsageError
        If sizes are outside the range in which CP-SAT is exact.
    PlanError
        If the warm start is not valid.
    """
    graph.refuse_streams("the CP-SAT model")
    clock = Clock.of(limits or Limits())
    if not _has_time_for_model(graph, clock):
        checked = None if warm_start is None else check_plan(graph, warm_start)
        is_slab = objective is Objective.SLAB
        value = None if checked is None else checked.slab if is_slab else checked.peak
        bound = slab_bound if is_slab else peak_bound
        return CpSatOutcome(value, bound, clock.limit_reason(), warm_start)
    search = _JointSearch(graph, objective, capacity, clock, on_event)
    return search.run(warm_start, peak_bound, slab_bound, effort)


def _has_time_for_model(graph: Graph, clock: Clock) -> bool:
    """Return True if building the model, which has no clock, leaves half of the seconds."""
    left = clock.left()
    seconds = BUILD_SECONDS * len(graph.ops) * len(graph.buffers)
    return left is None or clock.limits.work is not None or 2 * seconds <= left


class _JointSearch:
    """The best value and the claimed bound, in bytes, while the model is solved."""

    def __init__(
        self,
        graph: Graph,
        objective: Objective,
        capacity: int | None,
        clock: Clock,
        on_event: OnEvent | None,
    ) -> None:
        self.graph, self.instance = graph, graph_instance(graph)
        self.is_slab, self.capacity = objective is Objective.SLAB, capacity
        # A limit above this number of bytes does not constrain any plan.
        self.room = self.instance.slab_limit * self.instance.unit
        self.clock, self.on_event = clock, on_event
        self.value: int | None = None
        self.bound = 0

    def run(
        self, warm_start: Plan | None, peak_bound: int, slab_bound: int, effort: CpSatEffort
    ) -> CpSatOutcome:
        """Return a plan with fewer bytes than the warm start, or the warm start."""
        self.bound = slab_bound if self.is_slab else peak_bound
        if warm_start is not None:
            checked = check_plan(self.graph, warm_start)
            self.value = checked.slab if self.is_slab else checked.peak
        before = self.value
        if self._fits():
            return CpSatOutcome(self.value, self.bound, StopReason.DECIDED, warm_start)
        try:
            with held_interrupts():
                variables = self._model(warm_start, peak_bound, slab_bound)
        except KeyboardInterrupt:
            return CpSatOutcome(self.value, self.bound, StopReason.INTERRUPTED, warm_start)
        found = SolverThread(variables, self._units, self.clock, effort).run(self._note)
        self._note(found)
        reason = self._stop_reason(found)
        plan = warm_start
        if found.best is not None and self.value != before:
            plan = self._plan_of(found.best)
        return CpSatOutcome(self.value, self.bound, reason, plan)

    def _model(self, warm_start: Plan | None, peak_bound: int, slab_bound: int) -> ModelVariables:
        """Return the model, with the requirement to improve on known values."""
        variables = joint_model(self.instance, peak_bound, slab_bound)
        target = variables.slab if self.is_slab else variables.peak
        if self.capacity is None:
            variables.model.minimize(target)
        limit = self.value if self.capacity is None else self.capacity
        if limit is not None and limit < self.room:
            variables.model.add(target <= max(-1, limit // self.instance.unit))
        if warm_start is not None:
            variables.add_hint(ModelPoint.of_plan(self.instance, warm_start))
        return variables

    def _stop_reason(self, found: CpSatRun) -> StopReason:
        """Return why the run ended; a refuted capacity raises the bound."""
        if found.interrupted:
            return StopReason.INTERRUPTED
        if not found.finished:
            return self.clock.limit_reason()
        if self._fits():
            return StopReason.DECIDED
        # With room for all items, infeasibility is due to the pins and not to the capacity.
        if self.capacity is not None and self.capacity < self.room:
            self.bound = max(self.bound, self.capacity + 1)
        return StopReason.EXHAUSTED

    def _note(self, state: CpSatRun) -> None:
        """Record what CP-SAT has found so far, and report improvements."""
        before, unit = (self.value, self.bound), self.instance.unit
        if state.bound is not None:
            self.bound = max(self.bound, state.bound * unit)
        if state.best is not None:
            found = self._units(state.best) * unit
            self.value = found if self.value is None else min(self.value, found)
        if (self.value, self.bound) != before and self.on_event is not None:
            self.on_event(Event(self.clock.seconds(), self.value, self.bound, "cpsat"))

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
