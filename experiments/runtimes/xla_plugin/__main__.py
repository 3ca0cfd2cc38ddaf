"""Bytes that XLA allocates with each scheduler and with ours. Run as a module."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments.tables import markdown, read_rows, replace_table, write_rows
from optsched.plugins import forget, records
from optsched.plugins.xla import enabled
from tests.support.xla_training import DONATED, STEPS, Step, mixed

HERE = Path(__file__).parent
SCHEDULERS = ("DEFAULT", "MEMORY_OPTIMIZED")


@dataclass(frozen=True)
class ScheduleRow:
    """One module: bytes of temporaries, and of temporaries and results less what is donated."""

    module: str
    ops: int
    default_temp: int
    default: int
    memory_temp: int
    memory: int
    ours_temp: int
    ours: int
    planned: int
    bound: int
    order: str
    identical: str
    seconds: float


def allocated(compiled: Any) -> tuple[int, int]:
    """Return the bytes of temporaries, and of all that a call allocates."""
    told = compiled.memory_analysis()
    temporary = told.temp_size_in_bytes
    return temporary, temporary + told.output_size_in_bytes - told.alias_size_in_bytes


def measure(name: str, made: Step, time_limit: float) -> ScheduleRow:
    """Compile and run one step by each scheduler."""
    step, arguments = made
    donated = (0,) if name in DONATED else ()
    bytes_by, results = {}, {}
    for scheduler in (*SCHEDULERS, "ours"):
        jax.clear_caches()
        lowered = jax.jit(step, donate_argnums=donated).lower(*arguments)
        begun = time.perf_counter()
        if scheduler == "ours":
            forget()
            with enabled(time_limit=time_limit, min_bytes=0, min_gain=0):
                compiled = lowered.compile()
        else:
            kind = f"CPU_SCHEDULER_TYPE_{scheduler}"
            compiled = lowered.compile(compiler_options={"xla_cpu_scheduler_type": kind})
        seconds = time.perf_counter() - begun
        bytes_by[scheduler] = allocated(compiled)
        copies = jax.tree.map(lambda x: x.copy(), arguments)
        results[scheduler] = [np.asarray(x) for x in jax.tree.leaves(compiled(*copies))]
    same = map(np.array_equal, results["DEFAULT"], results["ours"])
    (record,) = records()
    return ScheduleRow(
        module=name,
        ops=record.ops,
        default_temp=bytes_by["DEFAULT"][0],
        default=bytes_by["DEFAULT"][1],
        memory_temp=bytes_by["MEMORY_OPTIMIZED"][0],
        memory=bytes_by["MEMORY_OPTIMIZED"][1],
        ours_temp=bytes_by["ours"][0],
        ours=bytes_by["ours"][1],
        planned=record.after or 0,
        bound=record.bound or 0,
        order=record.order or record.reason,
        identical="yes" if all(same) else "NO",
        seconds=round(seconds, 1),
    )


def table(rows: list[ScheduleRow]) -> str:
    """Return a line for each module."""
    lines = [
        [
            row.module,
            str(row.ops),
            *(f"{a:,} / {b:,}" for a, b in (
                (row.default_temp, row.default),
                (row.memory_temp, row.memory),
                (row.ours_temp, row.ours),
            )),
            f"{100 * (row.ours / min(row.default, row.memory) - 1):.1f}",
            f"{100 * (row.planned / row.ours - 1):.2f}" if row.planned else "-",
            f"{row.bound:,}" if row.bound else "-",
            row.order,
            row.identical,
            str(row.seconds),
        ]
        for row in rows
    ]  # fmt: skip
    head = ["module", "ops", "DEFAULT", "MEMORY_OPTIMIZED", "ours", "to the better, %"]
    return markdown([*head, "planned, %", "bound", "order", "same results", "seconds"], lines)


def summary(rows: list[ScheduleRow]) -> str:
    """Return a line for many functions together."""
    head = [
        "functions",
        "lower than the better of XLA's two",
        "equal",
        "higher",
        "higher than DEFAULT",
    ]
    head += ["left alone", "largest error of the plan, bytes", "same results"]
    better = [row.ours - min(row.default, row.memory) for row in rows]
    line = [
        str(len(rows)),
        str(sum(x < 0 for x in better)),
        str(sum(x == 0 for x in better)),
        str(sum(x > 0 for x in better)),
        str(sum(row.ours > row.default for row in rows)),
        str(sum(not row.planned for row in rows)),
        str(max(abs(row.planned - row.ours) for row in rows if row.planned)),
        str(sum(row.identical == "yes" for row in rows)),
    ]
    return markdown(head, [line])


def main() -> None:
    """Measure all modules, or random functions, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time-limit", type=float, default=5.0, help="for each module")
    parser.add_argument("--functions", type=int, help="measure as many random ones instead")
    parser.add_argument("--table", action="store_true", help="only write the tables again")
    args = parser.parse_args()
    if args.functions:
        found = [measure(str(x), mixed(x), args.time_limit) for x in range(args.functions)]
        write_rows(HERE / "functions.csv", found)
    elif not args.table:
        found = [measure(name, STEPS[name](), args.time_limit) for name in STEPS]
        write_rows(HERE / "rows.csv", found)
    functions = read_rows(HERE / "functions.csv", ScheduleRow)
    replace_table(HERE / "README.md", "functions", summary(functions))
    versions = ", ".join(f"{x} {version(x)}" for x in ("jax", "jaxlib"))
    text = table(read_rows(HERE / "rows.csv", ScheduleRow))
    replace_table(HERE / "README.md", "schedules", f"{text}\n{versions}\n")


if __name__ == "__main__":
    main()
