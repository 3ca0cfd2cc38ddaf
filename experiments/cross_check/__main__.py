"""Compare brute force, CP-SAT and the MILP on random problems; time the joint model.

Run `python -m experiments.cross_check` from the repository root. It prints counts of agreement and
exits with 1 on any mismatch. `--floor` solves graphs of 30 ops and about 60 buffers jointly and
exits with 1 unless all are closed within 60 seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np

from experiments.cross_check.floor_graphs import FAMILIES
from optsched.check.plan import check_order, check_packing, check_plan
from optsched.joint.cpsat import Cuts, solve_joint, solve_order, solve_packing
from optsched.joint.milp import MilpSolver, solve_order_milp
from optsched.model.graph import Graph
from optsched.model.packing_problem import Gap, PackingProblem
from optsched.runtime.limits import Limits
from tests.support.brute import least_joint, least_peak, least_slab
from tests.support.generators import FEATURES, PLANNABLE, random_graph, random_order

LIMITS = Limits(60.0)


def check_orders(rng: np.random.Generator) -> list[object]:
    """Least peak of one graph: brute force, CP-SAT twice, HiGHS, and CBC on every fifth."""
    features = FEATURES if rng.random() < 0.5 else PLANNABLE
    graph = random_graph(rng, int(rng.integers(1, 10)), features=features)
    plain = solve_order(graph, limits=LIMITS)
    warm = solve_order(
        graph, limits=LIMITS, cuts=_random_cuts(rng), warm_start=random_order(rng, graph)
    )
    answers: list[object] = [least_peak(graph), plain.value, plain.bound, warm.value, warm.bound]
    answers += [check_order(graph, o.order) for o in (plain, warm) if o.order is not None]
    for solver in MilpSolver:
        if solver is MilpSolver.HIGHS or rng.random() < 0.2:
            milp = solve_order_milp(graph, limits=LIMITS, solver=solver)
            answers += [milp.value, milp.bound]
    return answers


def check_packings(rng: np.random.Generator) -> list[object]:
    """Least slab of one packing problem, every third with gaps: brute force and CP-SAT."""
    gaps = rng.random() < 1 / 3
    problem = _random_packing(rng, int(rng.integers(2, 5 if gaps else 8)), gaps)
    outcome = solve_packing(problem, limits=LIMITS, cuts=_random_cuts(rng))
    answers: list[object] = [least_slab(problem), outcome.value]
    if outcome.offsets is not None:
        answers += [outcome.bound, check_packing(problem, outcome.offsets)]
    return answers


def check_joint(rng: np.random.Generator) -> list[object]:
    """Least slab, then least peak, of one graph: brute force, staged, and the model alone."""
    features = FEATURES if rng.random() < 0.5 else PLANNABLE
    graph = random_graph(rng, int(rng.integers(1, 6)), max_size=6, features=features)
    answers: list[object] = [least_joint(graph)]
    for staged in (True, False):
        outcome = solve_joint(graph, limits=LIMITS, cuts=_random_cuts(rng), staged=staged)
        if outcome.value is None:
            answers.append(None)
            continue
        answers += [(outcome.value, outcome.tie_value), (outcome.bound, outcome.tie_bound)]
        if outcome.plan is not None:
            checked = check_plan(graph, outcome.plan)
            answers.append((checked.slab, checked.peak))
    return answers


def _random_cuts(rng: np.random.Generator) -> Cuts:
    return Cuts(*(bool(rng.integers(2)) for _ in range(5)))


def _random_packing(rng: np.random.Generator, count: int, gaps: bool) -> PackingProblem:
    rows: list[tuple[int, int, int, int, int]] = []
    holes: list[tuple[Gap, ...]] = []
    for _ in range(count):
        start = int(rng.integers(5))
        end = start + int(rng.integers(1, 5))
        size, step = int(rng.integers(1, 6)), int(rng.choice([1, 1, 1, 2, 4]))
        pin = step * int(rng.integers(4)) if rng.random() < 0.1 else -1
        rows.append((start, end, size, step, pin))
        low = int(rng.integers(size))
        window = None if rng.random() < 0.4 else (low, int(rng.integers(low, size)) + 1)
        holes.append((Gap(start + 1, end - 1, window),) if end - start > 2 else ())
    columns = np.array(rows, np.int64).T
    names = tuple(f"b{i}" for i in range(count))
    return PackingProblem(names, *columns, gaps=tuple(holes) if gaps else ())


def compare(
    what: str, check: Callable[[np.random.Generator], list[object]], count: int, seed: int
) -> int:
    """Run one kind of check on `count` problems; return the number of mismatches."""
    started, wrong = time.perf_counter(), 0
    for number in range(count):
        answers = check(np.random.default_rng([seed, number]))
        if len(set(answers)) != 1:
            wrong += 1
            print(f"MISMATCH {what} seed {seed} number {number}: {answers}")
    seconds = time.perf_counter() - started
    print(f"{what:9} {count - wrong} of {count} agree ({seconds:.0f} s)", flush=True)
    return wrong


def measure_floor(seeds: int, seconds: float, workers: int) -> int:
    """Solve the floor graphs jointly, without warm start or bounds; return how many stay open."""
    still_open = 0
    limits = Limits(seconds, workers)
    print("graph                    ops bufs       slab      bound  staged s  joint alone s")
    for make in FAMILIES.values():
        for seed in range(seeds):
            graph = make(seed)
            staged = solve_joint(graph, limits=limits)
            alone = solve_joint(graph, limits=limits, staged=False)
            still_open += not staged.optimal
            shown = f"{alone.seconds:.1f}" if alone.optimal else f"open at {alone.value}"
            print(
                f"{graph.name:24} {len(graph.ops):3} {_counted(graph):4} {staged.value:10} "
                f"{staged.bound:10} {staged.seconds:9.1f}  {shown}",
                flush=True,
            )
    return still_open


def _counted(graph: Graph) -> int:
    return int((graph.arrays.size > 0).sum())


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="experiments.cross_check", description=__doc__)
    parser.add_argument("--orders", type=int, default=1000)
    parser.add_argument("--packings", type=int, default=500)
    parser.add_argument("--joints", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--floor", action="store_true", help="solve the 30-op graphs instead")
    parser.add_argument("--seeds", type=int, default=3, help="graphs of each floor family")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of each floor graph")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.floor:
        return int(measure_floor(options.seeds, options.seconds, options.workers) > 0)
    wrong = compare("orders", check_orders, options.orders, options.seed)
    wrong += compare("packings", check_packings, options.packings, options.seed)
    wrong += compare("joint", check_joint, options.joints, options.seed)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
