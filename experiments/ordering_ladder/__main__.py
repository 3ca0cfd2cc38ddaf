"""Largest graph of each family whose least peak is proved within a time limit.

    python -m experiments.ordering_ladder --seconds 10 [--family training] [--csv FILE]

The size of a family doubles until a graph is not proved. Each graph has a process of its own, with
compiled kernels loaded; the time is that of heuristics and exact part together, the memory the most
that the process ever held.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from experiments.ordering_families.generate import checkpointed, random_wiring, training
from experiments.ordering_table.__main__ import warm_up
from heuristics import ORDERINGS
from optsched.graph import Graph
from optsched.liveness import peak_memory
from optsched.ordering import solve_order
from optsched.result import Limits

FAMILIES: dict[str, tuple[int, Callable[[int], Graph]]] = {
    "training": (350, lambda layers: training(layers, 1)),
    "checkpointed": (12, checkpointed),
    "wiring": (32, lambda nodes: random_wiring(nodes, 0)),
    "wiring, random sizes": (32, lambda nodes: random_wiring(nodes, 0, unit=False)),
}
"""First size, and what makes a graph of a size."""

QUICK = ("program", "lpmf", "lpmf_backward", "dfs")
"""Heuristics for the warm start."""

HEAD = ("family", "size", "ops", "peak", "bound", "proof", "seconds", "states", "MiB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="limit per graph")
    parser.add_argument("--family", choices=FAMILIES, action="append", help="default: all")
    parser.add_argument("--csv", type=Path, help="write the rows to this file as well")
    parser.add_argument("--one", nargs=2, metavar=("FAMILY", "SIZE"), help="solve one graph only")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(solve_one(args.one[0], int(args.one[1]), args.seconds)))
        return 0
    warm_up()
    print(line(HEAD), flush=True)
    rows = []
    for family in args.family or FAMILIES:
        for row in climb(family, args.seconds):
            rows.append(row)
            print(line(row), flush=True)
    if args.csv:
        with args.csv.open("w", newline="") as file:
            csv.writer(file).writerows([HEAD, *rows])
    return 0


def climb(family: str, seconds: float) -> Iterator[tuple[object, ...]]:
    """The rows of a family, up to the first graph that is not proved."""
    size = FAMILIES[family][0]
    proof = "first"
    while proof != "-":
        command = [sys.executable, "-m", __spec__.name, "--seconds", str(seconds)]
        command += ["--one", family, str(size)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
        proof = found["proof"]
        yield (family, size, *(found[key] for key in HEAD[2:]))
        size *= 2


def solve_one(family: str, size: int, seconds: float) -> dict[str, object]:
    """Solve one graph; heuristics count, and so does what they leave of the time limit."""
    graph = FAMILIES[family][1](size)
    started = time.perf_counter()
    orders = [ORDERINGS[name](graph, 0) for name in QUICK]
    best = min(orders, key=lambda order: peak_memory(graph, order))
    left = max(0.0, seconds - (time.perf_counter() - started))
    outcome = solve_order(graph, warm_start=best.tolist(), limits=Limits(seconds=left))
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "ops": len(graph.ops),
        "peak": outcome.peak,
        "bound": outcome.bound,
        "proof": outcome.proof or "-",
        "seconds": round(time.perf_counter() - started, 2),
        "states": outcome.statistics.stored,
        "MiB": kibibytes // 1024,
    }


def line(row: Sequence[object]) -> str:
    """One line of the table."""
    widths = (22, 8, 9, 12, 12, 6, 9, 11, 7)
    cells = [str(cell) for cell in row]
    return cells[0].ljust(widths[0]) + "".join(
        cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)
    )


if __name__ == "__main__":
    raise SystemExit(main())
