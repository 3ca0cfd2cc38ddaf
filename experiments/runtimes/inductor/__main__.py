"""Command line: `python -m experiments.runtimes.inductor STUDY NAME...`."""

from __future__ import annotations

import argparse
import contextlib
import csv
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from experiments.runtimes.inductor.calls import (
    RANDOM_STEPS,
    CallRow,
    calls_table,
    measure_random_calls,
)
from experiments.runtimes.inductor.collectives import CollectiveRow, collectives_table
from experiments.runtimes.inductor.cuda import CUDA_STEPS, cuda_table, measure_cuda
from experiments.runtimes.inductor.fidelity import (
    ORDERS,
    FidelityRow,
    fidelity_table,
    measure_orders,
)
from experiments.runtimes.inductor.foreign import ForeignRow, foreign_table
from experiments.runtimes.inductor.modules import ModuleRow, measure_modules, modules_table
from experiments.runtimes.inductor.networks import STEPS
from experiments.runtimes.inductor.overhead import (
    CASES,
    OverheadRow,
    measure_overhead,
    overhead_table,
)
from experiments.runtimes.inductor.peaks import PeakRow, again_table, peaks_table
from experiments.runtimes.inductor.pools import PoolRow, measure_pools, pools_table
from experiments.runtimes.inductor.reuse import ReuseRow, measure_reuse, reuse_table
from experiments.runtimes.inductor.trips import TripRow, kernels_table, measure_trip, trips_table
from experiments.tables import read_rows, replace_table
from tests.support.compiled_memory import no_kernels
from tests.support.cuda.compare import ComparedRow

HERE = Path(__file__).parent
STUDIES: dict[str, tuple[type, Callable[[Any], str]]] = {
    "trips": (TripRow, trips_table),
    "kernels": (TripRow, kernels_table),
    "fidelity": (FidelityRow, fidelity_table),
    "modules": (ModuleRow, modules_table),
    "calls": (CallRow, calls_table),
    "reuse": (ReuseRow, reuse_table),
    "pools": (PoolRow, pools_table),
    "overhead": (OverheadRow, overhead_table),
    "cuda": (ComparedRow, cuda_table),
}
"""The rows of each and the table of them."""


def main() -> None:
    """Measure, and write rows to standard output; or make the tables again."""
    parser = argparse.ArgumentParser(prog="experiments.runtimes.inductor")
    parser.add_argument("study", choices=[*STUDIES, "tables"])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", help="of the random modules or steps, such as 5-8")
    parser.add_argument("--seconds", type=float, default=10.0, help="for the solver, a graph")
    parser.add_argument("--rounds", type=int, default=40, help="of a step of the reuse study")
    parser.add_argument("--orders", default=",".join(ORDERS), help="of the fidelity study")
    options = parser.parse_args()
    steps = {"cuda": CUDA_STEPS, "overhead": tuple(CASES)}.get(options.study, tuple(STEPS))
    options.names = options.names or list(steps)
    if unknown := set(options.names) - set(steps):
        parser.error(f"no step {min(unknown)!r}; there are {', '.join(steps)}")
    if options.study == "tables":
        _write_tables()
        return
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    has_kernels = options.study in ("kernels", "modules", "reuse")
    with contextlib.nullcontext() if has_kernels else no_kernels():
        _print(_rows(options))


def _write_tables() -> None:
    # Some studies have a command of their own.
    apart: dict[str, tuple[type, Callable[[Any], str]]] = {
        "foreign": (ForeignRow, foreign_table),
        "peaks": (PeakRow, peaks_table),
        "peaks_again": (PeakRow, again_table),
        "collectives": (CollectiveRow, collectives_table),
    }
    for study, (kind, table) in {**STUDIES, **apart}.items():
        rows: list[Any] = read_rows(HERE / f"{study}.csv", kind)
        replace_table(HERE / "README.md", study, table(rows))


def _rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if options.study == "modules":
        yield from map(asdict, measure_modules(_seeds(options, 50), options.seconds))
        return
    if options.study == "calls":
        seeds = _seeds(options, RANDOM_STEPS)
        yield from map(asdict, measure_random_calls(seeds, options.seconds))
        return
    if options.study == "cuda":
        yield from map(asdict, measure_cuda(options.names))
        return
    for name in options.names:
        if options.study == "fidelity":
            orders = options.orders.split(",")
            yield from map(asdict, measure_orders(name, orders, options.seconds))
        elif options.study == "overhead":
            yield from map(asdict, measure_overhead(name, options.seconds))
        elif options.study == "reuse":
            yield from map(asdict, measure_reuse(name, options.rounds))
        elif options.study == "pools":
            yield from map(asdict, measure_pools(name, options.seconds))
        else:
            rows = measure_trip(name, options.seconds, gradients=options.study == "kernels")
            yield from map(asdict, rows)


def _seeds(options: argparse.Namespace, count: int) -> range:
    if options.seeds is None:
        return range(count)
    first, _, last = options.seeds.partition("-")
    return range(int(first), int(last or first) + 1)


def _print(rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as they come: a study that is stopped has what it found."""
    writer: csv.DictWriter[str] | None = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(sys.stdout, fieldnames=list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow(row)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
