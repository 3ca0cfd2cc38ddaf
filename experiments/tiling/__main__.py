"""Arenas of TFLite Micro with tiling in rows: `python -m experiments.tiling`.

With `--models FOLDER` the model files of a folder are tiled too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from experiments.recompute.processor import limit_by_processor
from experiments.tables import markdown, read_rows, replace_table, write_rows
from experiments.tiling.rivals import Rivals
from optsched.errors import OptschedError
from optsched.formats.tflite.graph import TfliteGraph, read_tflite
from optsched.formats.tflite.rows import rows_of
from optsched.formats.tflite.tiled import write_tiled
from optsched.formats.tflite.tiled_tail import tail_of
from optsched.measure.tflm import Run, run_models
from optsched.model.plan import Plan
from optsched.model.tiled import TiledGraph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.tiling.paths import Path as Choice
from optsched.solver.tiling.realize import realize
from optsched.solver.tiling.solve import BANDS
from optsched.solver.tiling.tiler import Tiler
from tests.support import litert, tflm_runs
from tests.support.microcontroller_networks import NETWORKS

HERE = Path(__file__).parent
ARENA = 64 << 20
EXTRA = 0.05
"""Extra multiplications that "ours" may take."""
POINTS = 6


@dataclass(frozen=True)
class Row:
    """A model with one choice of stages; bytes as TFLite Micro's interpreter prints them."""

    model: str
    way: str
    """`model` and `way`: the model, and who chose the stages."""
    ops: int
    stages: int
    """`ops` and `stages`: operators of the file, and stages."""
    planned: int
    head: int
    tail: int
    """`planned`, `head` and `tail`: the planned slab; head and tail of the arena."""
    extra: float
    """Extra multiplications in thousandths of the model's."""
    proved: int
    """1 if no tiling of the family has a smaller arena for these multiplications."""
    before: int
    after: int
    """`before` and `after`: microseconds of the processor per inference, untiled and tiled, in
    turns."""
    same: str
    """`yes` if all outputs are equal bit for bit in TFLite Micro, with offsets and without, and in
    LiteRT."""
    seconds: float
    """Time of the search."""

    @property
    def total(self) -> int:
        """Head and tail."""
        return self.head + self.tail


class Study:
    """One model: its network, and the choices of all."""

    def __init__(self, name: str, data: bytes, seconds: float) -> None:
        self.name, self.data, self.seconds = name, data, seconds
        self.made: TfliteGraph = read_tflite(data, name)
        self.rows, self.tail = rows_of(self.made, data), tail_of(self.made, data, 8)
        self.begun = time.monotonic()
        limits = Limits(seconds=seconds)
        self.tiler = Tiler(self.rows, self.tail, BANDS, "total", Clock.of(limits))
        self.tiler.prepare()
        ops = [op for op in self.rows.ops if not isinstance(op, str)]
        self.cost = sum(op.cost * self.rows.heights[op.output] for op in ops)

    def rows_of_table(self) -> Iterator[Row]:
        """Yield a row for each choice of stages."""
        yield self._own()
        untiled = self.tiler.untiled
        yield self._row("order and offsets", untiled.tiled, untiled.plan, 0, 1)
        best, bound = self.tiler.least(int(EXTRA * self.cost))
        proved = int(bound is not None and best.arena <= bound + self.tail.slack)
        yield self._row("tiled", best.tiled, best.plan, best.extra, proved)
        rivals = Rivals(self.tiler.net, self.tail.model)
        for way, choice in (("best single stage", rivals.single()), ("patches", rivals.patch())):
            if choice is not None:
                yield self._realized(way, choice)
        if (fused := rivals.fused()) is not None:
            yield self._realized("fused blocks", fused[0])

    def front(self) -> Iterator[tuple[int, float, int]]:
        """Yield total bytes, extra multiplications, and 1 if proved, of points of the front."""
        self.tiler.clock = self.tiler.paths.clock = Clock.of(Limits(seconds=self.seconds / 2))
        for point in self.tiler.front(POINTS):
            yield point.arena, point.extra / max(1, self.cost), int(point.proved)

    def _realized(self, way: str, choice: Choice) -> Row:
        made = realize(self.tiler.net, choice, 0, Clock.of(Limits(seconds=8.0)))
        return self._row(way, made.tiled, made.plan, choice.extra, 0)

    def _own(self) -> Row:
        """Return the model as it is, with TFLite Micro's own plan."""
        (run,) = run_models([self.data], ARENA)
        ops = len(self.made.model.operators)
        none = (run.head, run.head, run.tail, 0.0, 0, 0, 0, "", 0.0)
        return Row(self.name, "TFLite Micro", ops, 0, *none)

    def _row(self, way: str, tiled: TiledGraph, plan: Plan, extra: int, proved: int) -> Row:
        seconds = time.monotonic() - self.begun
        written = write_tiled(self.data, self.made, tiled, plan)
        before, after = run_models([self.data, written], ARENA)
        same = self._same(before, after, written)
        times = [round(1e6 * (run.seconds or 0)) for run in (before, after)]
        stages, share = len(tiled.tiling.stages), 1000 * extra / max(1, self.cost)
        arena = (tiled.head(plan), after.head, after.tail, round(share, 2), proved)
        return Row(self.name, way, len(tiled.ops), stages, *arena, *times, same, round(seconds, 1))

    def _same(self, before: Run, after: Run, written: bytes) -> str:
        """Return `yes`, or which interpreter's outputs differ."""
        if not before.same_outputs(after):
            return "no"
        model, rng = self.made.model, np.random.default_rng(3)
        inputs = [
            tflm_runs.drawn(rng, model.tensors[t].shape, model.tensors[t].type)
            for t in model.inputs
        ]
        try:
            both = [litert.outputs(data, inputs) for data in (self.data, written)]
        except (RuntimeError, ValueError):
            return "yes (LiteRT does not run it)"
        equal = all(a.tobytes() == b.tobytes() for a, b in zip(*both, strict=True))
        return "yes" if equal else "not in LiteRT"


@dataclass(frozen=True)
class Point:
    """A point of a front."""

    model: str
    total: int
    extra: float
    proved: int


def models(folder: str | None) -> Iterator[tuple[str, bytes]]:
    """Yield names and files: the networks of a seed, then those of a folder."""
    for name, make in NETWORKS.items():
        yield name, make().bytes()
    for path in sorted(Path(folder).glob("*.tflite")) if folder else ():
        yield path.stem, path.read_bytes()


def table(rows: Sequence[Row], points: Sequence[Point]) -> str:
    """Return the table of arenas: a line per model, a column per choice."""
    rivals = ("best single stage", "patches", "fused blocks")
    by_model: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_model.setdefault(row.model, {})[row.way] = row
    lines = []
    for model, found in by_model.items():
        if "tiled" not in found:
            continue
        ours, own = found["tiled"], found["TFLite Micro"]
        cells = [f"{own.total:,}", f"{found['order and offsets'].total:,}"]
        cells += [_with_cost(found[way]) if way in found else "" for way in rivals]
        cells += [f"{ours.head:,}", f"{ours.tail:,}", f"**{_with_cost(ours)}**{' *' * ours.proved}"]
        least = min((p.total, p.extra) for p in points if p.model == model)
        least = min(least, (ours.total, ours.extra / 1000))
        cells += [f"{ours.total / own.total:.2f}", f"{least[0]:,} ({100 * least[1]:.1f} %)"]
        cells += [f"{ours.after / ours.before:.2f}" if ours.before else "", ours.same]
        lines.append([model, *cells])
    head = ["model", "TFLite Micro", "order and offsets", *rivals, "head", "tail", "tiled"]
    return markdown([*head, "of TFLM's", "least found", "time", "equal"], lines)


def _with_cost(row: Row) -> str:
    return f"{row.total:,} ({row.extra / 10:.1f} %)"


def _keep(path: Path, kind: type[Any], found: Sequence[Any]) -> None:
    """Put rows of a model in a file, in place of earlier ones of that model."""
    # Read again: another process may do other models.
    rows = read_rows(path, kind) if path.exists() else []
    write_rows(path, [row for row in rows if row.model != found[0].model] + [*found])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", help="folder with more model files")
    parser.add_argument("--only", nargs="*", help="names of the models to run")
    parser.add_argument("--seconds", type=float, default=45.0, help="processor time for each model")
    args = parser.parse_args()
    # Other work on the machine takes no time from a search.
    limit_by_processor()
    for name, data in models(args.models):
        if args.only and name not in args.only:
            continue
        try:
            study = Study(name, data, args.seconds)
            found = list(study.rows_of_table())
            front = list(study.front())
        except (OptschedError, RuntimeError) as error:
            print(f"{name}: {' '.join(str(error).split())[-200:]}", flush=True)
            continue
        _keep(HERE / "results.csv", Row, found)
        _keep(HERE / "fronts.csv", Point, [Point(name, a, round(b, 5), c) for a, b, c in front])
        for row in found:
            print(row, flush=True)
    rows, points = read_rows(HERE / "results.csv", Row), read_rows(HERE / "fronts.csv", Point)
    names = ("tflite-micro", "tflite", "ai-edge-litert")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    replace_table(HERE / "README.md", "arenas", f"{table(rows, points)}\nWith {versions}.\n")


if __name__ == "__main__":
    main()
