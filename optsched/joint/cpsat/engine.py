"""Minimises one number after another and tells what came of it, whatever the form."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from optsched.joint.cpsat.cuts import Cuts
from optsched.joint.cpsat.outcome import CpSatOutcome, Stop
from optsched.joint.cpsat.solver import Run, Settings, StopSignal, remaining, run
from optsched.joint.cpsat.variables import Point, Variables
from optsched.runtime.limits import Event, Limits, OnEvent

SOURCE = "cpsat"
"""Name of this engine in events."""


@dataclass(frozen=True, slots=True)
class Target:
    """A variable to be made least, its meaning, and a proved bound on it in bytes."""

    variable: Any
    meaning: Callable[[Point], int]
    bound: int


@dataclass(frozen=True, slots=True)
class Found:
    """An outcome, and the point to complete it with where that beats the warm start."""

    outcome: CpSatOutcome
    point: Point | None


class Task:
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

    def interrupted(self, rank: Sequence[int] | None, bound: int, **answer: Any) -> CpSatOutcome:
        """Return the warm start, if any, since Ctrl-C came before the search began."""
        value = None if rank is None else rank[0]
        seconds = self.seconds()
        return CpSatOutcome(value, bound, Stop.INTERRUPTED, seconds=seconds, **answer)

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


def minimize(
    variables: Variables,
    targets: Sequence[Target],
    start: Point | None,
    rank: tuple[int, ...] | None,
    task: Task,
) -> Found:
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
    targets: Sequence[Target],
    best: Point,
    value: Callable[[Point], tuple[int, ...]],
    task: Task,
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
    task: Task,
    unit: int,
) -> Found:
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
    return Found(outcome, best if improved else None)


class _Watch:
    """Keeps the claimed bound and passes on what moved."""

    def __init__(self, task: Task, unit: int, target: Target, value: int | None) -> None:
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


def slab_of(point: Point) -> int:
    """Units of the slab."""
    return point.slab


def peak_of(point: Point) -> int:
    """Units of the peak."""
    return point.peak
