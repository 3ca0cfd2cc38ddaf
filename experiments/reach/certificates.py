"""Certificates of real graphs: how many proofs can be written down, how large, how long to check.

    python -m experiments.reach certificates DIR... [--wiring] [--blocks] [--regions] [--inplace]
        [--seconds 60] [--csv FILE]

Reads every graph file of the directories, and makes graphs of random wiring, of identical blocks or
of nested regions (series-parallel ones) if asked to; solves each from the best heuristic order and
writes the certificate of the bound.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import chain, product
from pathlib import Path

from experiments.reach.families import BLOCKS
from experiments.reach.table import warm_up
from heuristics import ORDERINGS
from optsched.certificate import Written, certify_peak
from optsched.check.certificate import check_certificate
from optsched.check.steps import RegionStep, StatesStep, SupposeStep
from optsched.formats import read_certificate, write_certificate
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.ordering import solve_order
from optsched.runtime.limits import Limits
from tests.support.families.shapes import series_parallel
from tests.support.families.wiring import random_wiring
from tests.support.files import read_all

HEAD = (
    *("instance", "ops", "peak", "bound", "proof", "rung"),
    *("steps", "cases", "states", "regions", "bytes", "write_s", "ms"),
    "missing",
)

WIRINGS = tuple(product((32, 64, 96, 128), (True, False), range(3)))
"""Nodes, whether all sizes are one, and seed."""

SERIES_PARALLEL = tuple(product((64, 256, 1_024, 4_096), range(3)))
"""Ops and seed."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="experiments.reach certificates", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folders", nargs="*", type=Path, metavar="DIR")
    parser.add_argument("--wiring", action="store_true", help="graphs of random wiring as well")
    parser.add_argument("--blocks", action="store_true", help="graphs of blocks as well")
    parser.add_argument("--regions", action="store_true", help="series-parallel graphs as well")
    parser.add_argument("--inplace", action="store_true", help="in the in-place memory model")
    parser.add_argument("--seconds", type=float, default=60.0, help="to solve, and to certify")
    parser.add_argument("--csv", type=Path, help="write the rows to this file as well")
    args = parser.parse_args(argv)
    warm_up()
    rows = []
    print(line(HEAD), flush=True)
    wirings = WIRINGS if args.wiring else ()
    made = (random_wiring(nodes, seed, unit=unit) for nodes, unit, seed in wirings)
    blocks = (make() for make in (BLOCKS if args.blocks else ()))
    parallel = (series_parallel(*row) for row in (SERIES_PARALLEL if args.regions else ()))
    for graph in chain(read_all(args.folders), made, blocks, parallel):
        rows.append(certify(graph.with_inplace() if args.inplace else graph, args.seconds))
        print(line(rows[-1]), flush=True)
    if not rows:
        print("no graph files found", file=sys.stderr)
        return 1
    proved = [row for row in rows if row[4] != "-"]
    written = sum(not row[-1] for row in proved)
    longest = max(float(str(row[-2])) for row in rows)
    print(
        f"{len(proved)} of {len(rows)} proved, {written} of these with a certificate of the "
        f"optimum; checked in at most {longest:.0f} ms"
    )
    if args.csv:
        with args.csv.open("w", newline="") as file:
            csv.writer(file).writerows([HEAD, *rows])
    return 0 if written == len(proved) else 1


def certify(graph: Graph, seconds: float) -> tuple[object, ...]:
    """Solve a graph, write the certificate to a file, read it back and check it."""
    orders = [make(graph, 0) for make in ORDERINGS.values()]
    best = min(orders, key=lambda order: peak_memory(graph, order))
    limits = Limits(seconds=seconds)
    outcome = solve_order(graph, warm_start=best.tolist(), limits=limits)
    started = time.process_time()
    written = certify_peak(graph, outcome.order, outcome.bound, limits=Limits(seconds=seconds))
    spent = time.process_time() - started
    size, milliseconds = check(graph, written)
    steps = written.certificate.steps
    states = sum(len(step.states) + 1 for step in steps if isinstance(step, StatesStep))
    return (
        graph.name,
        len(graph.ops),
        outcome.peak,
        outcome.bound,
        outcome.proof or "-",
        written.rung,
        len(steps),
        sum(isinstance(step, SupposeStep) for step in steps),
        states,
        sum(isinstance(step, RegionStep) for step in steps),
        size,
        round(spent, 2),
        round(milliseconds, 1),
        written.missing or "",
    )


def check(graph: Graph, written: Written) -> tuple[int, float]:
    """Return the bytes of the certificate, compressed, and the milliseconds to read and check."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.json.gz"
        write_certificate(written.certificate, path, graph)
        started = time.perf_counter()
        rung = check_certificate(graph, read_certificate(path, graph))
        assert rung == written.rung
        return path.stat().st_size, 1000 * (time.perf_counter() - started)


def line(row: Sequence[object]) -> str:
    """One line of the table."""
    widths = (36, 6, 15, 15, 6, 5, 6, 6, 8, 8, 8, 8, 8)
    cells = [str(cell) for cell in row]
    return (
        cells[0].ljust(widths[0])
        + "".join(cell.rjust(width) for cell, width in zip(cells[1:-1], widths[1:], strict=True))
        + f"  {cells[-1]}"
    )
