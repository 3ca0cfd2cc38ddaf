"""Methods on many graphs: in several processes, with progress, taken up again where it stopped."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from heuristics import ORDERINGS
from optsched.compare.journal import Journal, keys_of
from optsched.compare.methods import Kind, Method, with_reference
from optsched.compare.rows import Comparison, Failed, Measured, Outcome, Trouble, judge
from optsched.compare.task import Message, Opened, Started, Task, Unreadable
from optsched.compare.workers import GRACE, run_tasks
from optsched.errors import OptschedError
from optsched.model.graph import Graph
from optsched.ordering.bound.single_ops import peak_lower_bound
from optsched.runtime.limits import Event, Limits
from optsched.solver.pipeline import Engine
from optsched.solver.result import DEFAULT_LIMITS


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file without a row, and why; `bad` is False for what is no graph and was not named.

    `cut_off` is True where nothing but an interrupt is the reason.
    """

    path: str
    reason: str
    bad: bool
    cut_off: bool = False


@dataclass(frozen=True, slots=True)
class Study:
    """What a run over many graphs gave.

    Parameters
    ----------
    methods
        All that were asked for, our own included.
    comparisons
        One per graph with figures, in the order of the files.
    skipped
        Files without.
    interrupted
        Whether the run was cut short.
    reused
        Outcomes that the journal had already.
    """

    methods: tuple[Method, ...]
    comparisons: tuple[Comparison, ...]
    skipped: tuple[Skipped, ...]
    interrupted: bool = False
    reused: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run is: graphs done of how many, and the latest word of one that is being worked on.

    Parameters
    ----------
    done, total
        Graphs.
    instance
        Name of a graph's file.
    method
        What runs on it, or empty between methods.
    event
        Its incumbent and bound, if it is a solver and has said so.
    """

    done: int
    total: int
    instance: str
    method: str = ""
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """How graphs are read and methods run.

    Parameters
    ----------
    methods
        What to compare.
    limits, engine
        Of solvers without their own.
    input_bytes, in_place
        The memory model.
    jobs
        Processes at a time; 0 works in this one.
    grace
        Seconds beyond its limit after which a method's process is ended.
    """

    methods: tuple[Method, ...]
    limits: Limits = DEFAULT_LIMITS
    engine: Engine = Engine.AUTO
    input_bytes: str = "recorded"
    in_place: bool = False
    jobs: int = 1
    grace: float = GRACE


@dataclass
class _Slot:
    """One file: what is known of it so far."""

    path: str
    named: bool
    keys: dict[str, str] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    graph: Graph | None = None
    problem: Unreadable | None = None
    running: str = ""


def compare_files(
    paths: Sequence[str],
    setup: Setup,
    *,
    named: Sequence[bool] | None = None,
    journal: Journal | None = None,
    on_progress: Callable[[Standing], None] | None = None,
) -> Study:
    """Compare methods on the graphs of files.

    Parameters
    ----------
    paths
        The files.
    setup
        Methods and limits.
    named
        Whether each file was asked for by name, all by default: one that was not, and holds
        something else than a graph, is passed over.
    journal
        Outcomes found in it are taken, new ones are added.
    on_progress
        Told where the run is.
    """
    return _Run(paths, setup, named, journal, on_progress).study()


class _Run:
    def __init__(
        self,
        paths: Sequence[str],
        setup: Setup,
        named: Sequence[bool] | None,
        journal: Journal | None,
        on_progress: Callable[[Standing], None] | None,
    ) -> None:
        self.setup, self.journal, self.on_progress = setup, journal, on_progress
        self.methods, self.reference = with_reference(setup.methods)
        by_name = named or [True] * len(paths)
        self.slots = [_Slot(p, n) for p, n in zip(paths, by_name, strict=True)]
        self.done: set[int] = set()
        self.reused = 0

    def study(self) -> Study:
        tasks = [task for i in range(len(self.slots)) if (task := self._task(i)) is not None]
        complete = run_tasks(tasks, self._handle, jobs=self.setup.jobs, grace=self.setup.grace)
        comparisons, skipped = [], []
        for slot in self.slots:
            found = self._judge(slot)
            if isinstance(found, Comparison):
                comparisons.append(found)
            else:
                skipped.append(found)
        return Study(self.methods, tuple(comparisons), tuple(skipped), not complete, self.reused)

    def _task(self, number: int) -> Task | None:
        """Return what is to be done for a file, less what the journal has."""
        slot, setup = self.slots[number], self.setup
        task = Task(
            number,
            slot.path,
            self.methods,
            self.reference,
            setup.limits,
            setup.engine,
            setup.input_bytes,
            setup.in_place,
        )
        if not slot.named and not os.path.isfile(slot.path):
            slot.problem = Unreadable(f"{slot.path}: this is no regular file", bad=False)
            return None
        if self.journal is None:
            return task
        try:
            slot.keys = keys_of(task)
        except OptschedError as error:
            slot.problem = Unreadable(str(error), bad=True)
            return None
        known = {m.name: self.journal.get(slot.keys.get(m.name)) for m in self.methods}
        if not isinstance(known[self.reference.name], Measured):
            # Its order is found anew, so packings of the order of then are of no use.
            packings = {m.name for m in self.methods if m.kind is Kind.PACKING}
            known = {name: None if name in packings else x for name, x in known.items()}
        for outcome in known.values():
            if outcome is not None:
                slot.outcomes[outcome.method] = outcome
                task = task.after(outcome)
        self.reused += len(slot.outcomes)
        return task

    def _handle(self, task: Task, message: Message) -> None:
        slot = self.slots[task.number]
        event = None
        match message:
            case Opened():
                slot.graph = message.graph
            case Unreadable():
                slot.problem = message
            case Started():
                slot.running = message.method.name
            case Measured() | Failed():
                slot.outcomes[message.method] = message
                slot.running = ""
                if self.journal is not None:
                    self.journal.put(slot.keys.get(message.method), slot.path, message)
            case Event():
                event = message
        if self.on_progress is not None:
            if self._is_done(slot):
                self.done.add(task.number)
            self.on_progress(
                Standing(len(self.done), len(self.slots), slot.path, slot.running, event)
            )

    def _is_done(self, slot: _Slot) -> bool:
        return slot.problem is not None or (
            slot.graph is not None and len(slot.outcomes) == len(self.methods)
        )

    def _judge(self, slot: _Slot) -> Comparison | Skipped:
        if slot.graph is None:
            if slot.problem is None:
                return Skipped(slot.path, "interrupted before its turn", bad=False, cut_off=True)
            return Skipped(slot.path, slot.problem.reason, slot.named or slot.problem.bad)
        ours = slot.outcomes.get(self.reference.name)
        if ours is None:
            reason = "interrupted before a bound was found"
            return Skipped(slot.path, reason, bad=False, cut_off=True)
        if slot.problem is not None:
            for m in self.methods:
                lost = Failed(m.name, m.kind, Trouble.DIED, slot.problem.reason)
                slot.outcomes.setdefault(m.name, lost)
        floor = 0 if isinstance(ours, Measured) else _quick_bound(slot.graph)
        found = judge(
            slot.graph,
            self.methods,
            slot.outcomes,
            self.reference.name,
            floor=floor,
            path=slot.path,
        )
        if found is None:
            reasons = dict.fromkeys(
                x.reason for x in slot.outcomes.values() if isinstance(x, Failed)
            )
            return Skipped(slot.path, f"no method made a plan: {'; '.join(reasons)}", bad=True)
        return found


def _quick_bound(graph: Graph) -> int:
    """Return a bound on the peak of every order, where our own method gave none."""
    return peak_lower_bound(graph, [ORDERINGS["program"](graph, 0)]).value
