"""Brute force, CP-SAT and the MILP agree: `python -m tests.fuzz.models`.

Random problems of three kinds: orders, packings and both together. Values, claimed bounds and
replayed plans must all be equal; the command prints counts and exits with 1 on any mismatch.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np

from optsched.check.plan import check_order, check_packing, check_plan
from optsched.joint.cpsat import solve_joint, solve_order, solve_packing
from optsched.joint.milp import MilpSolver, solve_order_milp
from optsched.model.packing_problem import Gap, PackingProblem
from optsched.runtime.limits import Limits
from tests.support.brute import least_joint, least_peak, least_slab
from tests.support.generators import FEATURES, PLANNABLE, random_graph, random_order

LIMITS = Limits(60.0)


def check_orders(rng: np.random.Generator) -> list[object]:
    """Minimum peak of one graph: brute force, CP-SAT twice, HiGHS, and CBC on every fifth."""
    features = FEATURES if rng.random() < 0.5 else PLANNABLE
    graph = random_graph(rng, int(rng.integers(1, 10)), features=features)
    plain = solve_order(graph, limits=LIMITS)
    warm = solve_order(graph, limits=LIMITS, warm_start=random_order(rng, graph))
    answers: list[object] = [least_peak(graph), plain.value, plain.bound, warm.value, warm.bound]
    answers += [check_order(graph, o.order) for o in (plain, warm) if o.order is not None]
    for solver in MilpSolver:
        if solver is MilpSolver.HIGHS or rng.random() < 0.2:
            milp = solve_order_milp(graph, limits=LIMITS, solver=solver)
            answers += [milp.value, milp.bound]
    return answers


def check_packings(rng: np.random.Generator) -> list[object]:
    """Minimum slab of one packing problem, every third with gaps: brute force and CP-SAT."""
    gaps = rng.random() < 1 / 3
    problem = _random_packing(rng, int(rng.integers(2, 5 if gaps else 8)), gaps)
    outcome = solve_packing(problem, limits=LIMITS)
    answers: list[object] = [least_slab(problem), outcome.value]
    if outcome.offsets is not None:
        answers += [outcome.bound, check_packing(problem, outcome.offsets)]
    return answers


def check_joint(rng: np.random.Generator) -> list[object]:
    """Minimum slab of one graph over all orders and offsets: brute force and the joint model."""
    features = FEATURES if rng.random() < 0.5 else PLANNABLE
    graph = random_graph(rng, int(rng.integers(1, 6)), max_size=6, features=features)
    expected = least_joint(graph)
    outcome = solve_joint(graph, limits=LIMITS)
    answers: list[object] = [None if expected is None else expected[0], outcome.value]
    if outcome.plan is not None:
        answers += [outcome.bound, check_plan(graph, outcome.plan).slab]
    return answers


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


KINDS = {"orders": check_orders, "packings": check_packings, "joint": check_joint}
"""What is compared, by kind of problem."""


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.models", description=__doc__)
    parser.add_argument("--graphs", type=int, default=300, help="problems of each kind")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    return int(sum(compare(k, c, options.graphs, options.seed) for k, c in KINDS.items()) > 0)


if __name__ == "__main__":
    sys.exit(main())
