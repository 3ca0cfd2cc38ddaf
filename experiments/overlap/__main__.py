"""Peak memory against exposed communication time: `python -m experiments.overlap [BATCH...]`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.overlap.costs import BATCHES, BUCKETS, FOLDER, read_program
from experiments.overlap.model import Answer, Effort, answer, least_exposed, least_peak
from experiments.overlap.schedule import shifted
from experiments.tables import markdown, read_rows, replace_table, write_rows
from optsched.reports.scatter import Axis, Mark, Shape, scatter
from optsched.runtime.bytes import unit_of
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve

HERE = Path(__file__).parent
POINTS = 6


@dataclass(frozen=True)
class Row:
    """An order of one graph, in bytes and microseconds."""

    batch: int
    way: str
    """`front`, or what Inductor or its scheduler made."""
    ops: int
    transfers: int
    busy: int
    """Time in which the compute stream runs ops."""
    room: int
    """Bytes that an order may take: on a front the limit of its point, else the order's peak."""
    peak: int
    exposed: int
    moved: int
    """Exposed time with launches and waits moved, the rest in sequence; -1 where not asked."""
    least: int
    """Least exposed time found within the room; that of the order itself on a front."""
    bound: int
    """No order within the room exposes less, as CP-SAT claims."""


class Study:
    """One graph: its program and the order that the file names as its own."""

    def __init__(self, batch: int, name: str, effort: Effort) -> None:
        self.batch, self.effort = batch, effort
        self.program, self.own = read_program(FOLDER / f"batch{batch}_{name}.bwd.json.gz")

    def own_row(self, way: str) -> Row:
        """Return the own order, beside the best ones within its peak."""
        known = answer(self.program, self.own)
        order = shifted(self.program, self.own, known.peak)
        moved = answer(self.program, order).exposed
        best = least_exposed(self.program, known.peak, order, self.effort)
        return self._row(way, known.peak, known, (moved, best.exposed, best.bound))

    def front(self) -> Iterator[Row]:
        """Yield the front, from the least peak of any order to the peak of best overlap."""
        program, effort = self.program, self.effort
        planned = solve(program.graph, objective="peak", limits=Limits(seconds=effort.seconds))
        assert planned.plan is not None
        lowest = answer(program, planned.plan.order)
        most = sum(buffer.size for buffer in program.graph.buffers)
        fast = least_exposed(program, most, shifted(program, self.own, most), effort)
        last = least_peak(program, fast.exposed, fast.order, effort)
        step = max(0, last.peak - lowest.peak) / (POINTS - 1)
        rooms = sorted({lowest.peak + round(i * step) for i in range(POINTS)})
        found, bounds = [lowest, last], []
        for room in rooms:
            order = shifted(program, _best(found, room).order, room)
            found.append(least_exposed(program, room, order, effort))
            bounds.append(found[-1].bound)
        for i, room in enumerate(rooms):
            best = _best(found, room)
            # A bound for more room is one for less.
            yield self._row("front", room, best, (-1, best.exposed, max(bounds[i:])))

    def _row(self, way: str, room: int, found: Answer, others: tuple[int, int, int]) -> Row:
        program = self.program
        counts = (len(program.durations), len(program.transfers), program.busy)
        return Row(self.batch, way, *counts, room, found.peak, found.exposed, *others)


def _best(found: Sequence[Answer], room: int) -> Answer:
    return min((x for x in found if x.peak <= room), key=lambda x: (x.exposed, x.peak))


def measure(batch: int, effort: Effort) -> Iterator[Row]:
    """Yield all rows of a batch."""
    yield from Study(batch, "0", effort).front()
    half = Effort(effort.seconds / 2)
    yield Study(batch, "0", half).own_row("Inductor")
    for bucket in BUCKETS:
        yield Study(batch, f"{bucket}", half).own_row(f"{bucket} MB")
        yield Study(batch, f"{bucket}_free", half).own_row(f"{bucket} MB, no edges")


def table(rows: Sequence[Row]) -> str:
    """Return rows as Markdown."""
    head = ["batch", "order", "ops", "transfers", "busy", "room", "peak", "exposed", "step"]
    lines = []
    for x in rows:
        counts = (x.ops, x.transfers, x.busy, x.room, x.peak, x.exposed, x.busy + x.exposed)
        bound = "=" if x.bound == x.least else f"{x.bound:,}"
        more = ["-" if x.moved < 0 else f"{x.moved:,}", f"{x.least:,}", bound]
        lines.append([str(x.batch), x.way, *(f"{n:,}" for n in counts), *more])
    return markdown([*head, "moved", "least", "bound"], lines)


def picture(rows: Sequence[Row]) -> str:
    """Return an SVG: dots and bounds of the front, crosses and buckets for the scheduler's orders.

    A star stands for "no edges". Orders that expose more than half of Inductor's time are left out.
    """
    (highest,) = (row.exposed for row in rows if row.way == "Inductor")
    marks = []
    for row in rows:
        if row.way == "front":
            marks.append(Mark(Shape.DOT, row.peak, row.exposed))
            marks.append(Mark(Shape.TICK, row.room, row.bound))
        elif row.exposed <= highest / 2:
            word = row.way.replace(" MB", "").replace(", no edges", " *")
            marks.append(Mark(Shape.CROSS, row.peak, row.exposed, word))
    most = max(mark.x for mark in marks)
    unit, scale = unit_of(most)
    up = Axis(max(mark.y for mark in marks), "exposed microseconds")
    return scatter(marks, Axis(most, f"peak ({unit})", scale), up) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.overlap")
    parser.add_argument("batches", nargs="*", type=int, default=BATCHES, metavar="BATCH")
    parser.add_argument("--seconds", type=float, default=20.0, help="limit per point of a front")
    parser.add_argument("--write", action="store_true", help="replace rows, table and pictures")
    options = parser.parse_args()
    found = []
    for batch in options.batches:
        for row in measure(batch, Effort(options.seconds)):
            print(row, flush=True)
            found.append(row)
    if options.write:
        file = HERE / "rows.csv"
        before = read_rows(file, Row) if file.exists() else []
        found += [row for row in before if row.batch not in options.batches]
        found.sort(key=lambda row: row.batch)
        write_rows(file, found)
        replace_table(HERE / "README.md", "rows", table(found))
        for batch in {row.batch for row in found}:
            text = picture([row for row in found if row.batch == batch])
            (HERE / f"batch{batch}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
