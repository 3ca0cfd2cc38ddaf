"""Largest graph of each family whose least peak is proved within a time limit.

    python -m experiments.reach ladder --seconds 10 [--family training] [--csv FILE]

The size of a family doubles until a graph is not proved. Each graph has a process of its own, with
compiled kernels on disk; the time is that of heuristics and exact part together, in seconds of the
processor: one worker takes as many of the wall clock on an idle core, and a load does not change
them. The memory is the most that the process ever held. Where a table of shorter runs exists,
`--beyond FILE` begins each family at the size that failed there.
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
from contextlib import nullcontext
from pathlib import Path

from experiments.reach.processor_clock import interrupt_after
from experiments.reach.table import warm_up
from heuristics import ORDERINGS
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.ordering import solve_order
from tests.support.families.copies import accumulated, branches, microbatches
from tests.support.families.shapes import layered, series_parallel, unet
from tests.support.families.stacks import experts, recurrent, transformer
from tests.support.families.wiring import checkpointed, random_wiring, training

FAMILIES: dict[str, tuple[int, Callable[[int], Graph]]] = {
    "training": (350, lambda layers: training(layers, 1)),
    "transformer": (12, transformer),
    "experts": (8, experts),
    "recurrent": (16, recurrent),
    "checkpointed": (12, checkpointed),
    "micro-batches": (2, lambda count: microbatches(count, 16)),
    "micro-batches of transformers": (1, lambda layers: accumulated(8, layers)),
    "branches": (2, lambda count: branches(count, 20, 1)),
    "U-Net training": (6, lambda depth: unet(depth, train=True)),
    "series-parallel": (256, lambda ops: series_parallel(ops, 0)),
    "layered": (32, lambda layers: layered(layers, 0)),
    "wiring": (32, lambda nodes: random_wiring(nodes, 0)),
    "wiring, random sizes": (32, lambda nodes: random_wiring(nodes, 0, unit=False)),
}
"""First size, and what makes a graph of a size."""

LARGEST = {"U-Net training": 24}
"""Sizes after which a family ends: deeper U-Nets have more bytes than a graph may."""

QUICK = ("program", "lpmf", "lpmf_backward", "dfs")
"""Heuristics for the warm start."""

HEAD = ("family", "size", "ops", "peak", "bound", "proof", "seconds", "states", "MiB")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="experiments.reach ladder", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of the processor, per graph")
    parser.add_argument("--gib", type=float, default=8.0, help="memory per graph")
    parser.add_argument("--family", choices=FAMILIES, action="append", help="default: all")
    parser.add_argument("--beyond", type=Path, help="begin where the rows of this file end")
    parser.add_argument(
        "--csv", type=Path, help="write the rows to this file too; other families stay"
    )
    parser.add_argument("--one", nargs=2, metavar=("FAMILY", "SIZE"), help="solve one graph only")
    args = parser.parse_args(argv)
    if args.one:
        print(json.dumps(solve_one(args.one[0], int(args.one[1]), args.seconds, args.gib)))
        return 0
    warm_up()
    print(line(HEAD), flush=True)
    rows: list[tuple[object, ...]] = []
    for family in args.family or FAMILIES:
        first = FAMILIES[family][0] if args.beyond is None else failed_at(args.beyond, family)
        for row in climb(family, first, args.seconds, args.gib) if first else ():
            rows.append(row)
            print(line(row), flush=True)
            if args.csv:
                write_table(args.csv, rows)
    return 0


def write_table(path: Path, rows: Sequence[tuple[object, ...]]) -> None:
    """Put rows in the place of those of their families; what is there of others stays."""
    new = {row[0] for row in rows}
    with path.open(newline="") if path.exists() else nullcontext(()) as file:
        kept = [row for row in list(csv.reader(file))[1:] if row[0] not in new]
    order = list(FAMILIES)
    with path.open("w", newline="") as out:
        table = sorted([*kept, *rows], key=lambda row: order.index(str(row[0])))
        csv.writer(out).writerows([HEAD, *table])


def failed_at(path: Path, family: str) -> int | None:
    """The size at which the time was too short in an earlier table, if it was."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["family"] == family]
    return int(rows[-1]["size"]) if rows and rows[-1]["proof"] == "-" else None


def climb(family: str, size: int, seconds: float, gib: float) -> Iterator[tuple[object, ...]]:
    """The rows of a family, up to the first graph that is not proved."""
    proof = "first"
    while proof not in ("-", MEMORY) and size <= LARGEST.get(family, size):
        command = [sys.executable, "-m", "experiments.reach", "ladder", "--seconds", str(seconds)]
        command += ["--gib", str(gib), "--one", family, str(size)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
        proof = found["proof"]
        yield (family, size, *(found[key] for key in HEAD[2:]))
        size *= 2


MEMORY = "memory"
"""Stands where a proof would, if the memory was too small."""


def solve_one(family: str, size: int, seconds: float, gib: float) -> dict[str, object]:
    """Solve one graph; what heuristics take is part of the time."""
    graph = FAMILIES[family][1](size)
    found: dict[str, object] = {"ops": len(graph.ops), "peak": "", "bound": "", "states": ""}
    resource.setrlimit(resource.RLIMIT_AS, (int(gib * 2**30), resource.RLIM_INFINITY))
    started = time.process_time()
    try:
        with interrupt_after(seconds):
            found |= prove(graph)
    except KeyboardInterrupt:
        found["proof"] = "-"
    except MemoryError:
        found["proof"] = MEMORY
    spent = round(time.process_time() - started, 2)
    return found | {"seconds": spent, "MiB": most_kibibytes() // 1024}


def most_kibibytes() -> int:
    """The most memory that the process ever held; what it inherits of its parent does not count."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(status.read_text().split("VmHWM:")[1].split()[0])


def prove(graph: Graph) -> dict[str, object]:
    """Search from the best of the quick heuristics."""
    orders = [ORDERINGS[name](graph, 0) for name in QUICK]
    best = min(orders, key=lambda order: peak_memory(graph, order))
    outcome = solve_order(graph, warm_start=best.tolist())
    return {
        "peak": outcome.peak,
        "bound": outcome.bound,
        "proof": outcome.proof or "-",
        "states": outcome.statistics.stored,
    }


def line(row: Sequence[object]) -> str:
    """One line of the table."""
    widths = (22, 8, 9, 12, 12, 6, 9, 11, 7)
    cells = [str(cell) for cell in row]
    return cells[0].ljust(widths[0]) + "".join(
        cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)
    )
