"""Run of all methods on one graph, in sequence; each outcome is reported as soon as it is known."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from heuristics import load_plugins
from optsched.check.plan import check_plan
from optsched.compare.measure import MethodRunner
from optsched.compare.methods import Exact, Method
from optsched.compare.module import runner_of
from optsched.compare.rows import Failed, Measured, StockPlan, was_interrupted
from optsched.compare.saving import plan_not_compared
from optsched.errors import OptschedError, PlanError
from optsched.formats.reading import AS_RECORDED, GraphReading, is_broken_graph
from optsched.formats.source import label_of, read_bytes
from optsched.model.graph import Graph
from optsched.model.module import Module, listed_graph
from optsched.model.question import restriction_words
from optsched.runtime.clock import Clock
from optsched.runtime.limits import DEFAULT_LIMITS, Event, Limits, OnEvent
from optsched.runtime.text import named
from optsched.runtime.worker_pool import GRACE, Deadline
from optsched.solver.result import Result
from optsched.solver.schedule import Engine

EVENT_PAUSE = 0.1
"""Minimum seconds between two events that are passed on."""


@dataclass(frozen=True, slots=True)
class StudySettings:
    """Settings of a study: all that its outcomes depend on besides files and code."""

    methods: tuple[Method, ...]
    """Methods to compare."""
    limits: Limits = DEFAULT_LIMITS
    engine: Engine = Engine.AUTO
    """Engine of solvers without one of their own, as `limits` for those without limits."""
    reading: GraphReading = AS_RECORDED
    """Options for reading graphs, with the memory model."""
    jobs: int = 1
    """Number of worker processes; 0 runs everything in the current process."""
    grace: float = GRACE
    """Seconds past its limit after which a method's process is ended."""

    def record(self) -> dict[str, str | int | float | bool | None]:
        """Return the settings as JSON and tables show them, without the methods."""
        return {
            "time_limit": self.limits.seconds,
            "work": self.limits.work,
            "workers": self.limits.workers,
            "seed": self.limits.seed,
            "jobs": self.jobs,
            "engine": str(self.engine),
            **self.reading.record(),
        }


@dataclass(frozen=True, slots=True)
class GraphTask:
    """A graph's file and the methods to measure on it."""

    number: int
    """Index of the graph's file."""
    path: str
    methods: tuple[Method, ...]
    """Methods that have no outcome yet."""
    reference: Exact
    """Our own solver, which provides the bound and the order that packing methods pack."""
    settings: StudySettings
    """Settings of the study."""
    known: Result | None = None
    """Result of the reference, if it is already known."""
    held: Module | None = None
    """The graph itself, if it has no file; the path is its name."""

    @property
    def patience(self) -> float | None:
        """Seconds after which a foreign method of this process is abandoned, if it has a limit."""
        seconds = self.settings.limits.seconds
        # The process of a task with a file can be ended instead.
        return None if seconds is None or not self.held else seconds + self.settings.grace


@dataclass(frozen=True, slots=True)
class Opened:
    """Message that the graph was read."""

    graph: Graph
    digest: str
    """SHA-256 of the file's content."""
    among: str = ""
    """Plans that bounds will be about, in words; empty if they are all of the graph's."""
    own_plan: StockPlan | None = None
    """Plan of the graph's framework, unless its method is among those compared."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file without figures, and the reason.

    `bad` is False for a file that does not contain a graph and was not named by the user. `cut_off`
    is True if an interrupt is the only reason.
    """

    path: str
    reason: str
    bad: bool
    cut_off: bool = False

    @property
    def state(self) -> str:
        """State of the graph, as the table of a fleet names it."""
        return "failed" if self.bad else "waiting" if self.cut_off else "skipped"

    def __str__(self) -> str:
        return named(label_of(self.path), self.reason)


@dataclass(frozen=True, slots=True)
class Started(Deadline):
    """Message that a method starts."""

    method: Method


Message = Opened | Skipped | Started | Event | Measured | Failed


def work_on(task: GraphTask, tell: Callable[[Message], None]) -> None:
    """Read the graph of a task and measure its methods; report each step to `tell`."""
    load_plugins()
    settings = task.settings
    try:
        module = task.held or settings.reading.read_ordered_module(task.path)
        graph = listed_graph(module)
        digest = "" if task.held else digest_of(task.path)
    # Not every file of a folder is a graph; one that is broken is an error.
    except OptschedError as error:
        bad = task.held is not None or is_broken_graph(task.path)
        tell(Skipped(task.path, str(error), bad))
        return
    task, order = _settle(task, module, graph)
    own_plan = plan_not_compared(module if module.calls else graph, settings.methods)
    tell(Opened(graph, digest, scope_of(module, graph, settings), own_plan))
    runner = runner_of(
        module,
        graph,
        settings.limits,
        settings.engine,
        best_order=order,
        on_event=tell if task.held else _sparsely(tell),
        patience=task.patience,
    )
    measure_all(runner, task.methods, task.reference, tell)


def scope_of(module: Module, graph: Graph, settings: StudySettings) -> str:
    """Return in words which plans the bounds for a module's entry are about; empty for all."""
    # Names of the graph, since the options may be patterns.
    orders = restriction_words(settings.reading.order_rules(graph), streams=graph.streams)
    return " and ".join(filter(None, (orders, module.layouts)))


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file's decompressed content."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def measure_all(
    runner: MethodRunner,
    methods: Sequence[Method],
    reference: Exact,
    tell: Callable[[Started | Measured | Failed], None],
) -> None:
    """Measure methods, the reference first, because packing methods pack its order.

    Stop early if a solver was interrupted.
    """
    # False sorts before True, so the reference comes first.
    for method in sorted(methods, key=lambda m: m.name != reference.name):
        tell(Started(runner.limits_of(method).seconds, method))
        outcome = runner.measure(method)
        tell(outcome)
        # The rest of the methods would run for nothing.
        if was_interrupted(outcome):
            return
        result = outcome.result if isinstance(outcome, Measured) else None
        if method == reference and result is not None and result.plan is not None:
            runner.best_order = result.plan.order


def _sparsely(tell: Callable[[Message], None]) -> OnEvent:
    """Return a callback that passes on at most one event per `EVENT_PAUSE` seconds."""
    pause = Clock.of(Limits(0.0))

    def told(event: Event) -> None:
        nonlocal pause
        # Workers send events through a pipe, which many events would fill.
        if pause.expired():
            pause = Clock.of(Limits(EVENT_PAUSE))
            tell(event)

    return told


def _settle(
    task: GraphTask, module: Module, graph: Graph
) -> tuple[GraphTask, tuple[int, ...] | None]:
    """Return the task and its known best order, if the known plan is valid.

    A plan from a journal is checked before other methods build on its order. If the check fails,
    our own solver runs again. It also runs again on a module, because a journal stores only the
    plan of the entry.
    """
    known = task.known
    if known is None or known.plan is None:
        return task, None
    if not module.calls:
        with suppress(PlanError):
            check_plan(graph, known.plan, peak=known.peak, slab=known.slab)
            return task, known.plan.order
    return replace(task, known=None, methods=(task.reference, *task.methods)), None
