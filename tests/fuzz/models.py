"""Brute force, CP-SAT and the MILP agree: `python -m tests.fuzz.models`.

Random problems of two kinds: orders, and orders and packings together. Values, claimed bounds and
replayed plans must all be equal; the command prints counts and exits with 1 on any mismatch.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np

from optsched.check.plan import check_order, check_plan
from optsched.joint.cpsat import solve_joint
from optsched.joint.milp import solve_order_milp
from optsched.runtime.limits import Limits, Objective
from tests.support.brute import least_joint, least_peak
from tests.support.generators import FEATURES, PLANNABLE, random_graph

LIMITS = Limits(60.0)


def check_orders(rng: np.random.Generator) -> list[object]:
    """Minimum peak of one graph: brute force, CP-SAT and the MILP."""
    features = FEATURES if rng.random() < 0.5 else PLANNABLE
    graph = random_graph(rng, int(rng.integers(1, 10)), features=features)
    joint = solve_joint(graph, objective=Objective.PEAK, limits=LIMITS)
    answers: list[object] = [least_peak(graph)]
    if joint.plan is not None:
        answers += [joint.value, joint.bound, check_order(graph, joint.plan.order)]
    milp = solve_order_milp(graph, limits=LIMITS)
    answers += [milp.value, milp.bound]
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


KINDS = {"orders": check_orders, "joint": check_joint}
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
