"""Time every sorter on wide graphs, and Inductor's Python on the smaller ones."""

from __future__ import annotations

import argparse
import csv
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from experiments.sorter_benchmark.graphs import FAMILIES
from heuristics import ORDERINGS
from optsched.model.graph import Graph

SIZES = (1_000, 10_000, 100_000)
MOST_INDUCTOR_OPS = 10_000
"""Inductor's LPMF scans all ready ops at each step: beyond this it would run for hours."""
INDUCTOR = ("lpmf", "bfs", "dfs")
HERE = Path(__file__).parent
MARKS = ("<!-- table: begin -->", "<!-- table: end -->")


@dataclass(frozen=True, slots=True)
class SorterRow:
    """One sorter on one graph; seconds, and Inductor's where it was run."""

    family: str
    ops: int
    sorter: str
    seconds: float
    inductor_seconds: float | None


def main(arguments: Sequence[str]) -> int:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="write results.csv and the README")
    options = parser.parse_args(arguments)
    has_torch = find_spec("torch") is not None
    if not has_torch:
        print("torch is not installed: no times of Inductor's own sorters")
    rows: list[SorterRow] = []
    for family in options.families:
        warm_up(FAMILIES[family](3_000, options.seed))
        for ops in options.sizes:
            graph = FAMILIES[family](ops, options.seed)
            theirs = time_inductor(graph) if has_torch and ops <= MOST_INDUCTOR_OPS else {}
            for name, ordering in ORDERINGS.items():
                seconds, order = best_of(3, partial(ordering, graph, 0))
                inductor_seconds, inductor_order = theirs.get(name, (None, None))
                if inductor_order is not None and inductor_order != order.tolist():
                    raise SystemExit(f"{graph.name}: {name} differs from Inductor's order")
                rows.append(SorterRow(family, ops, name, seconds, inductor_seconds))
                print(rows[-1], flush=True)
    table = make_table(rows)
    print(table)
    if options.write:
        write(rows, table)
    return 0


def warm_up(graph: Graph) -> None:
    """Load or compile every kernel, at a size above that of the Python twins."""
    for ordering in ORDERINGS.values():
        ordering(graph, 0)


def best_of(runs: int, call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the least seconds of some calls, and what the last returned.

    Seconds of processor time: other work on the machine does not count.
    """
    least = float("inf")
    for _ in range(runs):
        started = time.process_time()
        result = call()
        least = min(least, time.process_time() - started)
    return least, result


def time_inductor(graph: Graph) -> dict[str, tuple[float, list[int]]]:
    """Run the functions of the installed torch: seconds and order by name."""
    from tests.support.inductor_nodes import as_inductor_graph

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10 * len(graph.ops)))
    theirs = as_inductor_graph(graph)
    # The scan of a wide front takes long and is timed once.
    runs = {"lpmf": 1, "bfs": 3, "dfs": 3}
    return {name: best_of(runs[name], getattr(theirs, name)) for name in INDUCTOR}


def make_table(rows: Sequence[SorterRow]) -> str:
    """Seconds by graph and sorter; in brackets how many times longer Inductor takes."""
    graphs = list(dict.fromkeys((row.family, row.ops) for row in rows))
    cells = {(row.family, row.ops, row.sorter): cell(row) for row in rows}
    head = ["sorter", *(f"{family} {ops:,}" for family, ops in graphs)]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---|" * len(graphs)]
    for sorter in ORDERINGS:
        line = [sorter, *(cells[(*graph, sorter)] for graph in graphs)]
        lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines)


def cell(row: SorterRow) -> str:
    """Milliseconds, and the ratio to Inductor's time."""
    text = f"{1000 * row.seconds:,.1f}"
    if row.inductor_seconds is not None:
        text += f" ({row.inductor_seconds / row.seconds:,.0f}x)"
    return text


def write(rows: Sequence[SorterRow], table: str) -> None:
    """Replace the results."""
    with (HERE / "results.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([field.name for field in fields(SorterRow)])
        for row in rows:
            theirs = "" if row.inductor_seconds is None else f"{row.inductor_seconds:.6f}"
            writer.writerow([row.family, row.ops, row.sorter, f"{row.seconds:.6f}", theirs])
    readme = HERE / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    versions = f"Python {platform.python_version()}, {', '.join(map(version, PACKAGES))}."
    block = f"{MARKS[0]}\n{table}\n\n{versions}\n{MARKS[1]}"
    readme.write_text(before + block + after, encoding="utf-8")


PACKAGES = ("numpy", "numba", "torch")


def version(package: str) -> str:
    """Name and version of an installed package."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return f"{package} {installed(package)}"
    except PackageNotFoundError:
        return f"no {package}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
