"""The three forms of the problem, solved; and a second opinion on a claim."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from optsched.check import check_order, check_packing, check_plan
from optsched.cpsat.canonical import canonical
from optsched.cpsat.constraints import add_bounds
from optsched.cpsat.cuts import NO_CUTS, Cuts
from optsched.cpsat.instance import (
    Instance,
    joint_instance,
    order_instance,
    packing_instance,
)
from optsched.cpsat.model import joint_model, order_model, packing_model
from optsched.cpsat.outcome import CpSatOutcome, Stop
from optsched.cpsat.solver import SAFE, SECOND, Run, Settings, StopSignal, remaining, run
from optsched.cpsat.variables import Point, Variables
from optsched.errors import PlanError
from optsched.graph import Graph
from optsched.liveness import Order
from optsched.plan import Plan
from optsched.problem import PackingProblem
from optsched.result import Event, Limits, Objective, OnEvent

SOURCE = "cpsat"
"""Name of this engine in events."""


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
) -> CpSatOutcome:
    """Choose order and offsets together; ties in the objective are broken by the other number.

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
        Proved lower bounds in bytes.
    on_event
        Called in this thread with every incumbent and bound. If it raises, the search is stopped
        and the error passed on; KeyboardInterrupt ends the search with the incumbent.
    cuts, settings
        Rules of dominance and symmetry; the configuration of CP-SAT.
    stop
        Ends the search when another thread sets it.

    Raises
    ------
    UsageError
        If sizes are outside the range in which CP-SAT is exact.
    PlanError
        If the warm start is no valid plan.
    """
    slab_first = objective is Objective.SLAB
    task = _Task(capacity, limits, on_event, cuts, settings, stop)
    instance = joint_instance(graph)
    start, rank = None, None
    if warm_start is not None:
        checked = check_plan(graph, warm_start)
        rank = (checked.slab, checked.peak) if slab_first else (checked.peak, checked.slab)
        if task.met_by(rank[0]):
            return task.unchanged(rank, order=warm_start.order, plan=warm_start)
        places = [_required(warm_start.offsets[item.id]) for item in instance.items]
        start = canonical(instance, warm_start.order, places, task.cuts)
    if len(instance.pools) <= 1:
        slab_bound = max(slab_bound, peak_bound)
    variables = joint_model(instance, task.cuts)
    add_bounds(variables, peak=instance.up(peak_bound), slab=instance.up(slab_bound))
    slab, peak = (variables.slab, _slab, slab_bound), (variables.peak, _peak, peak_bound)
    targets = [_Target(*slab), _Target(*peak)] if slab_first else [_Target(*peak), _Target(*slab)]
    found = _minimize(variables, targets, start, rank, task)
    if found.point is None:
        if warm_start is None:
            return found.outcome
        return replace(found.outcome, order=warm_start.order, plan=warm_start)
    plan = Plan(found.point.order, _graph_offsets(graph, found.point))
    return replace(found.outcome, order=plan.order, plan=plan)


def solve_order(
    graph: Graph,
    *,
    capacity: int | None = None,
    limits: Limits | None = None,
    warm_start: Order | None = None,
    peak_bound: int = 0,
    on_event: OnEvent | None = None,
    cuts: Cuts | None = None,
    settings: Settings = SAFE,
    stop: StopSignal | None = None,
) -> CpSatOutcome:
    """Choose an order of least peak; parameters as of :func:`solve_joint`."""
    task = _Task(capacity, limits, on_event, cuts, settings, stop)
    instance = order_instance(graph)
    start, rank, given = None, None, None
    if warm_start is not None:
        given = tuple(int(v) for v in warm_start)
        rank = (check_order(graph, given),)
        if task.met_by(rank[0]):
            return task.unchanged(rank, order=given)
        start = canonical(instance, given, None, task.cuts)
    variables = order_model(instance, task.cuts)
    add_bounds(variables, peak=instance.up(peak_bound))
    targets = [_Target(variables.peak, _peak, peak_bound)]
    found = _minimize(variables, targets, start, rank, task)
    return replace(found.outcome, order=given if found.point is None else found.point.order)


def solve_packing(
    problem: PackingProblem,
    *,
    capacity: int | None = None,
    limits: Limits | None = None,
    warm_start: Sequence[int] | None = None,
    slab_bound: int = 0,
    on_event: OnEvent | None = None,
    cuts: Cuts | None = None,
    settings: Settings = SAFE,
    stop: StopSignal | None = None,
) -> CpSatOutcome:
    """Choose offsets of least slab for given live ranges; parameters as of :func:`solve_joint`.

    Gaps are supported: the parts of a buffer share its offset.
    """
    task = _Task(capacity, limits, on_event, cuts, settings, stop)
    instance = packing_instance(problem)
    start, rank, given = None, None, None
    if warm_start is not None:
        given = tuple(int(offset) for offset in warm_start)
        rank = (check_packing(problem, given),)
        if task.met_by(rank[0]):
            return task.unchanged(rank, offsets=given)
        start = canonical(instance, (), [given[item.id] for item in instance.items], task.cuts)
    slab_bound = max(slab_bound, problem.max_load)
    variables = packing_model(instance, task.cuts)
    add_bounds(variables, slab=instance.up(slab_bound))
    targets = [_Target(variables.slab, _slab, slab_bound)]
    found = _minimize(variables, targets, start, rank, task)
    if found.point is None:
        return replace(found.outcome, offsets=given)
    offsets = [max(0, int(pin)) for pin in problem.pin]
    for item, offset in zip(instance.items, found.point.offsets, strict=True):
        offsets[item.id] = offset * instance.unit
    return replace(found.outcome, offsets=tuple(offsets))


class Verdict(StrEnum):
    """What a second opinion says of a claim."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A second opinion, and the better answer if it refutes the claim."""

    verdict: Verdict
    outcome: CpSatOutcome


def confirm(
    form: Callable[..., CpSatOutcome], claim: CpSatOutcome, *, limits: Limits
) -> Confirmation:
    """Ask again whether anything lies below a claimed bound, as differently as can be.

    No presolve, no symmetries, no cuts, no bounds of ours, no warm start, and a decision in place
    of an objective. Two configurations that agree are still no proof.

    Parameters
    ----------
    form
        What made the claim: `partial(solve_joint, graph)`, say.
    claim
        Its answer.
    limits
        Of the second run.

    Examples
    --------
    >>> from functools import partial
    >>> from optsched.builder import GraphBuilder
    >>> build = GraphBuilder()
    >>> build.op("a", writes={"x": 4})
    >>> form = partial(solve_joint, build.build())
    >>> confirm(form, form(), limits=Limits(10)).verdict
    <Verdict.CONFIRMED: 'confirmed'>
    """
    below = form(capacity=claim.bound - 1, limits=limits, cuts=NO_CUTS, settings=SECOND)
    if below.infeasible:
        return Confirmation(Verdict.CONFIRMED, below)
    found = below.value is not None and below.value < claim.bound
    return Confirmation(Verdict.REFUTED if found else Verdict.OPEN, below)


@dataclass(frozen=True, slots=True)
class _Target:
    """A variable to be made least, its meaning, and a proved bound on it in bytes."""

    variable: Any
    meaning: Callable[[Point], int]
    bound: int


@dataclass(frozen=True, slots=True)
class _Found:
    """An outcome, and the point to complete it with where that beats the warm start."""

    outcome: CpSatOutcome
    point: Point | None


class _Task:
    """What all forms are asked in the same way."""

    def __init__(
        self,
        capacity: int | None,
        limits: Limits | None,
        on_event: OnEvent | None,
        cuts: Cuts | None,
        settings: Settings,
        stop: StopSignal | None,
    ) -> None:
        self.capacity, self.settings, self.stop = capacity, settings, stop
        self.limits = limits or Limits()
        self.on_event = on_event
        self.cuts = cuts or Cuts()
        self.started = time.perf_counter()

    def seconds(self) -> float:
        """Time since the start."""
        return time.perf_counter() - self.started

    def met_by(self, value: int) -> bool:
        """Whether a value answers the question for a capacity."""
        return self.capacity is not None and value <= self.capacity

    def unchanged(self, rank: Sequence[int], **answer: Any) -> CpSatOutcome:
        """Return the warm start, since it fits."""
        return CpSatOutcome(
            value=rank[0],
            bound=0,
            stop=Stop.CLAIMED,
            tie_value=rank[1] if len(rank) > 1 else None,
            seconds=self.seconds(),
            **answer,
        )

    def run(
        self,
        variables: Variables,
        value: Callable[[Point], tuple[int, ...]],
        hint: Point | None,
        on_progress: Callable[[Run], None] | None = None,
    ) -> Run:
        """Run CP-SAT for the time that is left."""
        return run(
            variables,
            value,
            limits=remaining(self.limits, self.started),
            settings=self.settings,
            hint=hint,
            stop=self.stop,
            on_progress=on_progress,
        )


def _minimize(
    variables: Variables,
    targets: Sequence[_Target],
    start: Point | None,
    rank: tuple[int, ...] | None,
    task: _Task,
) -> _Found:
    """Make the targets least, one after another; `rank` is what the warm start has of them."""
    unit, first = variables.instance.unit, targets[0]

    def value(point: Point) -> tuple[int, ...]:
        return tuple(target.meaning(point) for target in targets)

    watch = _Watch(task, unit, first, None if rank is None else rank[0])
    if task.capacity is not None:
        variables.model.add(first.variable <= variables.instance.down(task.capacity))
    else:
        variables.model.minimize(first.variable)
        if start is not None:
            variables.model.add(first.variable <= first.meaning(start))
    found = task.run(variables, value, start, watch)
    watch(found)
    best, bound = found.best, watch.bound
    if task.capacity is not None and found.finished and best is None:
        bound = max(bound, task.capacity + 1)
    if best is None or (start is not None and value(start) < value(best)):
        # The start may be better than the plan it was made of.
        best = start if task.capacity is None else None
    tie_bound = targets[-1].bound if len(targets) > 1 else 0
    closed = best is not None and first.meaning(best) * unit <= bound
    if closed and len(targets) > 1 and task.capacity is None and not found.interrupted:
        assert best is not None
        best, tie_bound, found = _break_tie(variables, targets, best, value, task)
    return _assemble(best, value, rank, bound, tie_bound, found, task, unit)


def _break_tie(
    variables: Variables,
    targets: Sequence[_Target],
    best: Point,
    value: Callable[[Point], tuple[int, ...]],
    task: _Task,
) -> tuple[Point, int, Run]:
    """Among the plans that are as good in the first target make the second least."""
    first, second = targets
    unit = variables.instance.unit
    if second.meaning(best) * unit <= second.bound:
        return best, second.bound, Run(best, finished=True)
    variables.model.add(first.variable <= first.meaning(best))
    variables.model.add(second.variable <= second.meaning(best))
    variables.model.minimize(second.variable)
    found = task.run(variables, value, best)
    if found.best is not None and value(found.best) < value(best):
        best = found.best
    return best, max(second.bound, (found.bound or 0) * unit), found


def _assemble(
    best: Point | None,
    value: Callable[[Point], tuple[int, ...]],
    rank: tuple[int, ...] | None,
    bound: int,
    tie_bound: int,
    found: Run,
    task: _Task,
    unit: int,
) -> _Found:
    """Tell the outcome from integers, and keep the warm start unless something beats it."""
    reached = None if best is None else tuple(number * unit for number in value(best))
    improved = reached is not None and (rank is None or reached < rank)
    final = reached if improved else rank
    if found.interrupted:
        why = Stop.INTERRUPTED
    elif not found.finished and not (final is not None and final[0] <= bound):
        why = Stop.TIME_LIMIT
    elif best is None:
        why = Stop.INFEASIBLE
    else:
        why = Stop.CLAIMED if found.finished else Stop.TIME_LIMIT
    outcome = CpSatOutcome(
        value=None if final is None else final[0],
        bound=bound,
        stop=why,
        tie_value=final[1] if final is not None and len(final) > 1 else None,
        tie_bound=tie_bound,
        improved=improved,
        seconds=task.seconds(),
    )
    return _Found(outcome, best if improved else None)


class _Watch:
    """Keeps the claimed bound and passes on what moved."""

    def __init__(self, task: _Task, unit: int, target: _Target, value: int | None) -> None:
        self.task, self.unit, self.target = task, unit, target
        self.value, self.bound = value, target.bound
        self.told: tuple[int | None, int] = (value, target.bound)

    def __call__(self, state: Run) -> None:
        """Take in the state of a run."""
        if state.bound is not None:
            self.bound = max(self.bound, state.bound * self.unit)
        if state.best is not None:
            value = self.target.meaning(state.best) * self.unit
            self.value = value if self.value is None else min(value, self.value)
        if self.told != (self.value, self.bound) and self.task.on_event is not None:
            self.told = (self.value, self.bound)
            self.task.on_event(Event(self.task.seconds(), self.value, self.bound, SOURCE))


def _slab(point: Point) -> int:
    return point.slab


def _peak(point: Point) -> int:
    return point.peak


def _required(offset: int | None) -> int:
    if offset is None:
        raise PlanError("warm start leaves a live buffer without an offset")
    return offset


def _graph_offsets(graph: Graph, point: Point) -> tuple[int | None, ...]:
    instance: Instance = point.instance
    places = {
        item.id: offset * instance.unit
        for item, offset in zip(instance.items, point.offsets, strict=True)
    }
    return tuple(places.get(root) for root in graph.roots)
