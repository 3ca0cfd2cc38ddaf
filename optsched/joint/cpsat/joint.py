"""The joint form: order and offsets chosen together.

The joint model alone closes most graphs of 30 ops in seconds, but its offsets weigh on every node
of the search. So the two parts are tried first: an order of least peak, then a packing of that
order. If the slab meets the peak, nothing is left to choose. If not, the joint model starts from
that plan, and no slab is smaller than the least peak.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optsched.check.plan import check_plan
from optsched.errors import PlanError
from optsched.joint.cpsat.canonical import canonical
from optsched.joint.cpsat.constraints import add_bounds
from optsched.joint.cpsat.cuts import Cuts
from optsched.joint.cpsat.engine import SOURCE, Target, Task, minimize, peak_of, slab_of
from optsched.joint.cpsat.instance import joint_instance
from optsched.joint.cpsat.model import joint_model
from optsched.joint.cpsat.outcome import CpSatOutcome, Stop
from optsched.joint.cpsat.solve import solve_order, solve_packing
from optsched.joint.cpsat.solver import SAFE, Settings, StopSignal, remaining
from optsched.joint.cpsat.variables import Point
from optsched.model.graph import Graph
from optsched.model.memory_model import refuse_inplace
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan, make_plan
from optsched.runtime.limits import Event, Limits, Objective, OnEvent

ATTEMPTS = 3
"""Orders of least peak for which a packing into that peak is tried."""

ORDER_SHARE, TRY_SHARE = 0.3, 0.1
"""Parts of the time that the order, and each such attempt, may take."""

STAGE_WORK = 200.0
"""CP-SAT's deterministic time (about seconds) of which stages take their share at most, so that
they end without a time limit, too."""


def solve_joint(
    graph: Graph,
    *,
    objective: Objective = Objective.SLAB,
    capacity: int | None = None,
    limits: Limits | None = None,
    warm_start: Plan | None = None,
    peak_bound: int = 0,
    slab_bound: int = 0,
    on_event: OnEvent | None = None,
    cuts: Cuts | None = None,
    settings: Settings = SAFE,
    stop: StopSignal | None = None,
    staged: bool = True,
) -> CpSatOutcome:
    """Choose order and offsets; ties in the objective are broken by the other number.

    Parameters
    ----------
    graph
        What is to be planned.
    objective
        What is to be least first.
    capacity
        Ask only whether the objective can be at most this many bytes; the first such plan ends
        the search.
    limits
        Time, workers, seed.
    warm_start
        A valid plan to start from; the answer is never worse.
    peak_bound, slab_bound
        Lower bounds in bytes.
    on_event
        Called in this thread with every incumbent and bound. If it raises, the search is stopped
        and the error passed on; KeyboardInterrupt ends the search with the incumbent.
    cuts, settings
        Rules of dominance and symmetry; the configuration of CP-SAT.
    stop
        Ends the search when another thread sets it.
    staged
        Whether to try order and offsets one after the other first; else the joint model alone.

    Raises
    ------
    UsageError
        If sizes are outside the range in which CP-SAT is exact.
    PlanError
        If the warm start is no valid plan.
    """
    refuse_inplace(graph, "the CP-SAT model")
    started = time.perf_counter()
    limits = limits or Limits()
    report = _Report(on_event, started)
    joint = _Joint(graph, objective, capacity, cuts, settings, stop, report)
    joint.stage = _Stage(warm_start, peak_bound, slab_bound)
    if warm_start is not None:
        joint.check(warm_start)
    try:
        # With several pools an order of least peak says little of the slabs.
        if staged and objective is Objective.SLAB and len(joint.instance.pools) <= 1:
            joint.run_stages(limits, started)
        if joint.stage.stop is None:
            outcome = joint.solve(remaining(limits, started))
        else:
            outcome = joint.finish(joint.stage.stop)
    except KeyboardInterrupt:
        # It came between two searches; during one it ends that search with its incumbent.
        outcome = joint.finish(Stop.INTERRUPTED)
    improved = joint.better(outcome.plan, warm_start)
    return replace(outcome, improved=improved, seconds=time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class _Stage:
    """What is known so far; `stop` says why nothing is left to do."""

    plan: Plan | None
    peak_bound: int
    slab_bound: int
    stop: Stop | None = None


class _Joint:
    """One task, solved in stages or at once."""

    def __init__(
        self,
        graph: Graph,
        objective: Objective,
        capacity: int | None,
        cuts: Cuts | None,
        settings: Settings,
        stop: StopSignal | None,
        report: _Report,
    ) -> None:
        self.graph, self.objective, self.capacity = graph, objective, capacity
        self.cuts, self.settings, self.stop, self.report = cuts or Cuts(), settings, stop, report
        self.instance = joint_instance(graph)
        self.stage = _Stage(None, 0, 0)

    def check(self, plan: Plan) -> tuple[int, int]:
        """Return the objective and the second number of a valid plan."""
        checked = check_plan(self.graph, plan)
        numbers = (checked.slab, checked.peak)
        return numbers if self.objective is Objective.SLAB else numbers[::-1]

    def better(self, plan: Plan | None, other: Plan | None) -> bool:
        """Whether `plan` beats the other one."""
        if plan is None:
            return False
        return other is None or self.check(plan) < self.check(other)

    def run_stages(self, limits: Limits, started: float) -> None:
        """Find an order of least peak, then pack it; try a few such orders."""
        stage, plan = self.stage, self.stage.plan
        if plan is not None and self._fits(self.check(plan)[0]):
            self.stage = replace(stage, stop=Stop.CLAIMED)
            return
        ordered = solve_order(
            self.graph,
            capacity=self.capacity,
            warm_start=None if plan is None else plan.order,
            peak_bound=stage.peak_bound,
            on_event=self.report.bound_only,
            **self._stage_options(ORDER_SHARE, limits, started),
        )
        bound = max(ordered.bound, stage.peak_bound)
        self.stage = stage = _Stage(plan, bound, max(bound, stage.slab_bound), _ended(ordered))
        if stage.stop is not None or ordered.order is None or ordered.value is None:
            return
        target = max(ordered.value, stage.slab_bound) if self.capacity is None else self.capacity
        order: Sequence[int] = ordered.order
        for attempt in range(ATTEMPTS):
            options = self._stage_options(TRY_SHARE, limits, started)
            if attempt:
                other = replace(options["limits"], seed=limits.seed + attempt)
                again = solve_order(
                    self.graph, capacity=ordered.value, **{**options, "limits": other}
                )
                order = again.order or order
            self._pack(order, target, options)
            if self.stage.stop is not None:
                return
        options = self._stage_options(ORDER_SHARE, limits, started)
        self._pack(ordered.order, self.capacity, options)

    def _pack(self, order: Sequence[int], capacity: int | None, options: dict[str, Any]) -> None:
        """Pack an order, within a capacity if one is given, and keep the plan if it is better."""
        stage = self.stage
        problem, _ = packing_problem(self.graph, order)
        packed = solve_packing(
            problem,
            capacity=capacity,
            slab_bound=0 if capacity is not None else stage.slab_bound,
            on_event=self.report.incumbent_only,
            **options,
        )
        if packed.offsets is not None:
            made = make_plan(self.graph, order, np.array(packed.offsets, np.int64))
            if self.better(made, stage.plan):
                stage = replace(stage, plan=made)
        self.stage = replace(stage, stop=self._closed(stage) or _interrupted(packed))

    def solve(self, limits: Limits) -> CpSatOutcome:
        """Run the joint model."""
        instance, stage = self.instance, self.stage
        given = stage.plan
        task = Task(self.capacity, limits, self.report.both, self.cuts, self.settings, self.stop)
        start, rank = None, None
        if given is not None:
            rank = self.check(given)
            if task.met_by(rank[0]):
                return task.unchanged(rank, order=given.order, plan=given)
            places = [_required(given.offsets[item.id]) for item in instance.items]
            start = canonical(instance, given.order, places, self.cuts)
        variables = joint_model(instance, self.cuts)
        bounds = (instance.up(stage.peak_bound), instance.up(stage.slab_bound))
        add_bounds(variables, peak=bounds[0], slab=bounds[1])
        targets = [
            Target(variables.slab, slab_of, stage.slab_bound),
            Target(variables.peak, peak_of, stage.peak_bound),
        ]
        if self.objective is Objective.PEAK:
            targets.reverse()
        found = minimize(variables, targets, start, rank, task)
        plan = given if found.point is None else _plan_of(self.graph, found.point)
        return replace(found.outcome, order=None if plan is None else plan.order, plan=plan)

    def finish(self, stop: Stop) -> CpSatOutcome:
        """Return what is known so far."""
        stage, plan = self.stage, self.stage.plan
        numbers = None if plan is None else self.check(plan)
        bounds = (stage.slab_bound, stage.peak_bound)
        bound, tie_bound = bounds if self.objective is Objective.SLAB else bounds[::-1]
        return CpSatOutcome(
            value=None if numbers is None else numbers[0],
            bound=bound,
            stop=stop,
            order=None if plan is None else plan.order,
            plan=plan,
            tie_value=None if numbers is None else numbers[1],
            tie_bound=tie_bound,
        )

    def _fits(self, value: int) -> bool:
        return self.capacity is not None and value <= self.capacity

    def _closed(self, stage: _Stage) -> Stop | None:
        """Whether a plan answers the question or meets both bounds."""
        if stage.plan is None:
            return None
        slab, peak = self.check(stage.plan)
        met = slab <= stage.slab_bound and peak <= stage.peak_bound and self.capacity is None
        return Stop.CLAIMED if met or self._fits(slab) else None

    def _stage_options(self, share: float, limits: Limits, started: float) -> dict[str, Any]:
        """What every stage is told; `share` of the whole time is the most it may take."""
        left = remaining(limits, started)
        if limits.seconds is not None and left.seconds is not None:
            left = replace(left, seconds=min(left.seconds, share * limits.seconds))
        work = {"max_deterministic_time": share * STAGE_WORK}
        return {
            "limits": left,
            "cuts": self.cuts,
            "settings": Settings({**self.settings.parameters, **work}),
            "stop": self.stop,
        }


class _Report:
    """Passes on the best value and bound of all stages; neither ever moves back."""

    def __init__(self, on_event: OnEvent | None, started: float) -> None:
        self.on_event, self.started = on_event, started
        self.value: int | None = None
        self.bound = 0

    def both(self, event: Event) -> None:
        """Take in an event of the joint model."""
        self._move(event.incumbent, event.bound)

    def bound_only(self, event: Event) -> None:
        """Take in an event of the order: its bound holds for the slab, its value does not."""
        self._move(None, event.bound)

    def incumbent_only(self, event: Event) -> None:
        """Take in an event of the packing: its value is a slab, its bound is of one order."""
        self._move(event.incumbent, 0)

    def _move(self, value: int | None, bound: int) -> None:
        known = [v for v in (value, self.value) if v is not None]
        moved = (min(known, default=None), max(bound, self.bound))
        if moved == (self.value, self.bound) or self.on_event is None:
            return
        self.value, self.bound = moved
        seconds = time.perf_counter() - self.started
        self.on_event(Event(seconds, self.value, self.bound, SOURCE))


def _ended(outcome: CpSatOutcome) -> Stop | None:
    """Why to stop after the order: no order is small enough, or the user asked."""
    if outcome.stop is Stop.INFEASIBLE:
        return Stop.INFEASIBLE
    return _interrupted(outcome)


def _interrupted(outcome: CpSatOutcome) -> Stop | None:
    return Stop.INTERRUPTED if outcome.stop is Stop.INTERRUPTED else None


def _required(offset: int | None) -> int:
    if offset is None:
        raise PlanError("warm start leaves a live buffer without an offset")
    return offset


def _plan_of(graph: Graph, point: Point) -> Plan:
    instance = point.instance
    places = {
        item.id: offset * instance.unit
        for item, offset in zip(instance.items, point.offsets, strict=True)
    }
    return Plan(point.order, tuple(places.get(root) for root in graph.roots))
