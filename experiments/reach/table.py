"""Table of proven least peaks: Inductor's four orders, best heuristic, bound, optimum, proof, time.

    python -m experiments.reach table DIR... [--seconds 60]

Reads every simulator file (`*.json`, `*.json.gz`) of the directories. Kernels are compiled before
the clock starts; the time of a row is that of the exact part, from the heuristics' best order on,
and like the limit in seconds of the processor, which a load of the machine does not change.
`KiB` is the room for states at its most.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path

from experiments.reach.processor_clock import interrupt_after
from heuristics import ORDERINGS
from optsched.formats.inductor import read_inductor
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.steps import Order
from optsched.ordering import OrderingRules, OrderOutcome, closure_bound, solve_order
from optsched.runtime.limits import Limits
from tests.support.families.wiring import checkpointed, random_wiring

RULES = [field.name for field in fields(OrderingRules)]
INDUCTOR = ("program", "lpmf", "bfs", "dfs")
"""The orders among which Inductor chooses the best one."""

HEAD = (
    *("instance", "ops", *INDUCTOR, "heuristic"),
    *("bound", "optimum", "gain %", "proof", "ms", "states", "KiB"),
)

Row = dict[str, object]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="experiments.reach table", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folders", nargs="*", type=Path, metavar="DIR")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit per graph")
    parser.add_argument("--match", default="", help="only files with this in their name")
    parser.add_argument("--without", action="append", default=[], choices=RULES, metavar="RULE")
    parser.add_argument("--csv", type=Path, help="write the rows to this file as well")
    args = parser.parse_args(argv)
    rules = OrderingRules(**{name: name not in args.without for name in RULES})
    warm_up()
    rows: list[Row] = []
    print(line(HEAD), flush=True)
    for graph in read_all(args.folders, args.match):
        rows.append(solve_row(graph, rules, args.seconds))
        print(line(rows[-1].values()), flush=True)
    if not rows:
        print("no simulator files found", file=sys.stderr)
        return 1
    times = [float(str(row["ms"])) for row in rows]
    proved = sum(row["proof"] != "-" for row in rows)
    print(
        f"{proved} of {len(rows)} proved; exact part: median {statistics.median(times):.1f} ms, "
        f"longest {max(times):.0f} ms, all {sum(times) / 1000:.1f} s"
    )
    if args.csv:
        with args.csv.open("w", newline="") as file:
            csv.writer(file).writerows([HEAD, *(row.values() for row in rows)])
    return 0


def warm_up() -> None:
    """Let all kernels be compiled or loaded."""
    started = time.perf_counter()
    for graph in (checkpointed(3), random_wiring(64, 3, unit=False), random_wiring(96, 1)):
        orders = [make(graph, 0) for make in ORDERINGS.values()]
        solve_order(graph, warm_start=orders[0], limits=Limits(seconds=2.0))
    print(f"kernels ready after {time.perf_counter() - started:.1f} s")


def read_all(folders: Sequence[Path], match: str) -> Iterator[Graph]:
    """The graphs of all simulator files, by name."""
    for folder in folders:
        for path in sorted(p for p in folder.iterdir() if ".json" in p.suffixes):
            if match not in path.name:
                continue
            opened = gzip.open if path.suffix == ".gz" else open
            with opened(path, "rt") as file:
                document = json.load(file)
            if "nodes" in document and "buffers" in document:
                yield read_inductor(document, name=path.name.split(".json")[0])


def solve_row(graph: Graph, rules: OrderingRules, seconds: float, workers: int = 1) -> Row:
    """Solve a graph from the best heuristic order; times are those of all workers together."""
    orders = {name: make(graph, 0) for name, make in ORDERINGS.items()}
    peaks = {name: peak_memory(graph, order) for name, order in orders.items()}
    heuristic = min(peaks.values())
    best = next(order for name, order in orders.items() if peaks[name] == heuristic)
    outcome, spent = solve_within(graph, best, rules, seconds, workers)
    bound = outcome.bound
    if outcome.proof is not None:
        bound = closure_bound(graph, list(orders.values())).value
    found = (
        heuristic,
        bound,
        outcome.peak,
        round(100 * (1 - outcome.peak / max(1, heuristic)), 2),
        outcome.proof or "-",
        round(1000 * spent, 1),
        outcome.statistics.stored,
        outcome.statistics.table_bytes // 1024,
    )
    four = (peaks[name] for name in INDUCTOR)
    return dict(zip(HEAD, (graph.name, len(graph.ops), *four, *found), strict=True))


def solve_within(
    graph: Graph, start: Order, rules: OrderingRules, seconds: float, workers: int = 1
) -> tuple[OrderOutcome, float]:
    """Solve a graph from a known order; the outcome, and the seconds of the processor it took."""
    started = time.process_time()
    # With one worker the clock is the processor's; several could leave it idle for long.
    limits = Limits(seconds=None if workers == 1 else seconds, workers=workers)
    with interrupt_after(seconds * workers):
        outcome = solve_order(graph, warm_start=start.tolist(), limits=limits, rules=rules)
    return outcome, time.process_time() - started


def line(row: Iterable[object]) -> str:
    """One line of the table."""
    widths = (32, 7, *7 * (13,), 7, 6, 10, 9, 9)
    cells = [str(cell) for cell in row]
    return cells[0].ljust(widths[0]) + "".join(
        cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)
    )
