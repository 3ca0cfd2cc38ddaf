"""Does `pack` beat `solve` on solve's own order? `python -m experiments.packing_after_order`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import optsched.runtime.clock
from experiments.tables import markdown, read_rows, replace_table, write_rows
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.packing_problem import packing_problem
from optsched.runtime.limits import Limits
from optsched.solver.pack import pack
from optsched.solver.pipeline import solve
from optsched.solver.warmup import warm_up
from tests.support.families.shapes import layered
from tests.support.families.wiring import random_wiring

HERE = Path(__file__).parent
ROWS = HERE / "rows.csv"


@dataclass(frozen=True)
class Row:
    """One graph: bytes of solve's plan and of `pack` on its order, and the best bounds."""

    family: str
    ops: int
    seed: int
    peak: int
    peak_bound: int
    slab: int
    slab_bound: int
    status: str
    stop_reason: str
    seconds: float
    packed: int


def near_reads(ops: int, seed: int) -> Graph:
    """Each op reads one to three of the twenty buffers before it."""
    rng = np.random.default_rng(seed)
    build = GraphBuilder(f"near_reads{ops}_{seed}")
    for v in range(ops):
        count = min(v, int(rng.integers(1, 4)))
        reads = rng.choice(np.arange(max(0, v - 20), v), count, replace=False) if v else []
        build.op(
            f"o{v}", reads=[f"b{u}" for u in reads], writes={f"b{v}": int(rng.integers(1, 1000))}
        )
    return build.build()


FAMILIES: dict[str, Callable[[int, int], Graph]] = {
    "wiring": lambda ops, seed: random_wiring(ops, seed, unit=False),
    "layered": lambda ops, seed: layered(ops // 4, seed),
    "near reads": near_reads,
}


def measure(family: str, ops: int, seed: int, seconds: float) -> Row:
    """Solve one graph, and pack its plan's order in a quarter of the time."""
    graph = FAMILIES[family](ops, seed)
    result = solve(graph, limits=Limits(seconds=seconds))
    assert result.plan is not None
    assert result.peak is not None
    assert result.slab is not None
    problem, _ = packing_problem(graph, result.plan.order)
    packed = pack(problem, limits=Limits(seconds=seconds / 4)).slab
    assert packed is not None
    return Row(
        family=family,
        ops=len(graph.ops),
        seed=seed,
        peak=result.peak,
        peak_bound=result.peak_bound,
        slab=result.slab,
        slab_bound=result.slab_bound,
        status=result.status,
        stop_reason=result.stop_reason,
        seconds=round(result.runtime, 2),
        packed=packed,
    )


def table(rows: list[Row]) -> str:
    """Return a line for each family."""
    lines = []
    for family in FAMILIES:
        here = [row for row in rows if row.family == family]
        still_open = [row for row in here if row.status != "optimal"]
        gaps = [(row.slab - row.slab_bound) / row.slab for row in still_open]
        lines.append([
            family,
            str(len(here)),
            str(len(here) - len(still_open)),
            f"{100 * float(np.mean(gaps)):.1f}" if gaps else "-",
            str(sum(row.stop_reason != "time limit" for row in still_open)),
            str(sum(row.slab < row.packed for row in here)),
            str(sum(row.slab > row.packed for row in here)),
        ])  # fmt: skip
    head = ["family", "graphs", "proved", "mean gap of the others, %", "ended early"]
    return markdown([*head, "solve below pack", "solve above pack"], lines)


def main() -> None:
    """Run the study, or print the table of the rows there are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=201, help="in all three families together")
    parser.add_argument("--seconds", type=float, default=2.0, help="for solve; pack has a quarter")
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="limits count processor seconds: for a machine that others use too",
    )
    parser.add_argument("--table", action="store_true", help="only write the table again")
    args = parser.parse_args()
    if args.processor_time:
        clock = SimpleNamespace(monotonic=time.process_time)
        optsched.runtime.clock.time = clock  # type: ignore[attr-defined]
    if not args.table:
        warm_up(lambda text: print(text, flush=True))
        rows = []
        for number in range(args.graphs):
            family = list(FAMILIES)[number % 3]
            ops = 40 + 160 * (number // 3) // max(1, args.graphs // 3 - 1)
            rows.append(measure(family, ops, number // 3, args.seconds))
            print(rows[-1], flush=True)
        write_rows(ROWS, rows)
    replace_table(HERE / "README.md", "families", table(read_rows(ROWS, Row)))


if __name__ == "__main__":
    main()
