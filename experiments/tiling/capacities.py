"""Capacities that only tilings keep: `python -m experiments.tiling.capacities`.

For each model five capacities are asked, with a limit of five seconds each. They are evenly spaced
between a bound that no tiling gets below and the arena of the best order and offsets. A model has
none if these differ by alignments only. `--models FOLDER` asks for the models of a folder too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.recompute.processor import limit_by_processor
from experiments.tables import markdown, replace_table, write_rows
from experiments.tiling.__main__ import models
from optsched.errors import OptschedError
from optsched.formats.tflite.graph import read_tflite
from optsched.formats.tflite.rows import rows_of
from optsched.formats.tflite.tiled_tail import tail_of
from optsched.runtime.limits import Limits
from optsched.solver.status import Status
from optsched.solver.tiling.result import TilingResult
from optsched.solver.tiling.solve import tile

HERE = Path(__file__).parent
SECONDS = 5.0
COUNT = 5


@dataclass(frozen=True)
class Asked:
    """A capacity of a model, with the answer."""

    model: str
    least: int
    untiled: int
    """`least` and `untiled`: the bound, and bytes of the best order and offsets."""
    capacity: int
    answer: str
    """`met`, `refuted` or `open`."""
    extra: float
    """Extra multiplications of the plan in thousandths of the model's."""
    proved: int
    """1 if no tiling of the family that fits costs less."""
    seconds: float
    """Processor time of the search."""


def asked(name: str, data: bytes) -> Iterator[Asked]:
    """Yield the capacities of a model."""
    made = read_tflite(data, name)
    rows, tail = rows_of(made, data), tail_of(made, data, 8)

    def ask(**question: float) -> TilingResult:
        return tile(rows, tail=tail, limits=Limits(seconds=SECONDS), **question)  # type: ignore[arg-type]

    found = ask(extra=100.0)
    least, untiled = found.bound, found.untiled.arena
    if untiled - least <= tail.slack:
        return
    for k in range(1, COUNT + 1):
        begun, capacity = time.process_time(), least + (untiled - least) * k // (COUNT + 1)
        result = ask(capacity=capacity)
        seconds, best = time.process_time() - begun, result.best
        refuted = result.status is Status.INFEASIBLE
        answer = "met" if best else "refuted" if refuted else "open"
        extra = 0.0 if best is None else 1000 * result.share(best.extra)
        proved = int(best is not None and best.proved)
        yield Asked(
            name, least, untiled, capacity, answer, round(extra, 2), proved, round(seconds, 1)
        )


def table(rows: Sequence[Asked]) -> str:
    """Return a line per model, with its capacities from the smallest to the largest."""
    by_model: dict[str, list[Asked]] = {}
    for row in rows:
        by_model.setdefault(row.model, []).append(row)
    lines = [
        [model, f"{own[0].least:,}", f"{own[0].untiled:,}", *map(_cell, own)]
        for model, own in by_model.items()
    ]
    shares = [f"{k}/{COUNT + 1}" for k in range(1, COUNT + 1)]
    return markdown(["model", "bound", "untiled", *shares], lines)


def _cell(row: Asked) -> str:
    cost = f" {row.extra / 10:.1f} %{' *' * row.proved}" if row.answer == "met" else ""
    return f"{row.answer}{cost}, {row.seconds:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", help="folder with more model files")
    args = parser.parse_args()
    limit_by_processor()
    found: list[Asked] = []
    for name, data in models(args.models):
        try:
            found += asked(name, data)
        except OptschedError as error:
            print(f"{name}: {error}", flush=True)
        for row in found:
            if row.model == name:
                print(row, flush=True)
    write_rows(HERE / "capacities.csv", found)
    replace_table(HERE / "README.md", "capacities", f"{table(found)}\n")


if __name__ == "__main__":
    main()
