"""Driver of a fleet: sends units to an engine, and stores the results."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, Unpack, cast

from optsched.errors import OptschedError, UsageError, expect, expect_function
from optsched.fleet.graphs import FleetGraph, FleetState, UnitChoice
from optsched.fleet.log import FleetLog
from optsched.fleet.settings import FleetKeywords, FleetSettings
from optsched.fleet.unit import Found, Unit, UnitContext, UnitFailed, UnitRefused, work_on_unit
from optsched.fleet.weights import parse_weight, weight_of
from optsched.fleet.writer import StoreWriter
from optsched.formats.labels import distinct_labels
from optsched.model.graph import Graph
from optsched.runtime.clock import Clock
from optsched.runtime.engines import TaskEngine, open_engine
from optsched.runtime.facts import code_digest, machine, versions
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import Limits, Objective
from optsched.runtime.shown import Shown
from optsched.runtime.text import counted
from optsched.runtime.worker_pool import Tasks, WorkerLoss


@dataclass(frozen=True, slots=True)
class FleetStanding:
    """Progress of a run."""

    total: int
    seen: int
    proved: int
    failed: int
    """`total`, `seen`, `proved` and `failed`: numbers of graphs: all, read so far, proved optimal,
    given up."""
    saved: float
    gap: float
    """`saved` and `gap`: bytes below the baseline, and bytes between plans and bounds, each times
    the weight."""
    left: float | None
    """Seconds left of the budget; None without one."""
    latest: str = ""
    """Name of the graph of the latest result."""


@dataclass(frozen=True, slots=True)
class Fleet(Shown):
    """The state of a fleet after a run."""

    settings: FleetSettings
    """Settings of the run."""
    graphs: tuple[FleetGraph, ...]
    """Graphs in the given order."""
    interrupted: bool = False
    """True if the run was interrupted."""
    units: int = 0
    lost: int = 0
    """`units` and `lost`: numbers of units completed, and of units lost with their process."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Workers with another version of this package: version by name."""
    seconds: float = 0.0
    """Run time in seconds."""

    def __repr__(self) -> str:
        totals = self.totals()
        states = ", ".join(f"{totals[x.value]} {x}" for x in FleetState if totals[x.value])
        graphs = counted(len(self.graphs), "graph")
        return f"Fleet({graphs}: {states}; {totals['saved']:,.0f} bytes saved)"

    @property
    def equals(self) -> list[str]:
        """Names of the graphs that equal an earlier one except for names."""
        return [graph.name for graph in self.graphs if graph.equal_to is not None]

    def count(self, state: FleetState) -> int:
        """Return the number of graphs in a state."""
        return sum(graph.state is state for graph in self.graphs)

    def rows(self) -> list[dict[str, Any]]:
        """Return the table, which depends on graphs and store only, not on the run's course."""
        return [graph.record(self.settings.objective) for graph in self.graphs]

    def totals(self) -> dict[str, Any]:
        """Return the sums over the table."""
        objective = self.settings.objective
        return {
            "graphs": len(self.graphs),
            **{state.value: self.count(state) for state in FleetState},
            "saved": sum(graph.weight * graph.saved(objective) for graph in self.graphs),
            "gap": sum(graph.weight * graph.gap(objective) for graph in self.graphs),
        }


@keywords
def tune(
    graphs: Graph | str | Path | Iterable[Graph | str | Path],
    store: str | Path,
    *,
    settings: FleetSettings | None = None,
    weights: Mapping[str, float] | None = None,
    engine: str = "local",
    jobs: int = 1,
    address: str | None = None,
    log: str | Path | None = None,
    named: Sequence[bool] | None = None,
    on_progress: Callable[[FleetStanding], None] | None = None,
    **options: Unpack[FleetKeywords],
) -> Fleet:
    """Search many graphs, each as long as it pays, and keep the results in a store.

    First, every graph is searched for about a second, small graphs before large ones; this proves
    the easy ones. The rest of the budget goes to the graphs with the most bytes to gain, times
    their weight. A later run with the same store continues where this one stops.

    Parameters
    ----------
    graphs
        Graphs and paths of files in any readable format, or one of them.
    store
        Path of the plan store (:class:`optsched.store.PlanStore`); created if it does not exist.
    settings, options
        A :class:`FleetSettings`, or its fields as keywords: `budget=7200` (seconds for the fleet),
        `work=` (work limit per graph), `seed=`, `objective=`, `memory=` (bytes per search).
    weights
        Factor by which the bytes of a graph count, by path, file name or name; 1 by default.
    engine
        `local` (processes on this machine) or `dask`.
    jobs
        Number of processes. These are started by `multiprocessing`, so a script must call this
        function under `if __name__ == "__main__":`. 0 runs everything in the current process.
    address
        Address of a running Dask cluster.
    log
        Path of a file to which events are appended, one JSON object per line.
    named
        One flag per graph: False if a file came from a folder, so that it may be something else
        than a graph. All are True by default.
    on_progress
        Function called with a :class:`FleetStanding` after every result.

    Returns
    -------
    Fleet
        One row per graph with state, peak, slab and bounds in bytes, and totals. The plans are in
        the store.

    Raises
    ------
    UsageError
        If an option is invalid, or no worker has this version of the package.
    OptschedError
        If the store cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from optsched import GraphBuilder
    >>> build = GraphBuilder("pair")
    >>> build.op("a", writes={"x": 4})
    >>> build.op("b", reads=["x"], writes={"y": 8})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fleet = tune([build.build()], f"{folder}/plans.store", work=1000, jobs=0)
    >>> [(graph.name, str(graph.state), graph.slab) for graph in fleet.graphs]
    [('pair', 'proved', 12)]
    """
    if settings is not None and options:
        raise UsageError(
            "settings= and its single fields (budget=, work=, seed= ...) exclude each other"
        )
    expect("settings", settings, FleetSettings, NoneType)
    expect("store", store, str, Path)
    expect("weights", weights, Mapping, NoneType)
    expect("log", log, str, Path, NoneType)
    expect_function("on_progress", on_progress)
    # Settings are checked before any engine is started.
    chosen = settings or FleetSettings(**cast(dict[str, Any], options))
    rows = _fleet_graphs(_listed(graphs), named, weights or {})
    context = UnitContext(chosen, str(store), code_digest())
    with open_engine(engine, jobs, address) as workers:
        return _FleetRun(context, rows, workers, log, on_progress).run()


def _listed(
    graphs: Graph | str | Path | Iterable[Graph | str | Path],
) -> list[Graph | str | Path]:
    """Return the given graphs and paths as a list."""
    if isinstance(graphs, Graph | str | Path):
        return [graphs]
    expect("tune", graphs, Graph, str, Path, Iterable)
    found = list(graphs)
    for source in found:
        expect("tune", source, Graph, str, Path)
    return found


def _fleet_graphs(
    sources: Sequence[Graph | str | Path],
    named: Sequence[bool] | None,
    weights: Mapping[str, float],
) -> list[FleetGraph]:
    known = {name: parse_weight(f"weight of {name}", weight) for name, weight in weights.items()}
    flags = named or [True] * len(sources)
    if len(flags) != len(sources):
        raise UsageError(f"named must have one flag per graph: {len(sources)}, got {len(flags)}")
    found = []
    for number, (source, by_name) in enumerate(zip(sources, flags, strict=True)):
        given = source if isinstance(source, Graph) else str(source)
        label = given.name if isinstance(given, Graph) else given
        size = len(given.buffers) if isinstance(given, Graph) else _bytes_of(given)
        weight = weight_of(label, known)
        found.append(FleetGraph(number, given, label, weight, size, by_name, name=label))
    return found


def _bytes_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        # The worker that reads the file reports the error.
        return 0


class _FleetRun:
    """State of one run: graphs, store writer, log and units in progress."""

    def __init__(
        self,
        context: UnitContext,
        graphs: Sequence[FleetGraph],
        engine: TaskEngine,
        log: str | Path | None,
        on_progress: Callable[[FleetStanding], None] | None,
    ) -> None:
        self.context, self.graphs, self.engine = context, graphs, engine
        self.writer = StoreWriter(context, [graph.path for graph in graphs])
        self.log = FleetLog(log)
        self.on_progress = on_progress
        settings = context.settings
        self.clock = Clock.of(Limits(settings.budget))
        # An empty store need not be asked for each graph.
        look = self.writer.store.digest() != "empty"
        self.choice = UnitChoice(graphs, settings, self.clock.left, look=look)
        self.tally = _Tally(graphs, settings.objective)
        self.units = self.lost = self.refusals = 0
        self.refused: dict[str, str] = {}

    def run(self) -> Fleet:
        """Run units until time is up, all graphs are settled, or the run is interrupted."""
        settings, effort = self.context.settings, self.context.settings.effort
        self.log.add(
            "begin",
            graphs=len(self.graphs),
            settings=settings.record(),
            engine=self.engine.name,
            versions=versions(),
            machine=machine(),
        )
        try:
            runs = math.ceil(len(self.graphs) / max(1, self.engine.jobs))
            work = partial(work_on_unit, self.context)
            complete = self.engine.run(
                Tasks(self._take, work, self._handle, self._lose, runs, effort.overhead_seconds)
            )
        finally:
            # Also after an error: queued results are safe.
            self.writer.close()
        # After the writer, which alone may hold the store during the run.
        with suppress(OptschedError):
            keys = dict.fromkeys(graph.key for graph in self.graphs if graph.key)
            self.writer.store.mark_met(keys, self.context.settings.objective)
        for number, reason in self.writer.refused.items():
            self.graphs[number].fail(UnitFailed(reason))
        labels = distinct_labels([x.name for x in self.graphs], [x.path for x in self.graphs])
        for graph, label in zip(self.graphs, labels, strict=True):
            graph.name = label
        fleet = Fleet(
            settings,
            tuple(self.graphs),
            not complete,
            self.units,
            self.lost,
            self.refused,
            self.clock.seconds(),
        )
        self.log.add("end", interrupted=fleet.interrupted, **fleet.totals())
        self.log.close()
        return fleet

    def _take(self) -> Unit | None:
        """Return the next unit, with the state to continue from if its worker cannot look it up.

        If work is limited, this is always the state that this driver found, because the store may
        contain results of other runs.
        """
        unit = self.choice.take()
        if unit is None or self.engine.is_remote or self.choice.by_work:
            return unit
        # The worker reads the newest state in the store, so that nothing is sent.
        if self.writer.is_written(unit.number):
            self.graphs[unit.number].earlier = None
            return replace(unit, earlier=None)
        return unit

    def _handle(self, unit: Unit, message: object) -> None:
        match message:
            case Found() | UnitFailed():
                for ended, what in self.choice.in_turn(unit, message):
                    self._settle(ended, what)
            case UnitRefused():
                self._refuse(unit, message)

    def _settle(self, unit: Unit, message: Found | UnitFailed) -> None:
        """Record the result or failure of a unit."""
        graph = self.graphs[unit.number]
        self.units += 1
        if isinstance(message, UnitFailed):
            self.choice.fail(unit, message)
            self._report(graph, "failed", reason=message.reason, worker=message.worker)
            return
        self.refusals = 0
        if self.choice.accept(unit, message):
            saving = graph.saving(self.context.settings.objective)
            self.writer.put(unit.number, message, saving)
        self._report(graph, "unit", **_numbers(graph, message))

    def _refuse(self, unit: Unit, message: UnitRefused) -> None:
        """Exclude a worker with another version, and log it once."""
        self.refusals += 1
        if message.worker not in self.refused:
            self.refused[message.worker] = message.version
            self.log.add("refused", worker=message.worker, version=message.version)
        # One excluded worker is fine; if all are of another version, the run would never end.
        if not self.engine.exclude() or self.refusals > self.context.settings.effort.refusals:
            ours = f"{versions().get('optsched')} (code {self.context.code[:12]})"
            raise UsageError(
                f"worker {message.worker} has optsched {message.version}, the driver has {ours}: "
                "install the same version everywhere"
            )
        self.choice.again(unit)

    def _lose(self, unit: Unit, loss: WorkerLoss) -> Unit | None:
        self.lost += 1
        left: Unit | UnitFailed = UnitFailed(loss.reason)
        # A unit that hangs would hang again; one that crashed may have met another's memory.
        if not loss.timed_out:
            left = self.choice.lose(unit, loss.reason)
        again = isinstance(left, Unit)
        self._report(self.graphs[unit.number], "lost", reason=loss.reason, again=again)
        if isinstance(left, Unit):
            return left
        self._handle(unit, left)
        return None

    def _report(self, about: FleetGraph, event: str, **more: Any) -> None:
        self.log.add(event, path=about.label, **more)
        if self.on_progress is not None:
            for graph in about.equals or [about]:
                self.tally.count(graph)
            self.on_progress(self.tally.standing(about.name, self.clock.left()))


class _Tally:
    """Sums over a fleet, updated incrementally because it may have 100,000 graphs."""

    def __init__(self, graphs: Sequence[FleetGraph], objective: Objective) -> None:
        self.objective, self.total = objective, len(graphs)
        self.counted: dict[int, tuple[FleetState, float, float]] = {}
        self.states = Counter({FleetState.WAITING: len(graphs)})
        self.saved = self.gap = 0.0

    def count(self, graph: FleetGraph) -> None:
        """Update the sums for one graph."""
        state, saved, gap = self.counted.get(graph.number, (FleetState.WAITING, 0.0, 0.0))
        weight = graph.weight
        now = graph.state, weight * graph.saved(self.objective), weight * graph.gap(self.objective)
        self.counted[graph.number] = now
        # Differences only: 100,000 graphs cannot be summed at each event.
        self.states[state] -= 1
        self.states[now[0]] += 1
        self.saved += now[1] - saved
        self.gap += now[2] - gap

    def standing(self, latest: str, left: float | None) -> FleetStanding:
        """Return the progress of the run."""
        return FleetStanding(
            self.total,
            self.total - self.states[FleetState.WAITING],
            self.states[FleetState.PROVED],
            self.states[FleetState.FAILED],
            self.saved,
            self.gap,
            left,
            latest,
        )


def _numbers(graph: FleetGraph, found: Found) -> dict[str, Any]:
    """Return the log's fields for a unit."""
    return {
        "graph": graph.name,
        "state": graph.state.value,
        **graph.figures(),
        "slices": found.slices,
        "searched": found.prepared is not None,
        "seconds": round(found.seconds, 6),
        "processor_seconds": round(found.processor_seconds, 6),
        "worker": found.worker,
    }
