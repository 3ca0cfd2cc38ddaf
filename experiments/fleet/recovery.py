"""Recovery of a fleet after a fault: time until its table is complete again, and losses."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from optsched.fleet import Fleet
from optsched.formats import read_graph
from optsched.store import PlanStore, verify
from tests.support.fleet_faults import FAULTS, Recovery
from tests.support.fleets import Driver, make_fleet, undisturbed


@dataclass(frozen=True)
class FaultRow:
    """Results of a fault, repeated several times."""

    fault: str
    engine: str
    """`fault` and `engine`: the fault, and the engine."""
    units: int
    """Lost and done again, in all."""
    plans: int
    """Of the undisturbed run that the store did not have in the end, in all."""
    tables: int
    """Number of tables that differ from those of an undisturbed run."""
    seconds: tuple[float, ...]
    """From each fault to the table."""

    def __str__(self) -> str:
        often = len(self.seconds)
        middle, most = statistics.median(self.seconds), max(self.seconds)
        return (
            f"| {self.fault} | {self.engine} | {often} | {self.units} | {self.plans} | "
            f"{self.tables} | {middle:.1f} | {most:.1f} |"
        )


def recovery(times: int, engines: Sequence[str], hard: int, easy: int) -> None:
    """Do each fault so often on each engine, and print a table."""
    print("| fault | engine | times | units lost | plans lost | other tables | s | most s |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = make_fleet(folder, hard, easy)
        expected = undisturbed(paths, folder / "undisturbed.store")
        for engine in engines:
            options = ("--engine", engine)
            whole = [
                Driver(paths, folder / f"{engine}{number}.store", *options).finish()["seconds"]
                for number in range(times)
            ]
            print(FaultRow("none", engine, 0, 0, 0, tuple(whole)), flush=True)
            for fault, make in FAULTS.items():
                if engine != "local" and fault == "worker killed":
                    # Their workers go by other names; `tests/frameworks/engines` kills them.
                    continue
                stores = [folder / f"{engine}-{fault}-{number}.store" for number in range(times)]
                done = [make(paths, store, *options) for store in stores]
                row = _row(fault, engine, list(zip(done, stores, strict=True)), paths, expected)
                print(row, flush=True)


def _row(
    fault: str,
    engine: str,
    done: Sequence[tuple[Recovery, Path]],
    paths: Sequence[str],
    expected: Fleet,
) -> FaultRow:
    rows = expected.rows()
    return FaultRow(
        fault,
        engine,
        sum(one.found["lost"] for one, _ in done),
        sum(_plans_lost(store, paths, expected) for _, store in done),
        sum(one.found["rows"] != rows for one, _ in done),
        tuple(one.seconds for one, _ in done),
    )


def _plans_lost(store: Path, paths: Sequence[str], expected: Fleet) -> int:
    """Return how many graphs have another plan or bound; all, if the store is not sound."""
    kept = PlanStore(store)
    if verify(kept):
        return len(paths)
    known = [kept.get(read_graph(path)) for path in paths]
    return sum(
        one is None or (one.slab, one.bound) != (row["slab"], row["slab_bound"])
        for one, row in zip(known, expected.rows(), strict=True)
    )
