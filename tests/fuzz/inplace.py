"""Exact ordering in the in-place model against enumeration, with the rules on and off.

    python -m tests.fuzz inplace --count 5000 --seed 0

Each random graph (up to 11 ops; two thirds of all pairs of an output and an input are candidates;
half of the graphs with every feature, half with few, which leaves more to the search) is solved
with all rules and with random subsets of them, by the Python twins and by the compiled kernels, on
every second graph with no bound to start from, and with next to no effort in the first round. The
optimum is a sweep over all downsets with the best choice of pairs at each step; up to 6 ops it is
also the least over all orders and all choices of pairs, one by one. A line is printed for each
difference; the last line counts the runs.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from optsched.check.plan import check_order
from optsched.model.graph import Graph
from optsched.ordering import ALL_RULES, ClosureBound, OrderingRules, solve_order
from optsched.ordering import rounds as engine
from optsched.ordering.bound.closure import closure_bound
from optsched.ordering.bound.single_ops import peak_lower_bound
from optsched.ordering.effort import OrderingEffort
from optsched.runtime import kernel as kernels
from tests.model.test_inplace import more_candidates
from tests.support.brute import least_peak, least_peak_inplace
from tests.support.generators import PLANNABLE, random_graph, random_order

NAMES = [field.name for field in fields(OrderingRules)]
SIZES = (2, 4, 16, 1000, 2**40, 2**55)
BUSY = frozenset({"inputs", "inplace", "multi", "workspace"})
ALL_CHOICES = 6


def main(count: int = 5_000, seed: int = 0, *, ops: int = 11, subsets: int = 3) -> int:
    rng = np.random.default_rng(seed)
    runs = searched = lower = enumerated = wrong = 0
    for number in range(count):
        graph = some_graph(rng, ops)
        optimum = least_peak(graph)
        lower += optimum < least_peak(graph.without_inplace())
        if len(graph.ops) <= ALL_CHOICES:
            enumerated += 1
            wrong += differs(number, "enumeration", least_peak_inplace(graph) == optimum)
        for bound in (peak_lower_bound(graph, [random_order(rng, graph)]), closure_bound(graph)):
            wrong += differs(number, f"{bound} above {optimum}", bound.value <= optimum)
        vars(engine)["closure_bound"] = nothing_known if number % 2 else closure_bound
        chosen = [
            OrderingRules(**{name: bool(rng.integers(2)) for name in NAMES}) for _ in range(subsets)
        ]
        for rules in [ALL_RULES, *chosen]:
            effort = OrderingEffort(first_states=int(rng.choice([1, 4, 8_192])))
            kernels.policy.force = rng.choice([None, kernels.compiled_form])
            start = random_order(rng, graph)
            found = solve_order(graph, warm_start=start, rules=rules, effort=effort)
            runs += 1
            searched += found.statistics.stored > 0
            right = check_order(graph, found.order) == found.peak == found.bound == optimum
            right = right and found.proof is not None
            wrong += differs(number, f"optimum {optimum}, {found}, {rules}", right)
    print(
        f"{count} graphs, in-place lowers the least peak of {lower}; {enumerated} enumerated "
        f"order by order and choice by choice; {runs} runs, {searched} of them searched: "
        f"{wrong} wrong"
    )
    return 1 if wrong else 0


def some_graph(rng: np.random.Generator, most: int) -> Graph:
    """A random graph with many candidates, in-place."""
    graph = random_graph(
        rng,
        int(rng.integers(1, most + 1)),
        max_size=int(rng.choice(SIZES)),
        features=BUSY if rng.random() < 0.5 else PLANNABLE | {"shuffled"},
    )
    return more_candidates(rng, graph).with_inplace()


def nothing_known(graph: Graph, *_: object, **__: object) -> ClosureBound:
    """A bound that leaves all work to the search."""
    return ClosureBound(graph.arrays.initial, None, 0, complete=True)


def differs(number: int, what: str, right: bool) -> bool:
    """Print and return True if something is wrong."""
    if not right:
        print(f"graph {number}: {what}")
    return not right
