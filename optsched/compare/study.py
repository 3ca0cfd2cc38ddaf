"""Comparison of methods on many graphs, in several processes, with progress and resumption."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from heuristics import OWN_ORDERINGS
from optsched.compare.journal import Journal, keys_of
from optsched.compare.methods import Exact, Kind, Method, with_reference
from optsched.compare.rows import (
    Comparison,
    Failed,
    Measured,
    Outcome,
    Trouble,
    judge,
    told_apart,
    was_interrupted,
)
from optsched.compare.saving import best_order, held_with
from optsched.compare.task import (
    GraphTask,
    Message,
    Opened,
    Skipped,
    Started,
    StudySettings,
    work_on,
)
from optsched.errors import OptschedError
from optsched.model.graph import Graph
from optsched.model.module import Module, module_of
from optsched.ordering.bound.single_ops import peak_lower_bound
from optsched.runtime.limits import Event, Objective, OnEvent
from optsched.runtime.shown import Shown
from optsched.runtime.text import counted
from optsched.runtime.worker_pool import WorkerLoss, run_tasks


@dataclass(frozen=True, slots=True)
class Study(Shown):
    """The results of a run over many graphs."""

    methods: tuple[Method, ...]
    """All requested methods, with our own solver."""
    settings: StudySettings
    comparisons: tuple[Comparison, ...]
    """One comparison per graph with figures, in the order of the files, each of another name."""
    skipped: tuple[Skipped, ...]
    """Files without figures."""
    interrupted: bool = False
    """True if the run was interrupted."""
    reused: int = 0
    """Number of outcomes taken from the journal."""

    def __post_init__(self) -> None:
        # Every table, page and record of a study has a row per graph, known by its name.
        object.__setattr__(self, "comparisons", told_apart(self.comparisons))

    def __repr__(self) -> str:
        graphs, methods = len(self.comparisons), counted(len(self.methods), "method")
        return f"Study({counted(graphs, 'graph')}, {len(self.skipped)} skipped, {methods})"

    @property
    def equals(self) -> dict[str, str]:
        """Names of graphs that equal an earlier one except for names, each with that one's name."""
        found, first = {}, dict[bytes, str]()
        # A digest takes a while for a large graph, and one graph equals no other.
        for graph in (c.graph for c in self.comparisons if len(self.comparisons) > 1):
            if (known := first.setdefault(graph.digest, graph.name)) != graph.name:
                found[graph.name] = known
        return found


@dataclass(frozen=True, slots=True)
class Standing:
    """Progress of a run: graphs done, and the latest message of a graph in progress."""

    done: int
    total: int
    path: str
    """Path of the graph's file."""
    method: str = ""
    """Method that is running on the graph; empty between methods."""
    event: Event | None = None
    """Latest incumbent and bound of a solver, if it reported any."""


@dataclass
class _Slot:
    """State of one file: its graph and the outcomes so far."""

    path: str
    named: bool
    held: Module | None = None
    keys: dict[str, str] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    problem: Skipped | None = None
    running: Method | None = None
    opened: Opened | None = None


def compare_files(
    paths: Sequence[str],
    settings: StudySettings,
    *,
    named: Sequence[bool] | None = None,
    journal: Journal | None = None,
    on_progress: Callable[[Standing], None] | None = None,
) -> Study:
    """Compare methods on the graphs of files.

    `named` has one flag per file: True (the default for all) if the user named the file. A file
    that was not named and does not contain a graph is skipped without an error. Outcomes found in
    the journal are reused; new outcomes are appended.
    """
    by_name = named or [True] * len(paths)
    slots = [_Slot(path, name) for path, name in zip(paths, by_name, strict=True)]
    methods, reference = with_reference(settings.methods)
    return _StudyRun(slots, settings, methods, reference, journal, on_progress).study()


def compare_graphs(
    graphs: Sequence[Graph | Module], settings: StudySettings, on_event: OnEvent | None = None
) -> Study:
    """Compare methods on graphs in memory, in the current process."""
    modules = [x if isinstance(x, Module) else module_of(x) for x in graphs]
    slots = [_Slot(module.name, True, module) for module in modules]
    methods, reference = with_reference(settings.methods)
    return _StudyRun(slots, settings, methods, reference, None, None, on_event).study()


@dataclass
class _StudyRun:
    """A run over many graphs: the state of each file, from the journal and from workers."""

    slots: list[_Slot]
    settings: StudySettings
    methods: tuple[Method, ...]
    reference: Exact
    journal: Journal | None
    on_progress: Callable[[Standing], None] | None
    on_event: OnEvent | None = None
    done: set[int] = field(default_factory=set)
    reused: int = 0

    def study(self) -> Study:
        """Run the methods without an outcome, then compare all outcomes."""
        settings = self.settings
        tasks = [task for i in range(len(self.slots)) if (task := self._task(i)) is not None]
        complete = run_tasks(
            tasks, work_on, self._handle, self._lose, jobs=settings.jobs, grace=settings.grace
        )
        found = [self._judge(slot) for slot in self.slots]
        return Study(
            self.methods,
            settings,
            tuple(x for x in found if isinstance(x, Comparison)),
            tuple(x for x in found if isinstance(x, Skipped)),
            not complete,
            self.reused,
        )

    def _task(self, number: int) -> GraphTask | None:
        """Return the task for a file, without methods whose outcomes are in the journal."""
        slot = self.slots[number]
        task = GraphTask(
            number, slot.path, self.methods, self.reference, self.settings, held=slot.held
        )
        if slot.held is not None:
            return task
        # A socket or a pipe in a folder could block the reader forever.
        if not slot.named and not os.path.isfile(slot.path):
            slot.problem = Skipped(slot.path, f"{slot.path}: not a regular file", bad=False)
            return None
        if self.journal is None:
            return task
        try:
            slot.keys = keys_of(task)
        # Without keys nothing can be recorded, so the file is refused here.
        except OptschedError as error:
            slot.problem = Skipped(slot.path, str(error), bad=True)
            return None
        known = {m.name: self.journal.get(slot.keys.get(m.name)) for m in self.methods}
        if not isinstance(known[self.reference.name], Measured):
            # The reference runs again and may find another order, so recorded packings of the old
            # order do not apply.
            packings = {m.name for m in self.methods if m.kind is Kind.PACKING}
            known = {name: None if name in packings else x for name, x in known.items()}
        slot.outcomes = {name: x for name, x in known.items() if x is not None}
        self.reused += len(slot.outcomes)
        return self._left(task, slot)

    def _left(self, task: GraphTask, slot: _Slot) -> GraphTask:
        """Return the task with only the methods that have no outcome yet."""
        ours = slot.outcomes.get(self.reference.name)
        return replace(
            task,
            methods=tuple(m for m in self.methods if m.name not in slot.outcomes),
            known=ours.result if isinstance(ours, Measured) else None,
        )

    def _lose(self, task: GraphTask, loss: WorkerLoss) -> GraphTask | None:
        """Record the loss of the running method; return the rest of the task, if any."""
        slot = self.slots[task.number]
        method = slot.running
        if method is None:
            # The process died before any method started, so reading the file itself is too much.
            reason = f"{task.path}: {loss.reason} while reading the graph"
            self._handle(task, Skipped(task.path, reason, bad=True))
            return None
        trouble = Trouble.TIMED_OUT if loss.timed_out else Trouble.DIED
        self._handle(task, Failed(method.name, method.kind, trouble, loss.reason, loss.seconds))
        left = self._left(task, slot)
        return left if left.methods else None

    def _handle(self, task: GraphTask, message: Message) -> None:
        slot = self.slots[task.number]
        event = ended = None
        match message:
            case Opened():
                slot.opened = message
            case Skipped():
                slot.problem = message
            case Started():
                slot.running = message.method
            case Measured() | Failed():
                slot.outcomes[message.method] = message
                slot.running = None
                # Events are throttled: the last one may be far from the final result.
                event, ended = _last_event(message), message.method
                if self.journal is not None:
                    self.journal.put(slot.keys.get(message.method), slot.path, message)
            case Event():
                event = message
                if self.on_event is not None:
                    self.on_event(message)
        if self.on_progress is not None:
            if self._is_done(slot):
                self.done.add(task.number)
            running = "" if slot.running is None else slot.running.name
            if event is not None and ended is not None:
                running = ended
            self.on_progress(Standing(len(self.done), len(self.slots), slot.path, running, event))
        # In this process an interrupt is a stop reason; the run must end all the same.
        if self.settings.jobs == 0 and was_interrupted(message):
            raise KeyboardInterrupt

    def _is_done(self, slot: _Slot) -> bool:
        return slot.problem is not None or (
            slot.opened is not None and len(slot.outcomes) == len(self.methods)
        )

    def _judge(self, slot: _Slot) -> Comparison | Skipped:
        opened = slot.opened
        if opened is None:
            if slot.problem is None:
                return Skipped(slot.path, "interrupted before its turn", bad=False, cut_off=True)
            # A file found in a folder is bad only if it is a broken graph.
            return replace(slot.problem, bad=slot.named or slot.problem.bad)
        ours = slot.outcomes.get(self.reference.name)
        if ours is None:
            reason = "interrupted before a bound was found"
            return Skipped(slot.path, reason, bad=False, cut_off=True)
        if slot.problem is not None:
            for m in self.methods:
                # Methods that had no turn are lost with the process.
                lost = Failed(m.name, m.kind, Trouble.DIED, slot.problem.reason)
                slot.outcomes.setdefault(m.name, lost)
        floor = 0
        if not isinstance(ours, Measured):
            # Our own solver gave no bound; use the simplest one.
            order = OWN_ORDERINGS["program"](opened.graph, 0)
            floor = peak_lower_bound(opened.graph, [order]).value
        found = judge(
            opened.graph,
            self.methods,
            slot.outcomes,
            self.reference.name,
            floor=floor,
            among=opened.among,
            own_plan=opened.own_plan,
        )
        if found is None:
            reasons = {x.reason: None for x in slot.outcomes.values() if isinstance(x, Failed)}
            what = f" for graph {slot.path!r}" if slot.held else ""
            return Skipped(
                slot.path, f"no method found a plan{what}: {'; '.join(reasons)}", bad=True
            )
        # A graph in memory has no file.
        path = slot.path if slot.held is None else ""
        found = replace(found, path=path, digest=opened.digest)
        if opened.own_plan is None or not opened.own_plan.measured:
            return found
        return replace(found, held=held_with(found.graph, best_order(found)))


def _last_event(outcome: Outcome) -> Event | None:
    """Return the final incumbent and bound of a solver as an event; None for other methods."""
    result = outcome.result if isinstance(outcome, Measured) else None
    if result is None:
        return None
    value, bound = result.slab, result.slab_bound
    if result.objective is Objective.PEAK:
        value, bound = result.peak, result.peak_bound
    return Event(outcome.runtime, value, bound, result.status.value)
