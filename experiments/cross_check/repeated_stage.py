"""Worth of the windows and neighborhoods of CP-SAT as repeated stages of `solve`.

Run `python -m experiments.cross_check.repeated_stage --csv FILE`: each graph is solved with the
stages and without, in processes of their own, for the same seconds of the processor, by one worker.
Rows are appended, and those of an earlier run are kept. The table counts on how many of the graphs
that stay open without the stages these lower the slab or the peak, and lost proofs.

All limits, those of CP-SAT included, count what the process has used of the processor, so that
other work on the machine does not decide.
"""

from __future__ import annotations

import argparse
import csv
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
from optsched.solver import pipeline
from optsched.solver.joint_stages import neighborhoods, order_windows
from optsched.solver.schedule import schedule
from tests.support.families.shapes import layered
from tests.support.families.wiring import random_wiring
from tests.support.generators import random_graph

HEAD = ("graph", "ops", "limit", "stages", "peak", "slab", "peak_bound", "slab_bound", "proved")
HEAD += ("seconds",)
STAGES = (order_windows, neighborhoods)
"""Stages of CP-SAT, which are left out."""
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


def _work(pipe: Connection, graph: Graph, seconds: float, stages: bool) -> None:
    left_out = () if stages else STAGES

    def chosen(*args: Any, **named: Any) -> Any:
        return tuple(stage for stage in schedule(*args, **named) if stage.run not in left_out)

    pipeline.schedule = chosen  # type: ignore[attr-defined]
    for module in (parts, solve, order, benders):
        module.SolverThread = _ProcessorThread  # type: ignore[attr-defined]
    with watched():
        found = pipeline.solve(graph, time_limit=seconds)
    proofs = found.peak_proof is not None, found.slab_proof is not None
    numbers = found.peak, found.slab, found.peak_bound, found.slab_bound
    pipe.send((*numbers, sum(proofs), time.process_time()))


def measure(graph: Graph, seconds: float, stages: bool) -> Any:
    """Return peak, slab, their bounds, the number of proofs, and seconds of the processor."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, graph, seconds, stages))
    process.start()
    theirs.close()
    found = mine.recv()
    process.join()
    return found


def main(argv: Sequence[str]) -> int:
    """Measure the graphs, append rows, and print the table of all rows of the file."""
    parser = argparse.ArgumentParser(prog="python -m experiments.cross_check.repeated_stage")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of each run")
    parser.add_argument("--graphs", nargs="+", help="names of graphs (default: all)")
    parser.add_argument("--csv", type=Path, required=True)
    args = parser.parse_args(argv)
    pipeline.solve(random_wiring(40, 0), time_limit=5)  # loads the kernels
    known = {(row["graph"], row["limit"], row["stages"]) for row in read(args.csv)}
    limit = f"{args.seconds:g}"
    for make in GRAPHS:
        graph = make()
        for stages in ("without", "with") if graph.name in (args.graphs or [graph.name]) else ():
            key = (graph.name, limit, stages)
            if key not in known:
                *numbers, seconds = measure(graph, args.seconds, stages == "with")
                row = (graph.name, len(graph.ops), limit, stages, *numbers, f"{seconds:.1f}")
                append(args.csv, row)
    print(table(read(args.csv)), end="")
    return 0


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
        still_open = [pair for pair in mine if pair["without"]["proved"] != "2"]
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
