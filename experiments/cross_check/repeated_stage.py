"""Worth of the windows and neighborhoods that are repeated stages of `solve`.

Run `python -m experiments.cross_check.repeated_stage --csv FILE`: each graph is solved with the
stages and without, in processes of their own, for the same seconds of the processor, by one worker.
Rows are appended, and those of an earlier run are kept. The table counts on how many of the graphs
that stay open without the stages these lower the slab or the peak, and lost proofs.

With `--further 30 --plans DIR` the graphs are solved without the stages, their plans and searches
saved in `DIR`, and those that are open are resumed for 30 seconds more, with the stages and
without.

All limits, those of CP-SAT included, count what the process has used of the processor, so that
other work on the machine does not decide.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from experiments.limits.watch import watched
from experiments.tables import markdown
from optsched.joint.cpsat import benders, order, parts, solve
from optsched.joint.cpsat.solver import SolverThread
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.solver import pipeline
from optsched.solver.joint_stages import neighborhoods, order_neighborhoods, order_windows
from optsched.solver.resume import Resume
from optsched.solver.schedule import schedule
from tests.support.families.shapes import layered
from tests.support.families.wiring import random_wiring
from tests.support.generators import random_graph

HEAD = ("graph", "ops", "limit", "stages", "peak", "slab", "peak_bound", "slab_bound", "proved")
HEAD += ("seconds",)
STAGES = (order_neighborhoods, order_windows, neighborhoods)
"""Stages that are left out."""
Row = Mapping[str, str]


def _random(ops: int, seed: int, *features: str) -> Graph:
    """Return a random graph whose buffers hardly pack into its peak."""
    rng = np.random.default_rng([seed, ops])
    name = f"random{ops}_{seed}{''.join(f'_{feature}' for feature in features)}"
    return random_graph(rng, ops, max_size=64, features={"multi", *features}, name=name)


GRAPHS: tuple[Callable[[], Graph], ...] = (
    *(
        partial(random_wiring, nodes, seed, unit=unit)
        for nodes in (96, 112, 128, 160, 200, 256, 384)
        for seed in range(3)
        for unit in (True, False)
    ),
    *(partial(layered, 24, seed, width) for width in (8, 12) for seed in range(3)),
    *(partial(_random, ops, seed, "alignment") for ops in (60, 100, 150) for seed in range(4)),
    *(partial(_random, ops, seed, "workspace") for ops in (60, 100, 150) for seed in range(2)),
)
"""Random wiring, complete layers, and random graphs whose last packings take long."""


class _ProcessorThread(SolverThread[Any]):
    """Solver that is stopped by the clock of the search, not by that of the wall."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.solver.parameters.max_time_in_seconds = 1e9

    def _receive(self) -> bool:
        if self.clock.expired():
            self.solver.stop_search()
        return super()._receive()


Start = tuple[Plan, Resume]
"""Plan and state of a search that is resumed."""


def _work(
    pipe: Connection, graph: Graph, seconds: float, stages: bool, start: Start | None
) -> None:
    left_out = () if stages else STAGES
    plan, progress = start or (None, None)

    def chosen(*args: Any, **named: Any) -> Any:
        return tuple(stage for stage in schedule(*args, **named) if stage.run not in left_out)

    pipeline.schedule = chosen  # type: ignore[attr-defined]
    for module in (parts, solve, order, benders):
        module.SolverThread = _ProcessorThread  # type: ignore[attr-defined]
    with watched():
        found = pipeline.solve(graph, time_limit=seconds, warm_start=plan, progress=progress)
    proofs = found.peak_proof is not None, found.slab_proof is not None
    numbers = found.peak, found.slab, found.peak_bound, found.slab_bound
    pipe.send(((*numbers, sum(proofs), time.process_time()), (found.plan, found.resume)))


def measure(
    graph: Graph, seconds: float, stages: bool, start: Start | None = None
) -> tuple[tuple[Any, ...], Any]:
    """Return what one search finds.

    Returns
    -------
    tuple
        Peak, slab, their bounds, the number of proofs and seconds of the processor.
    tuple
        The plan, and the state from which a later search resumes; None for it if nothing is open.
    """
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, graph, seconds, stages, start))
    process.start()
    theirs.close()
    found = mine.recv()
    process.join()
    return found  # type: ignore[no-any-return]


def save(path: Path, numbers: Sequence[Any], start: Start) -> None:
    """Write what a search has found, as JSON."""
    plan, progress = start
    record = {
        "numbers": numbers,
        "order": plan.order,
        "offsets": plan.offsets,
        "progress": progress.to_dict(),
    }
    path.write_text(json.dumps(record))


def saved(path: Path, graph: Graph) -> tuple[tuple[Any, ...], Start]:
    """Read what a search has found."""
    record = json.loads(path.read_text())
    plan = Plan(tuple(record["order"]), tuple(record["offsets"]))
    progress = Resume.from_dict(record["progress"], len(graph.ops))
    return tuple(record["numbers"]), (plan, progress)


def main(argv: Sequence[str]) -> int:
    """Measure the graphs, append rows, and print the table of all rows of the file."""
    parser = argparse.ArgumentParser(prog="python -m experiments.cross_check.repeated_stage")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of each run")
    parser.add_argument("--graphs", nargs="+", help="names of graphs (default: all)")
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--further", type=float, help="seconds more for graphs that are open")
    parser.add_argument("--plans", type=Path, help="folder of the saved plans")
    args = parser.parse_args(argv)
    if args.further is not None and args.plans is None:
        parser.error("--further needs --plans DIR")
    pipeline.solve(random_wiring(40, 0), time_limit=5)  # loads the kernels
    for make in GRAPHS:
        graph = make()
        if graph.name in (args.graphs or [graph.name]):
            _measure(graph, args) if args.further is None else _resume(graph, args)
    print(table(read(args.csv)), end="")
    return 0


def _measure(graph: Graph, args: argparse.Namespace) -> None:
    """Solve a graph with the stages and without, and append rows."""
    for stages in ("without", "with"):
        if _is_new(args.csv, graph, limit := f"{args.seconds:g}", stages):
            numbers, _ = measure(graph, args.seconds, stages == "with")
            _append(args.csv, graph, limit, stages, numbers)


def _resume(graph: Graph, args: argparse.Namespace) -> None:
    """Solve a graph without the stages, and further with them and without if it is open."""
    args.plans.mkdir(parents=True, exist_ok=True)
    path = args.plans / f"{graph.name}.json"
    if not path.exists():
        numbers, start = measure(graph, args.seconds, False)
        if _is_new(args.csv, graph, limit := f"{args.seconds:g}", "without"):
            _append(args.csv, graph, limit, "without", numbers)
        if start[1] is None:
            return
        save(path, numbers, start)
    _, start = saved(path, graph)
    limit = f"{args.seconds:g}+{args.further:g}"
    for stages in ("without", "with"):
        if args.further and _is_new(args.csv, graph, limit, stages):
            numbers, _ = measure(graph, args.further, stages == "with", start)
            _append(args.csv, graph, limit, stages, numbers)


def _is_new(path: Path, graph: Graph, limit: str, stages: str) -> bool:
    return (graph.name, limit, stages) not in {
        (row["graph"], row["limit"], row["stages"]) for row in read(path)
    }


def _append(path: Path, graph: Graph, limit: str, stages: str, numbers: Sequence[Any]) -> None:
    *found, seconds = numbers
    append(path, (graph.name, len(graph.ops), limit, stages, *found, f"{seconds:.1f}"))


def append(path: Path, row: Sequence[object]) -> None:
    """Append a row, and the head to a new file."""
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEAD, row] if is_new else [row])


def read(path: Path) -> list[Row]:
    """Return the rows of a file, none if it does not exist."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def table(rows: Sequence[Row]) -> str:
    """Return how peaks and slabs compare on open graphs, by family, and counts of proofs."""
    pairs: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        pairs.setdefault((row["limit"], row["graph"]), {})[row["stages"]] = row
    whole = [pair for pair in pairs.values() if len(pair) == 2]
    kinds = {(pair["with"]["limit"], _family(pair["with"])): None for pair in whole}
    lines = []
    for limit, family in kinds:
        mine = [p for p in whole if (p["with"]["limit"], _family(p["with"])) == (limit, family)]
        # All graphs that are resumed were open.
        still_open = [p for p in mine if "+" in limit or p["without"]["proved"] != "2"]
        counts = [_compared(still_open, what) for what in ("peak", "slab")]
        either = sum(_lower(pair, "peak") or _lower(pair, "slab") for pair in still_open)
        won = sum(pair["with"]["proved"] > pair["without"]["proved"] for pair in still_open)
        lost = sum(p["without"]["proved"] > p["with"]["proved"] for p in mine)
        numbers = (len(mine), len(still_open), *counts, either, won, lost)
        lines.append([limit, family, *map(str, numbers)])
    head = ("s", "family", "graphs", "open without", "peak lower / equal / higher")
    head += ("slab lower / equal / higher", "either lower", "proofs won", "proofs lost")
    return markdown(head, lines)


def _family(row: Row) -> str:
    return row["graph"].split("_")[0].rstrip("0123456789x")


def _lower(pair: Mapping[str, Row], what: str) -> bool:
    return int(pair["with"][what]) < int(pair["without"][what])


def _compared(pairs: Sequence[Mapping[str, Row]], what: str) -> str:
    lower = sum(_lower(pair, what) for pair in pairs)
    equal = sum(pair["with"][what] == pair["without"][what] for pair in pairs)
    return f"{lower} / {equal} / {len(pairs) - lower - equal}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
