"""Slab over max load, and time, of every packer: `python -m experiments.packing_heuristics`."""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from heuristics import ORDERINGS, PACKINGS
from heuristics.portfolio import packing_turn
from optsched.check.packing import check_packing
from optsched.formats.inductor import read_inductor
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import PackingProblem, packing_problem
from tests.support.families.traces import training_trace

HERE = Path(__file__).parent
GRAPHS = HERE.parents[1] / "instances" / "inductor"
SIZES = (1_000, 20_000, 60_000)
MARKS = ("<!-- table: begin -->", "<!-- table: end -->")


@dataclass(frozen=True, slots=True)
class Row:
    """One packer on one instance: fragmentation as a share of the max load, seconds."""

    packer: str
    excess: float
    seconds: float


def main(arguments: Sequence[str]) -> int:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--runs", type=int, default=3, help="number of runs; the shortest time counts"
    )
    parser.add_argument("--write", action="store_true", help="write the tables into the README")
    options = parser.parse_args(arguments)
    warm_up()
    graphs = [measure(problem, 1) for problem in inductor_problems()]
    traces = {
        problem.name: measure(problem, options.runs)
        for repeated in (True, False)
        for problem in (training_trace(n, options.seed, repeated=repeated) for n in options.sizes)
    }
    tables = f"{graph_table(graphs)}\n\n{trace_table(traces)}"
    print(tables)
    if options.write:
        write(tables)
    return 0


def warm_up() -> None:
    """Load or compile every kernel, those for few and those for many buffers."""
    for problem in (training_trace(900), training_trace(3_000)):
        for packing in PACKINGS.values():
            packing(problem)


def inductor_problems() -> Iterator[PackingProblem]:
    """Each graph in the order of least peak that a heuristic ordering finds."""
    for path in sorted(GRAPHS.glob("*.json.gz")):
        with gzip.open(path, "rt") as file:
            graph = read_inductor(json.load(file), name=path.name.split(".json")[0])
        yield packing_problem(graph, best_order(graph))[0]


def best_order(graph: Graph) -> list[int]:
    """Return the first of the heuristics' orders of least peak."""
    orders = [make(graph, 0).tolist() for make in ORDERINGS.values()]
    return min(orders, key=lambda order: peak_memory(graph, order))


def measure(problem: PackingProblem, runs: int) -> list[Row]:
    """Run every packer; each packing is checked."""
    rows = []
    for name, packing in PACKINGS.items():
        seconds = float("inf")
        for _ in range(runs):
            # Of processor time: other work on the machine does not count.
            started = time.process_time()
            offsets = packing(problem)
            seconds = min(seconds, time.process_time() - started)
        slab = check_packing(problem, offsets.tolist())
        rows.append(Row(name, slab / max(1, problem.max_load) - 1, seconds))
        print(f"{problem.name}: {rows[-1]}", file=sys.stderr, flush=True)
    return rows


def graph_table(graphs: Sequence[Sequence[Row]]) -> str:
    """One line a packer: how often it meets the max load, and the excess where it does not."""
    lines = [
        f"Inductor's graphs ({len(graphs)}): slab over max load.",
        "",
        "| packer | meets it | median % | mean % | worst % | best of all | all graphs, ms |",
        "|---|---|---|---|---|---|---|",
    ]
    least = [min(row.excess for row in rows) for rows in graphs]
    for column, packer in enumerate(PACKINGS):
        rows = [graph[column] for graph in graphs]
        excess = [100 * row.excess for row in rows]
        lines.append(
            f"| {packer} | {sum(x == 0 for x in excess)} | {statistics.median(excess):.2f} "
            f"| {statistics.mean(excess):.2f} | {max(excess):.2f} "
            f"| {sum(row.excess == best for row, best in zip(rows, least, strict=True))} "
            f"| {1000 * sum(row.seconds for row in rows):.0f} |"
        )
    shares = [100 * x for x in least]
    lines.append(
        f"| the best of each | {sum(x == 0 for x in shares)} | {statistics.median(shares):.2f} "
        f"| {statistics.mean(shares):.2f} | {max(shares):.2f} | {len(graphs)} | |"
    )
    return "\n".join(lines)


def trace_table(traces: dict[str, list[Row]]) -> str:
    """One line a packer, a column a trace: excess and milliseconds."""
    lines = [
        "Traces: slab over max load in percent; in brackets milliseconds.",
        "",
        "| packer | " + " | ".join(traces) + " |",
        "|---|" + "---|" * len(traces),
    ]
    for column, packer in enumerate(PACKINGS):
        rows = [trace[column] for trace in traces.values()]
        cells = [f"{100 * row.excess:.3f} ({1000 * row.seconds:,.1f})" for row in rows]
        lines.append(f"| {packer} | " + " | ".join(cells) + " |")
    cells = [
        f"{100 * min(row.excess for row in rows):.3f} "
        f"({1000 * sum(row.seconds for row in rows):,.0f})"
        for rows in traces.values()
    ]
    lines.append("| the best; all together | " + " | ".join(cells) + " |")
    cells = []
    for rows, trace in zip(traces.values(), traces, strict=True):
        turn = packing_turn(int(trace.rpartition("_")[2]))
        chosen = [row for row in rows if row.packer in turn]
        seconds = 1000 * sum(row.seconds for row in chosen)
        cells.append(f"{100 * min(row.excess for row in chosen):.3f} ({seconds:,.0f})")
    lines.append("| the best; the portfolio | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write(tables: str) -> None:
    """Replace the tables of the README."""
    from importlib.metadata import version

    readme = HERE / "README.md"
    before, rest = readme.read_text(encoding="utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba"))
    versions = f"Python {platform.python_version()}, {packages}."
    text = f"{before}{MARKS[0]}\n{tables}\n\n{versions}\n{MARKS[1]}{after}"
    readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
