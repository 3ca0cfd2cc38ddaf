"""All methods on one graph, one after the other, each outcome told as soon as it is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from optsched.check.plan import check_plan
from optsched.compare.measure import Bench
from optsched.compare.methods import Exact, Method
from optsched.compare.rows import Failed, Measured, Outcome, was_interrupted
from optsched.errors import OptschedError, PlanError
from optsched.formats import Content, read_graph, sniff_file
from optsched.model.graph import Graph
from optsched.runtime.limits import Event, Limits
from optsched.solver.pipeline import Engine
from optsched.solver.result import Result


@dataclass(frozen=True, slots=True)
class Task:
    """A graph's file and what is to be measured on it.

    Parameters
    ----------
    number
        Which of all graphs it is.
    path
        The file.
    methods
        Those that have no outcome yet.
    reference
        Our own method, which brings the bound and the order that packings are given.
    limits, engine
        Of solvers without their own.
    input_bytes, in_place
        The memory model.
    known
        The reference's result, if it is there from a run before.
    """

    number: int
    path: str
    methods: tuple[Method, ...]
    reference: Exact
    limits: Limits
    engine: Engine = Engine.AUTO
    input_bytes: str = "recorded"
    in_place: bool = False
    known: Result | None = None

    def after(self, outcome: Outcome) -> Task:
        """Return what is left once a method has its outcome."""
        left = tuple(m for m in self.methods if m.name != outcome.method)
        if outcome.method == self.reference.name and isinstance(outcome, Measured):
            return replace(self, methods=left, known=outcome.result)
        return replace(self, methods=left)


@dataclass(frozen=True, slots=True)
class Opened:
    """The graph was read."""

    graph: Graph


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The file holds no graph; `bad` is False for a plan or the like that lies beside graphs."""

    reason: str
    bad: bool


@dataclass(frozen=True, slots=True)
class Started:
    """A method has its turn and may take so many seconds, or as long as it likes."""

    method: Method
    seconds: float | None


Message = Opened | Unreadable | Started | Event | Measured | Failed


def work_on(task: Task, tell: Callable[[Message], None]) -> None:
    """Read the graph of a task and measure its methods.

    Parameters
    ----------
    task
        What to do.
    tell
        Told each step as it happens.
    """
    try:
        graph = read_graph(task.path, input_bytes=task.input_bytes)
    except OptschedError as error:
        tell(Unreadable(str(error), bad=_is_bad(task.path)))
        return
    if task.in_place:
        graph = graph.with_inplace()
    task, order = _settle(task, graph)
    tell(Opened(graph))
    bench = Bench(graph, task.limits, task.engine, task.path, order, tell)
    measure_all(bench, task.methods, task.reference, tell)


def measure_all(
    bench: Bench,
    methods: Sequence[Method],
    reference: Exact,
    tell: Callable[[Started | Measured | Failed], None],
) -> None:
    """Measure methods on a bench, the reference first: packings are given its order.

    Ends early where a solver was interrupted.
    """
    for method in sorted(methods, key=lambda m: m.name != reference.name):
        limits = bench.limits_of(method) if isinstance(method, Exact) else bench.limits
        tell(Started(method, limits.seconds))
        outcome = bench.measure(method)
        tell(outcome)
        if was_interrupted(outcome):
            return
        result = outcome.result if isinstance(outcome, Measured) else None
        if method == reference and result is not None and result.plan is not None:
            bench.best_order = result.plan.order


def _settle(task: Task, graph: Graph) -> tuple[Task, tuple[int, ...] | None]:
    """Return the task and the order that is known to be best, if the known plan is valid.

    A plan that comes from a file is checked before its order is built on; if it breaks a rule, our
    own method runs again.
    """
    if task.known is None or task.known.plan is None:
        return task, None
    try:
        check_plan(graph, task.known.plan, peak=task.known.peak, slab=task.known.slab)
    except PlanError:
        return replace(task, known=None, methods=(task.reference, *task.methods)), None
    return task, task.known.plan.order


def _is_bad(path: str) -> bool:
    """Whether a file that is no graph is broken, and not simply something else we know."""
    try:
        return sniff_file(path).holds is Content.GRAPH
    except OptschedError:
        return True
