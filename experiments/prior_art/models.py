"""Models of this package and of the literature on the same real graphs, each with the same budget.

Run `python -m experiments.prior_art.models GRAPH.. --seconds 30 --csv models.csv`: a row per graph
and method is appended, so that a table can be made of several runs. Methods are ended a while after
their budget. The optimum is that of our exact search.

- `cpsat`, `milp`: our models with the reductions and bounds of the search.
- `cpsat alone`, `milp alone`: without either (`--independent`).
- `MODeL`: the mixed-integer program of Steiner et al. 2023, by HiGHS.
- `steps`: a CP-SAT model with a literal per op and step, as in most published models.
- `pack pairs`: offsets of the best order, MiniMalloc's formulation (Moffitt 2023, section 2) in
  CP-SAT: two buffers live together lie one below the other.
- `pack rectangles`: the same with NoOverlap2D and a cumulative constraint.
- `pack search`: our packing search.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from experiments.prior_art.race import Claim, _best_order, _cpsat
from experiments.tables import markdown
from optsched.formats import read_graph
from optsched.model.graph import Graph
from optsched.runtime.limits import Limits, Objective

WORKERS = 2
HEAD = ("graph", "ops", "method", "value", "proved", "processor", "seconds")


def _bound(graph: Graph) -> int:
    from optsched.ordering import closure_bound

    return closure_bound(graph, [_best_order(graph)]).value


def _joint(graph: Graph, seconds: float, independent: bool) -> Claim:
    from optsched.joint.cpsat import solve_joint

    found = solve_joint(
        graph,
        limits=Limits(seconds, WORKERS),
        independent=independent,
        peak_bound=0 if independent else _bound(graph),
    )
    return Claim(found.value, found.optimal)


def _milp(graph: Graph, seconds: float, independent: bool) -> Claim:
    from optsched.joint.milp import solve_order_milp

    found = solve_order_milp(
        graph,
        limits=Limits(seconds, WORKERS),
        independent=independent,
        start=_best_order(graph),
        peak_bound=0 if independent else _bound(graph),
    )
    return Claim(found.value, found.optimal)


def _model(graph: Graph, seconds: float) -> Claim:
    from experiments.prior_art.model_milp import MilpSolver, solve_model

    found = solve_model(graph, seconds=seconds, solver=MilpSolver.HIGHS, workers=WORKERS)
    return Claim(found.replayed, found.finished)


def _pack(graph: Graph, seconds: float, how: str) -> Claim:
    from experiments.prior_art.packing_models import pack_by_cpsat
    from optsched import solve
    from optsched.model.packing_problem import packing_problem
    from optsched.packing import solve_packing

    # All packers get the same order; finding it is not on their clock.
    plan = solve(graph, objective=Objective.PEAK, time_limit=60).plan
    assert plan is not None
    problem, _ = packing_problem(graph, plan.order)
    started = time.perf_counter()
    if how == "search":
        outcome = solve_packing(problem, limits=Limits(seconds, WORKERS))
        slab, proved = outcome.slab, outcome.slab is not None and outcome.slab <= outcome.bound
    else:
        slab, proved = pack_by_cpsat(problem, how, seconds, WORKERS)
    return Claim(slab, proved, time.perf_counter() - started)


METHODS: Mapping[str, Callable[[Graph, float], Claim]] = {
    "cpsat": partial(_joint, independent=False),
    "cpsat alone": partial(_joint, independent=True),
    "milp": partial(_milp, independent=False),
    "milp alone": partial(_milp, independent=True),
    "MODeL": _model,
    "steps": _cpsat,
    "pack search": partial(_pack, how="search"),
    "pack pairs": partial(_pack, how="pairs"),
    "pack rectangles": partial(_pack, how="rectangles"),
}


def _work(pipe: Connection, method: str, graph: Graph, seconds: float) -> None:
    started, begun = time.perf_counter(), time.process_time()
    try:
        claim = METHODS[method](graph, seconds)
    except Exception as error:  # a row, not the end
        print(f"{graph.name}: {method}: {error!r}", file=sys.stderr)
        claim = Claim(None, False)
    # Packers report their own seconds, without those of the order before.
    took = time.perf_counter() - started if claim.seconds is None else claim.seconds
    pipe.send((claim.peak, claim.proved, took, time.process_time() - begun))


def measure(
    method: str, graph: Graph, seconds: float
) -> tuple[int | None, bool, float, float | None]:
    """Return value, whether it is proved or claimed to be minimum, and seconds.

    The last number are seconds of the processor, None for a method that was ended.
    """
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, method, graph, seconds), daemon=True)
    process.start()
    theirs.close()
    # Packers find an order first, within 60 s.
    spare = 60.0 if method.startswith("pack") else 5.0
    answer: Any = (None, False, seconds, None)
    try:
        if mine.poll(1.3 * seconds + spare):
            answer = mine.recv()
    except EOFError:
        pass
    # Solvers in C++ may not look at their limit for long.
    process.kill()
    process.join()
    return answer  # type: ignore[no-any-return]


def main(argv: Sequence[str]) -> int:
    """Measure, append rows, and print the table of all rows of the file."""
    parser = argparse.ArgumentParser(prog="python -m experiments.prior_art.models")
    parser.add_argument("graphs", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--csv", type=Path, required=True)
    args = parser.parse_args(argv)
    warm_up(args.methods)
    known = {(row["graph"], row["method"]) for row in read(args.csv)}
    for path in args.graphs:
        graph, name = read_graph(path), path.name.split(".json")[0]
        for method in args.methods:
            # A run that was cut off continues at the first missing row.
            if (name, method) not in known:
                found = measure(method, graph, args.seconds)
                times = ("" if x is None else f"{x:.2f}" for x in (found[3], found[2]))
                append(args.csv, (name, len(graph.ops), method, *found[:2], *times))
    print(table(read(args.csv)))
    return 0


def warm_up(methods: Sequence[str]) -> None:
    """Import solvers and load kernels, which the processes of all methods then inherit."""
    from tests.support.families.wiring import random_wiring

    for method in methods:
        METHODS[method](random_wiring(12, 0), 1.0)


def append(path: Path, row: Sequence[object]) -> None:
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([HEAD, row] if is_new else [row])


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _key(row: Mapping[str, str]) -> tuple[str, ...]:
    """Return the graph of a row and the quantity that its method minimizes."""
    method = row["method"]
    what = "slab" if method.startswith(("pack", "cpsat")) else "peak"
    return row["graph"], row["ops"], what


def _peak(row: Mapping[str, str]) -> tuple[str, ...]:
    return row["graph"], row["ops"], "peak"


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """Return proved, largest gap to the best known value, and seconds, by method."""
    # A slab is at least the peak of its order, so that it counts for both.
    best: dict[tuple[str, ...], int] = {}
    for row in rows:
        for key in {_key(row), _peak(row)} if row["value"] else ():
            best[key] = min(best.get(key, 2**63), int(row["value"]))
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method]
        proved = [row for row in mine if row["proved"] == "True"]
        # Of an open graph the best known peak counts, as its slab may meet that.
        gaps = [
            int(row["value"]) / (best[_key(row) if row in proved else _peak(row)] or 1) - 1
            for row in mine
            if row["value"]
        ]
        # Claimed as minimum, though another method found less: a wrong proof.
        false = [row for row in proved if int(row["value"]) > best[_key(row)]]
        seconds = sorted(float(row["seconds"]) for row in mine)
        lines.append(
            [
                method,
                str(len(mine)),
                str(len(proved)),
                f"{100 * max(gaps, default=0):.2f}",
                f"{seconds[len(seconds) // 2]:.2f}",
                f"{sum(seconds):.0f}",
                str(len(false)),
            ]
        )
    head = ("method", "graphs", "proved", "largest gap %", "median s", "all s", "false")
    return markdown(head, lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
