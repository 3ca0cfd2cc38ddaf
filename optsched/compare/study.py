"""Methods on many graphs: in several processes, with progress, taken up again where it stopped."""

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
from optsched.ordering.bound.single_ops import peak_lower_bound
from optsched.runtime.limits import Event, Objective
from optsched.runtime.worker_pool import WorkerLoss, run_tasks


@dataclass(frozen=True, slots=True)
class Study:
    """What a run over many graphs gave."""

    methods: tuple[Method, ...]
    """All that were asked for, our own included."""
    settings: StudySettings
    comparisons: tuple[Comparison, ...]
    """One per graph with figures, in the order of the files."""
    skipped: tuple[Skipped, ...]
    """Files without."""
    interrupted: bool = False
    """Whether the run was cut short."""
    reused: int = 0
    """Outcomes that the journal had already."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run is: graphs done of how many, and the latest word of one that is under way."""

    done: int
    total: int
    instance: str
    """Name of a graph's file."""
    method: str = ""
    """What runs on it, or empty between methods."""
    event: Event | None = None
    """Its incumbent and bound, if it is a solver and has said so."""


@dataclass
class _Slot:
    """One file: what is known of it so far."""

    path: str
    named: bool
    keys: dict[str, str] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    graph: Graph | None = None
    problem: Skipped | None = None
    running: Method | None = None
    digest: str = ""


def compare_files(
    paths: Sequence[str],
    settings: StudySettings,
    *,
    named: Sequence[bool] | None = None,
    journal: Journal | None = None,
    on_progress: Callable[[Standing], None] | None = None,
) -> Study:
    """Compare methods on the graphs of files.

    `named` is whether each file was asked for by name, all by default: one that was not, and holds
    something else than a graph, is passed over. Outcomes found in the journal are taken, new ones
    are added.
    """
    by_name = named or [True] * len(paths)
    slots = [_Slot(path, name) for path, name in zip(paths, by_name, strict=True)]
    methods, reference = with_reference(settings.methods)
    return _StudyRun(slots, settings, methods, reference, journal, on_progress).study()


@dataclass
class _StudyRun:
    """A run over many graphs: what is known of each file, from the journal and from workers."""

    slots: list[_Slot]
    settings: StudySettings
    methods: tuple[Method, ...]
    reference: Exact
    journal: Journal | None
    on_progress: Callable[[Standing], None] | None
    done: set[int] = field(default_factory=set)
    reused: int = 0

    def study(self) -> Study:
        """Do what is not done, and judge it all."""
        settings = self.settings
        tasks = [task for i in range(len(self.slots)) if (task := self._task(i)) is not None]
        complete = run_tasks(
            tasks, work_on, self._handle, self._lose, jobs=settings.jobs, grace=settings.grace
        )
        found = [self._judge(slot) for slot in self.slots]
        return Study(
            self.methods,
            settings,
            told_apart([x for x in found if isinstance(x, Comparison)]),
            tuple(x for x in found if isinstance(x, Skipped)),
            not complete,
            self.reused,
        )

    def _task(self, number: int) -> GraphTask | None:
        """Return what is to be done for a file, less what the journal has."""
        slot = self.slots[number]
        task = GraphTask(number, slot.path, self.methods, self.reference, self.settings)
        if not slot.named and not os.path.isfile(slot.path):
            slot.problem = Skipped(slot.path, f"{slot.path}: this is no regular file", bad=False)
            return None
        if self.journal is None:
            return task
        try:
            slot.keys = keys_of(task)
        except OptschedError as error:
            slot.problem = Skipped(slot.path, str(error), bad=True)
            return None
        known = {m.name: self.journal.get(slot.keys.get(m.name)) for m in self.methods}
        if not isinstance(known[self.reference.name], Measured):
            # Its order is found anew, so packings of the order of then are of no use.
            packings = {m.name for m in self.methods if m.kind is Kind.PACKING}
            known = {name: None if name in packings else x for name, x in known.items()}
        slot.outcomes = {name: x for name, x in known.items() if x is not None}
        self.reused += len(slot.outcomes)
        return self._left(task, slot)

    def _left(self, task: GraphTask, slot: _Slot) -> GraphTask:
        """Return the task with the methods that have no outcome yet."""
        ours = slot.outcomes.get(self.reference.name)
        return replace(
            task,
            methods=tuple(m for m in self.methods if m.name not in slot.outcomes),
            known=ours.result if isinstance(ours, Measured) else None,
        )

    def _lose(self, task: GraphTask, loss: WorkerLoss) -> GraphTask | None:
        """Say what became of the method that was running; return what is left of the graph."""
        slot = self.slots[task.number]
        method = slot.running
        if method is None:
            # It died before any method had its turn: the file itself is too much for it.
            reason = f"{task.path}: {loss.reason} while it read the graph"
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
                slot.graph, slot.digest = message.graph, message.digest
            case Skipped():
                slot.problem = message
            case Started():
                slot.running = message.method
            case Measured() | Failed():
                slot.outcomes[message.method] = message
                slot.running = None
                # Events come now and then only: the last one may be far from the end.
                event, ended = _last_event(message), message.method
                if self.journal is not None:
                    self.journal.put(slot.keys.get(message.method), slot.path, message)
            case Event():
                event = message
        if self.on_progress is not None:
            if self._is_done(slot):
                self.done.add(task.number)
            running = "" if slot.running is None else slot.running.name
            if event is not None and ended is not None:
                running = ended
            self.on_progress(Standing(len(self.done), len(self.slots), slot.path, running, event))
        if self.settings.jobs == 0 and was_interrupted(message):
            raise KeyboardInterrupt

    def _is_done(self, slot: _Slot) -> bool:
        return slot.problem is not None or (
            slot.graph is not None and len(slot.outcomes) == len(self.methods)
        )

    def _judge(self, slot: _Slot) -> Comparison | Skipped:
        if slot.graph is None:
            if slot.problem is None:
                return Skipped(slot.path, "interrupted before its turn", bad=False, cut_off=True)
            return replace(slot.problem, bad=slot.named or slot.problem.bad)
        ours = slot.outcomes.get(self.reference.name)
        if ours is None:
            reason = "interrupted before a bound was found"
            return Skipped(slot.path, reason, bad=False, cut_off=True)
        if slot.problem is not None:
            for m in self.methods:
                lost = Failed(m.name, m.kind, Trouble.DIED, slot.problem.reason)
                slot.outcomes.setdefault(m.name, lost)
        floor = 0
        if not isinstance(ours, Measured):
            # Our own method gave no bound.
            floor = peak_lower_bound(slot.graph, [OWN_ORDERINGS["program"](slot.graph, 0)]).value
        found = judge(slot.graph, self.methods, slot.outcomes, self.reference.name, floor=floor)
        if found is None:
            reasons = {x.reason: None for x in slot.outcomes.values() if isinstance(x, Failed)}
            return Skipped(slot.path, f"no method made a plan: {'; '.join(reasons)}", bad=True)
        return replace(found, path=slot.path, digest=slot.digest)


def _last_event(outcome: Outcome) -> Event | None:
    """Return where a solver ended; None of other methods."""
    result = outcome.result if isinstance(outcome, Measured) else None
    if result is None:
        return None
    value, bound = result.slab, result.slab_bound
    if result.objective is Objective.PEAK:
        value, bound = result.peak, result.peak_bound
    return Event(outcome.runtime, value, bound, result.status.value)
