"""The driver of a fleet: units go out to an engine, finds come in and go to the store."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, Unpack, cast

from optsched.errors import UsageError, expect, expect_function
from optsched.fleet.graphs import FleetGraph, FleetState, UnitChoice
from optsched.fleet.log import FleetLog
from optsched.fleet.settings import FleetKeywords, FleetSettings
from optsched.fleet.unit import Found, Unit, UnitContext, UnitFailed, UnitRefused, work_on_unit
from optsched.fleet.weights import parse_weight, weight_of
from optsched.fleet.writer import StoreWriter
from optsched.model.graph import Graph
from optsched.runtime.clock import Clock
from optsched.runtime.engines import TaskEngine, open_engine
from optsched.runtime.facts import code_digest, machine, versions
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import Limits, Objective
from optsched.runtime.worker_pool import WorkerLoss


@dataclass(frozen=True, slots=True)
class FleetStanding:
    """Where a run is.

    Parameters
    ----------
    total, seen, proved, failed
        Graphs: all, those looked at, those proved, those given up.
    saved, gap
        Bytes below the baseline, and bytes between plans and bounds, each times its weight.
    left
        Seconds left of the budget, None without one.
    latest
        What the last find was about.
    """

    total: int
    seen: int
    proved: int
    failed: int
    saved: float
    gap: float
    left: float | None
    latest: str = ""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is known of a fleet after a run.

    Parameters
    ----------
    settings
        Of the run.
    graphs
        In the order they were given.
    interrupted
        Whether the run was cut short.
    units, lost
        Units that were done, and that were lost with their process.
    refused
        Workers that have another version of this package, by name.
    seconds
        The run took.
    """

    settings: FleetSettings
    graphs: tuple[FleetGraph, ...]
    interrupted: bool = False
    units: int = 0
    lost: int = 0
    refused: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def count(self, state: FleetState) -> int:
        """Return how many graphs are in a state."""
        return sum(graph.state is state for graph in self.graphs)

    def rows(self) -> list[dict[str, Any]]:
        """Return the table: it depends on graphs and store, not on how they came about."""
        return [graph.record(self.settings.objective) for graph in self.graphs]

    def totals(self) -> dict[str, Any]:
        """Return the sums of the table."""
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
    """Search many graphs, each as long as it pays, and keep what is found in a store.

    All are looked at first, small ones before large ones, for a second each, which proves the easy
    ones. What is left of the budget goes where most bytes, times the weight, can be gained. What a
    run leaves open the next one goes on with.

    Parameters
    ----------
    graphs
        Graphs, and files of any readable format; or one of them.
    store
        The file of plans (:class:`optsched.store.PlanStore`); made if it is not there.
    settings, options
        A :class:`FleetSettings`, or its fields as keywords: `budget=7200`, `work=`, `seed=`,
        `objective=`, `memory=`.
    weights
        How much the bytes of a graph count, by path, file name or name; 1 by default.
    engine
        `local` (processes of this machine), `dask` or `ray`.
    jobs
        Processes, where this starts them, as `multiprocessing` does: in a script call this below
        `if __name__ == "__main__":`. With 0 all is done in this process.
    address
        Of a Dask or Ray cluster that runs already.
    log
        A file that takes one JSON object a line.
    named
        Whether each file was asked for by name, all by default.
    on_progress
        Told where the run is, after every find.

    Raises
    ------
    UsageError
        If an option makes no sense, or no worker has this version of the package.
    OptschedError
        If the store can not be written.

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
        raise UsageError("give either settings= or budget=, work=, seed= ...")
    expect("settings", settings, FleetSettings, NoneType)
    expect("store", store, str, Path)
    expect("weights", weights, Mapping, NoneType)
    expect("log", log, str, Path, NoneType)
    expect_function("on_progress", on_progress)
    chosen = settings or FleetSettings(**cast(dict[str, Any], options))
    rows = _fleet_graphs(_listed(graphs), named, weights or {})
    context = UnitContext(chosen, str(store), code_digest())
    with open_engine(engine, jobs, address) as workers:
        return _FleetRun(context, rows, workers, log, on_progress).run()


def _listed(
    graphs: Graph | str | Path | Iterable[Graph | str | Path],
) -> list[Graph | str | Path]:
    """Return the graphs and files that are given, or the one that is."""
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
        raise UsageError(f"named says of {len(flags)} graphs what they are, not of {len(sources)}")
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
        # The worker that reads it says what is wrong.
        return 0


class _FleetRun:
    """One run: what is known, what goes out, what comes in."""

    def __init__(
        self,
        context: UnitContext,
        graphs: Sequence[FleetGraph],
        engine: TaskEngine,
        log: str | Path | None,
        on_progress: Callable[[FleetStanding], None] | None,
    ) -> None:
        self.context, self.graphs, self.engine = context, graphs, engine
        self.writer = StoreWriter(context)
        self.log = FleetLog(log)
        self.on_progress = on_progress
        settings = context.settings
        self.clock = Clock.of(Limits(settings.budget))
        look = self.writer.store.digest() != "empty"
        self.choice = UnitChoice(graphs, settings, self.clock.left, look=look)
        self.tally = _Tally(graphs, settings.objective)
        self.units = self.lost = self.refusals = 0
        self.refused: dict[str, str] = {}

    def run(self) -> Fleet:
        """Work until the time is over, all is proved, or somebody interrupts."""
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
            complete = self.engine.run(
                self._take,
                partial(work_on_unit, self.context),
                self._handle,
                self._lose,
                runs=math.ceil(len(self.graphs) / max(1, self.engine.jobs)),
                grace=effort.overhead_seconds,
            )
        finally:
            self.writer.close()
        for number, reason in self.writer.refused.items():
            self.graphs[number].fail(UnitFailed(reason))
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
        """Return the next unit, with what it goes on from unless its worker finds that itself.

        Where work is limited that is what this driver found: the store may hold another's finds.
        """
        unit = self.choice.take()
        if unit is None or self.engine.is_remote or self.choice.by_work:
            return unit
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
        """Keep what became of a unit."""
        graph = self.graphs[unit.number]
        self.units += 1
        if isinstance(message, UnitFailed):
            self.choice.fail(unit, message)
            self._tell(graph, "failed", reason=message.reason, worker=message.worker)
            return
        self.refusals = 0
        if self.choice.accept(unit, message):
            self.writer.put(unit.number, message)
        self._tell(graph, "unit", **_numbers(graph, message))

    def _refuse(self, unit: Unit, message: UnitRefused) -> None:
        """Keep a worker of another version from work, and say its name once."""
        self.refusals += 1
        if message.worker not in self.refused:
            self.refused[message.worker] = message.version
            self.log.add("refused", worker=message.worker, version=message.version)
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
        if not loss.timed_out:
            left = self.choice.lose(unit, loss.reason)
        again = isinstance(left, Unit)
        self._tell(self.graphs[unit.number], "lost", reason=loss.reason, again=again)
        if isinstance(left, Unit):
            return left
        self._handle(unit, left)
        return None

    def _tell(self, about: FleetGraph, event: str, **more: Any) -> None:
        self.log.add(event, path=about.label, **more)
        if self.on_progress is not None:
            for graph in about.equals or [about]:
                self.tally.count(graph)
            self.on_progress(self.tally.standing(about.name, self.clock.left()))


class _Tally:
    """The sums of a fleet, kept up to date: there may be a hundred thousand graphs."""

    def __init__(self, graphs: Sequence[FleetGraph], objective: Objective) -> None:
        self.objective, self.total = objective, len(graphs)
        self.counted: dict[int, tuple[FleetState, float, float]] = {}
        self.states = Counter({FleetState.WAITING: len(graphs)})
        self.saved = self.gap = 0.0

    def count(self, graph: FleetGraph) -> None:
        """Take in what changed on one graph."""
        state, saved, gap = self.counted.get(graph.number, (FleetState.WAITING, 0.0, 0.0))
        weight = graph.weight
        now = graph.state, weight * graph.saved(self.objective), weight * graph.gap(self.objective)
        self.counted[graph.number] = now
        self.states[state] -= 1
        self.states[now[0]] += 1
        self.saved += now[1] - saved
        self.gap += now[2] - gap

    def standing(self, latest: str, left: float | None) -> FleetStanding:
        """Say where the run is."""
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
    """Return what the log says of a unit."""
    return {
        "graph": graph.name,
        "state": graph.state.value,
        "peak": graph.peak,
        "slab": graph.slab,
        "peak_bound": graph.peak_bound,
        "slab_bound": graph.slab_bound,
        "proof": None if graph.proof is None else graph.proof.value,
        "slices": found.slices,
        "searched": found.prepared is not None,
        "seconds": round(found.seconds, 6),
        "processor_seconds": round(found.processor_seconds, 6),
        "worker": found.worker,
    }
