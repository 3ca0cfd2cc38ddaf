"""Exact ordering against brute force over all downsets, with the rules on and off.

    python -m experiments.ordering_exactness --graphs 5000 --seed 0

Each random graph (up to 12 ops; births at other ops, unread products, kept and freed inputs, views,
mutation, control edges, zero sizes, workspace, several outputs) is solved with all rules and with
random subsets of them, from random warm starts, by the Python twins and by the compiled kernels,
with the usual effort in the first round and with next to none, so that the later stages come in.
A line is printed for each difference; the last line counts the runs.
"""

from __future__ import annotations

import argparse
from dataclasses import fields

import numpy as np

from optsched.check import check_order
from optsched.graph import Graph
from optsched.ordering import ALL_RULES, Rules, engine, problem, solve_order
from tests.generators import PLANNABLE, random_graph, random_order
from tests.ordering.oracle import Oracle

NAMES = [field.name for field in fields(Rules)]
SIZES = (2, 4, 16, 1000, 2**40, 2**55)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=5_000)
    parser.add_argument("--ops", type=int, default=12, help="at most")
    parser.add_argument("--subsets", type=int, default=4, help="of the rules, per graph")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    runs = searched = relations = windows = wrong = 0
    for number in range(args.graphs):
        graph = random_graph(
            rng,
            int(rng.integers(0, args.ops + 1)),
            max_size=int(rng.choice(SIZES)),
            features=PLANNABLE | {"shuffled"},
        )
        optimum = Oracle(graph).least_peak()
        subsets = [
            Rules(**{name: bool(rng.integers(2)) for name in NAMES}) for _ in range(args.subsets)
        ]
        for rules in [ALL_RULES, ALL_RULES, *subsets]:
            engine.FIRST_EFFORT = int(rng.choice([1, 4, 8_192]))
            problem.TWIN_OPS = int(rng.choice([-1, 60]))
            outcome = solve_order(graph, warm_start=random_order(rng, graph), rules=rules)
            runs += 1
            searched += outcome.statistics.stored > 0
            relations += outcome.statistics.relations
            windows += outcome.statistics.improved
            wrong += differs(graph, outcome, optimum, number, rules)
    print(
        f"{args.graphs} graphs, {runs} runs, {searched} of them searched, {relations} implied "
        f"precedences, {windows} windows improved: {wrong} wrong"
    )
    return 1 if wrong else 0


def differs(
    graph: Graph, outcome: engine.OrderOutcome, optimum: int, number: int, rules: Rules
) -> bool:
    """Whether an outcome is wrong; prints what it is then."""
    replayed = check_order(graph, outcome.order)
    if replayed == outcome.peak == outcome.bound == optimum and outcome.proof is not None:
        return False
    print(f"graph {number}: optimum {optimum}, replayed {replayed}, {outcome}, {rules}")
    return True


if __name__ == "__main__":
    raise SystemExit(main())
