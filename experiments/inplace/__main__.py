"""Table of least peaks with and without in-place, over the graphs that have candidates.

    python -m experiments.inplace DIR... [--seconds 60] [--csv FILE]

Reads every graph file of the directories. A graph without an admissible pair is left out: there the
two memory models are one.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from optsched.errors import OptschedError
from optsched.formats import read_graph
from optsched.model.graph import Graph
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve
from optsched.solver.result import Result
from optsched.solver.warmup import warm_up

HEAD = (
    "instance", "ops", "pairs", "peak", "proof", "slab", "in-place peak", "proof", "slab",
    "saving %", "s", "in-place s",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit per graph and model")
    parser.add_argument("--csv", type=Path, help="write the rows to this file as well")
    args = parser.parse_args()
    warm_up(lambda text: None)
    rows = []
    print(line(HEAD), flush=True)
    for graph in read_all(args.folders):
        if not len(graph.with_inplace().arrays.inplace_op):
            continue
        rows.append(solve_row(graph, Limits(seconds=args.seconds)))
        print(line(rows[-1]), flush=True)
    if not rows:
        print("no graph with an admissible pair found", file=sys.stderr)
        return 1
    saved = [float(str(row[9])) for row in rows]
    proved = sum("-" not in (row[4], row[7]) for row in rows)
    print(
        f"{len(rows)} graphs, {proved} proved in both models; in-place lowers the least peak on "
        f"{sum(x > 0 for x in saved)}, by {sum(saved) / len(saved):.2f} % on average over all, at "
        f"most {max(saved):.2f} %"
    )
    if args.csv:
        with args.csv.open("w", newline="") as file:
            csv.writer(file).writerows([HEAD, *rows])
    return 0


def read_all(folders: Sequence[Path]) -> Iterator[Graph]:
    """The graphs of all files that hold one, by file name; what is none is named."""
    for folder in folders:
        for path in sorted(p for p in folder.iterdir() if p.suffix not in (".md", ".csv")):
            try:
                yield read_graph(path)
            except OptschedError as error:
                print(f"{path.name}: {error}", file=sys.stderr)


def solve_row(graph: Graph, limits: Limits) -> tuple[object, ...]:
    """Solve a graph in both models."""
    other = graph.with_inplace()
    started = time.perf_counter()
    plain = solve(graph, limits=limits)
    middle = time.perf_counter()
    shared = solve(other, limits=limits)
    ended = time.perf_counter()
    saving = 100 * (1 - (shared.peak or 0) / max(1, plain.peak or 0))
    return (
        graph.name,
        len(graph.ops),
        len(other.arrays.inplace_op),
        *numbers(plain),
        *numbers(shared),
        f"{saving:.2f}",
        f"{middle - started:.2f}",
        f"{ended - middle:.2f}",
    )


def numbers(result: Result) -> tuple[object, ...]:
    """Peak, its proof, and the slab: `=` where it is the peak and proved."""
    least = result.slab == result.peak and result.slab_proof is not None
    return result.peak, result.peak_proof or "-", "=" if least else result.slab


def line(row: Sequence[object]) -> str:
    """One line of the table."""
    widths = (34, 5, 6, 13, 6, 13, 14, 6, 13, 9, 7, 11)
    cells = [str(cell) for cell in row]
    return cells[0].ljust(widths[0]) + "".join(
        cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)
    )


if __name__ == "__main__":
    raise SystemExit(main())
