"""Our packer beside its rivals on MiniMalloc's instances, in one run.

    python -m experiments.packing_rivals DIR [--minimalloc BINARY] [--omnimalloc PYTHON] [--write]

DIR holds `NAME.CAPACITY.csv`. BINARY is Google's MiniMalloc as its own build makes it; PYTHON is an
interpreter that can import omnimalloc. A rival that is not given has no columns, and the text says
so. Two questions: does it fit the capacity, and what is the least slab. Every packing that comes
back is checked with our checker.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from optsched.check.packing import check_packing
from optsched.errors import PlanError
from optsched.formats import read_packing
from optsched.model.packing_problem import PackingProblem

BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"
README = Path(__file__).with_name("README.md")
WORKER = Path(__file__).with_name("omnimalloc_worker.py")


@dataclass(frozen=True, slots=True)
class Instance:
    """A file, its problem and the capacity in its name."""

    path: Path
    problem: PackingProblem
    capacity: int


@dataclass(frozen=True, slots=True)
class Cell:
    """Result of one method on one instance; no slab if it returned no packing."""

    seconds: float
    slab: int | None
    proved: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """One method on all instances, with wall clock and processor time of its processes."""

    name: str
    cells: list[Cell]
    wall: float
    processor: float


@dataclass(frozen=True, slots=True)
class Rivals:
    """Places of the rivals, and limits of each method on an instance."""

    minimalloc: str | None
    omnimalloc: str | None
    seconds: float
    threads: int
    runs: int = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--minimalloc", metavar="BINARY", help="Google's MiniMalloc")
    parser.add_argument("--omnimalloc", metavar="PYTHON", help="a Python that has omnimalloc")
    parser.add_argument("--seconds", type=float, default=60.0, help="budget per instance")
    parser.add_argument("--threads", type=int, default=12, help="of SuperMalloc")
    parser.add_argument("--runs", type=int, default=3, help="of the first table; the best counts")
    parser.add_argument("--only", metavar="LETTERS", help="instances, by first letter")
    parser.add_argument("--write", action="store_true", help="put the tables into the README")
    arguments = parser.parse_args()
    instances = [
        Instance(path, read_packing(path).problem, int(path.name.split(".")[1]))
        for path in sorted(arguments.folder.glob("[A-Z].*.csv"))
        if path.name[0] in (arguments.only or path.name)
    ]
    rivals = Rivals(
        arguments.minimalloc,
        arguments.omnimalloc,
        arguments.seconds,
        arguments.threads,
        arguments.runs,
    )
    text = report(instances, rivals)
    print(text, end="")
    if arguments.write:
        before, rest = README.read_text(encoding="utf-8").split(BEGIN)
        README.write_text(before + BEGIN + text + END + rest.split(END)[1], encoding="utf-8")
    return 0


def report(instances: Sequence[Instance], rivals: Rivals) -> str:
    """Measure everything and return the tables."""
    # A busy machine spoils seconds: the load is printed beside the tables, for the reader to
    # judge.
    loads = [os.getloadavg()[0]]
    # Kernels are compiled once per machine; afterwards every run finds them in the cache.
    subprocess.run([sys.executable, "-m", "optsched", "warmup"], check=True)
    tries: list[list[Column]] = []
    for _ in range(rivals.runs):
        tries.append([run_ours(instances, rivals.seconds, decide=True)])
        if rivals.minimalloc:
            tries[-1].append(run_minimalloc(instances, rivals, decide=True))
        loads.append(os.getloadavg()[0])
    # The best of several runs, per method: noise only ever adds time.
    decided = [min(runs, key=lambda column: column.wall) for runs in zip(*tries, strict=True)]
    least = [run_ours(instances, rivals.seconds, decide=False)]
    loads.append(os.getloadavg()[0])
    if rivals.omnimalloc:
        least.append(run_omnimalloc(instances, rivals, "supermalloc"))
        least.append(run_omnimalloc(instances, rivals, "default"))
        loads.append(os.getloadavg()[0])
    if rivals.minimalloc:
        least.append(run_minimalloc(instances, rivals, decide=False))
        loads.append(os.getloadavg()[0])
    absent = [
        f"Not given, so not measured: {name}.\n"
        for name, value in (("MiniMalloc", rivals.minimalloc), ("omnimalloc", rivals.omnimalloc))
        if not value
    ]
    return "\n".join(
        [
            f"{os.cpu_count()} cores; load average before, between and after: "
            + ", ".join(f"{load:.1f}" for load in loads)
            + f". Budget {rivals.seconds:g} s per instance.\n",
            *absent,
            f"Does it fit its capacity? Seconds per instance, quickest of {rivals.runs} runs.\n",
            table(instances, decided, lambda cell, instance: fits(cell, instance.capacity)),
            "Least slab. Bytes (`=`: the method says it is least), seconds.\n",
            table(instances, least, lambda cell, _: slab_and_seconds(cell)),
        ]
    )


def fits(cell: Cell, capacity: int) -> str:
    """Return the seconds, or that nothing that fits came back."""
    ok = cell.slab is not None and cell.slab <= capacity
    return f"{cell.seconds:.3f}" if ok else f"none in {cell.seconds:.0f}"


def slab_and_seconds(cell: Cell) -> str:
    """Return bytes and seconds."""
    if cell.slab is None:
        return f"none, {cell.seconds:.2f}"
    return f"{cell.slab:,}{' =' if cell.proved else ''}, {cell.seconds:.2f}"


def table(
    instances: Sequence[Instance],
    columns: Sequence[Column],
    show: Callable[[Cell, Instance], str],
) -> str:
    """Return a Markdown table with totals and their ratio to ours."""
    rows = [["instance", "buffers", *(column.name for column in columns)]]
    rows.append(["---"] * len(rows[0]))
    for i, instance in enumerate(instances):
        shown = [show(column.cells[i], instance) for column in columns]
        rows.append([instance.path.name[0], str(len(instance.problem)), *shown])
    sums = [sum(cell.seconds for cell in column.cells) for column in columns]
    # Columns are compared with the first one, which is `optsched`.
    ours = columns[0]
    for name, values in (
        ("sum of the above, s", [f"{value:.2f}" for value in sums]),
        ("all, start of the process included, s", [f"{column.wall:.2f}" for column in columns]),
        ("processor time, s", [f"{column.processor:.2f}" for column in columns]),
        ("that start included: times ours", [f"{c.wall / ours.wall:.2f}" for c in columns]),
        ("processor time: times ours", [f"{c.processor / ours.processor:.2f}" for c in columns]),
    ):
        rows.append([name, "", *values])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


class Stopwatch:
    """Wall clock, and processor time of the child processes that ended meanwhile."""

    def __init__(self) -> None:
        self.started, self.used = time.perf_counter(), self._children()

    def read(self) -> tuple[float, float]:
        """Return both since the start."""
        return time.perf_counter() - self.started, self._children() - self.used

    @staticmethod
    def _children() -> float:
        # Of finished children only, therefore read after `run` has waited for them.
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime


def run_ours(instances: Sequence[Instance], seconds: float, *, decide: bool) -> Column:
    """Run `optsched pack` once on all files, which share a capacity."""
    watch = Stopwatch()
    command = [sys.executable, "-m", "optsched", "pack", "--json", f"--time-limit={seconds}"]
    if decide:
        command.append(f"--capacity={max(instance.capacity for instance in instances)}")
    command += [str(instance.path) for instance in instances]
    # Exit code 3: some slab is not proved least.
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    )
    wall, processor = watch.read()
    answer = json.loads(done.stdout)
    cells = []
    for instance, record in zip(instances, answer.get("results", [answer]), strict=True):
        offsets = [record["offsets"][name] for name in instance.problem.names]
        slab = checked(instance, offsets)
        proved = record["status"] == "optimal"
        cells.append(Cell(record["runtime"], slab, proved))
    return Column("optsched", cells, wall, processor)


def run_minimalloc(instances: Sequence[Instance], rivals: Rivals, *, decide: bool) -> Column:
    """Run MiniMalloc, a process per file: it takes one."""
    watch = Stopwatch()
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        for instance in instances:
            output = Path(folder) / instance.path.name
            command = [
                str(rivals.minimalloc),
                f"--capacity={instance.capacity}",
                f"--input={instance.path}",
                f"--output={output}",
                f"--timeout={rivals.seconds}s",
            ]
            if not decide:
                command.append("--minimize_capacity")
            started = time.perf_counter()
            subprocess.run(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
            )
            took = time.perf_counter() - started
            slab = read_slab(instance, output)
            # MiniMalloc reports no proof; in minimizing it stops early only when no lower capacity
            # works.
            cells.append(Cell(took, slab, not decide and took < rivals.seconds))
    return Column("MiniMalloc", cells, *watch.read())


def read_slab(instance: Instance, output: Path) -> int | None:
    """Return the checked slab of a packing in a file, None if there is none."""
    if not output.exists():
        return None
    found = read_packing(output)
    if found.offsets is None:
        return None
    # By name: the written file may list the buffers in another sequence.
    at = dict(zip(found.problem.names, found.offsets.tolist(), strict=True))
    return checked(instance, [at[name] for name in instance.problem.names])


def run_omnimalloc(instances: Sequence[Instance], rivals: Rivals, method: str) -> Column:
    """Run omnimalloc once on all files."""
    watch = Stopwatch()
    command = [str(rivals.omnimalloc), str(WORKER), method, str(rivals.seconds)]
    command += [str(rivals.threads), *(str(instance.path) for instance in instances)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    wall, processor = watch.read()
    cells = []
    for instance, line in zip(instances, done.stdout.splitlines(), strict=True):
        record: dict[str, Any] = json.loads(line)
        slab = checked(instance, record["offsets"])
        cells.append(Cell(record["seconds"], slab, record["proved"]))
    name = f"SuperMalloc, {rivals.threads} threads" if method == "supermalloc" else "omnimalloc"
    return Column(name, cells, wall, processor)


def checked(instance: Instance, offsets: Sequence[int]) -> int | None:
    """Return the slab of a packing, or None if it is not valid."""
    try:
        # Nobody's claim is taken on trust, ours included: an invalid packing becomes an empty
        # cell.
        return check_packing(instance.problem, np.array(offsets, np.int64).tolist())
    except PlanError as error:
        print(f"{instance.path.name}: {error}", file=sys.stderr)
        return None


if __name__ == "__main__":
    sys.exit(main())
