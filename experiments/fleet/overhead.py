"""Overhead of tuning an easy graph over solving it: two fleets, bare and tuned, in turns."""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

from optsched.fleet import Fleet, FleetEffort, FleetSettings, FleetState, tune
from optsched.formats import read_graph, write_graph
from optsched.runtime import kernel
from optsched.solver.pipeline import solve
from tests.support.families.wiring import random_wiring

JOBS = 2
WORK = 200_000
"""Units of work per graph, which are enough for all of these."""
WARM_UP = 20
"""Graphs that a bare process solves first, so that kernels are loaded."""
INSTANCES = Path(__file__).parents[2] / "instances" / "inductor"
TRAINED = (
    "albert_mlm_bs4.bwd",
    "albert_mlm_bs4_ac0.5.bwd",
    "albert_mlm_bs4_ac0.5_cuda.bwd",
    "albert_mlm_bs4_cuda.bwd",
    "albert_qa_bs4.bwd",
    "albert_qa_bs4_ac0.5.bwd",
    "albert_qa_bs4_ac0.5_cuda.bwd",
    "gpt2_bs4.bwd",
    "gpt2_bs4_ac0.5.bwd",
    "resnet50_bs32.bwd",
)
"""Captured graphs that are proved at once, and yet take 50 ms and more."""


@dataclass(frozen=True)
class Cost:
    """Milliseconds for each graph."""

    bare: float
    both: float
    """`bare` and `both`: of the processor, read and solved by one warm process, and by two at
    once."""
    units: float
    driver: float
    rest: float
    """`units`, `driver` and `rest`: of the processor, tuned: in units, in the driver, and in
    workers outside of units."""
    bare_wall: float
    both_wall: float
    wall: float
    """`bare_wall`, `both_wall` and `wall`: by the clock."""

    @property
    def tuned(self) -> float:
        """Of the processor, all together."""
        return self.units + self.driver + self.rest


def overhead(graphs: int, ops: int, times: int) -> None:
    """Show the cost of an easy graph: of small generated ones, and of captured ones."""
    with tempfile.TemporaryDirectory() as name:
        fleets = {
            f"wirings of {ops} ops": wirings(Path(name, "wirings"), graphs, ops),
            "captured training graphs": trained(Path(name, "trained"), graphs),
        }
        costs: dict[str, list[Cost]] = {title: [] for title in fleets}
        # In turns, so that a busy minute of the machine hits all alike.
        for _ in range(times):
            for title, paths in fleets.items():
                costs[title].append(cost_of(paths, Path(name)))
    for title, found in costs.items():
        show(title, graphs, found)


def wirings(folder: Path, count: int, ops: int) -> list[str]:
    """Write small graphs that are not alike."""
    folder.mkdir()
    paths = [folder / f"{number:04}.json" for number in range(count)]
    for number, path in enumerate(paths):
        write_graph(random_wiring(ops, number), path)
    return list(map(str, paths))


def trained(folder: Path, count: int) -> list[str]:
    """Write captured graphs, each several times with sizes that are other multiples of its own."""
    folder.mkdir()
    known = [read_graph(INSTANCES / f"{name}.json.gz") for name in TRAINED]
    paths = []
    for number in range(count):
        graph, factor = known[number % len(known)], 1 + number // len(known)
        # Another multiple of each size is another graph for the store, and equally easy.
        buffers = tuple(replace(buffer, size=factor * buffer.size) for buffer in graph.buffers)
        scaled = replace(graph, name=f"{graph.name} times {factor}", buffers=buffers)
        paths.append(folder / f"{number:04}.json")
        write_graph(scaled, paths[-1])
    return list(map(str, paths))


def cost_of(paths: Sequence[str], folder: Path) -> Cost:
    """Solve all bare, by one process and by two, and tune them into a new store."""
    (one,) = bare([paths])
    # Two at once share the machine's caches and memory, as two workers do: the fair rival.
    halves = bare([paths[half::JOBS] for half in range(JOBS)])
    children = _children()
    begun, started = time.monotonic(), time.process_time()
    # A new store: else all plans would be found, and nothing solved.
    with tempfile.TemporaryDirectory(dir=folder) as name:
        fleet = tune(paths, f"{name}/plans.store", settings=_settings(), jobs=JOBS)
        driver, wall = time.process_time() - started, time.monotonic() - begun
    # An open graph takes as long as it is given, which would hide the overhead.
    _require_proved(fleet)
    units = sum(graph.processor_seconds for graph in fleet.graphs)
    seconds = (
        one[0],
        sum(half[0] for half in halves),
        units,
        driver,
        _children() - children - units,
        one[1],
        max(half[1] for half in halves),
        wall,
    )
    return Cost(*[1000 * value / len(paths) for value in seconds])


def _settings() -> FleetSettings:
    return FleetSettings(work=WORK, effort=FleetEffort(first_work=WORK))


def _require_proved(fleet: Fleet) -> None:
    left = [graph.name for graph in fleet.graphs if graph.state is not FleetState.PROVED]
    if left:
        raise SystemExit(f"not easy, for they were not proved: {', '.join(left[:5])}")


def _children() -> float:
    """Seconds of the processor that processes took which have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def bare(parts: Sequence[Sequence[str]]) -> list[tuple[float, float]]:
    """Read and solve files in a warm process for each part, all at once.

    Returns seconds of the processor and of the clock, by process.
    """
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for part in parts:
        pipe, far_end = context.Pipe()
        processes.append(context.Process(target=solve_all, args=(far_end, part)))
        processes[-1].start()
        pipes.append(pipe)
    for pipe in pipes:
        pipe.recv()
    for pipe in pipes:
        pipe.send("go")
    found = [pipe.recv() for pipe in pipes]
    for process in processes:
        process.join()
    return found


def solve_all(pipe: Connection, paths: Sequence[str]) -> None:
    """Load what is needed, wait until all others have, then solve."""
    # As workers do: kernels are compiled at once if many runs will use them.
    kernel.policy.runs_to_come = len(paths)
    for path in paths[:WARM_UP]:
        solve(read_graph(path), work=WORK)
    pipe.send("warm")
    pipe.recv()
    begun, started = time.monotonic(), time.process_time()
    for path in paths:
        solve(read_graph(path), work=WORK)
    pipe.send((time.process_time() - started, time.monotonic() - begun))


def show(title: str, graphs: int, costs: Sequence[Cost]) -> None:
    """Print the medians of all rounds, and what they say."""

    def median(of: str) -> float:
        return statistics.median(getattr(cost, of) for cost in costs)

    def percent(shares: Sequence[float]) -> str:
        low, high = min(shares), max(shares)
        return f"{statistics.median(shares):.1%} ({low:.1%} to {high:.1%})"

    rows = {
        "read and solved, one warm process": ("bare", "bare_wall"),
        "the same, two processes at once": ("both", "both_wall"),
        "tuned by two workers: units": ("units", None),
        "driver and store": ("driver", None),
        "starting workers, and messages": ("rest", None),
        "tuned, all together": ("tuned", "wall"),
    }
    print(f"\n{graphs} {title}, medians of {len(costs)}\n")
    print("| ms a graph | of the processor | by the clock |\n| --- | ---: | ---: |")
    for what, (used, wall) in rows.items():
        print(f"| {what} | {median(used):.2f} | {'' if wall is None else f'{median(wall):.2f}'} |")
    by_processor = [cost.bare / cost.tuned for cost in costs]
    without = [cost.bare / (cost.units + cost.driver) for cost in costs]
    print(f"\nby the processor: {percent(by_processor)} of the bare speed, ", end="")
    print(f"without starts {percent(without)}")
    twice = percent([cost.bare_wall / JOBS / cost.wall for cost in costs])
    both = percent([cost.both_wall / cost.wall for cost in costs])
    print(f"by the clock: {twice} of twice the bare speed, {both} of two bare processes")
