"""Plans near a baseline against all orders, all packings and all in-place choices.

    python -m tests.fuzz moves --count 2000 --seed 0

First order rules: the orders of a graph with their edges are those that keep them. Then the
searches of orders alone: on random graphs of up to six ops, fewest moves within
a peak, and least peak with a limit on moves, are compared with all orders; a fifth of the baselines
are not valid orders. At last plans: random graphs of up to four ops with views, mutation,
in-place, workspace and control edges, half of them in-place. `solve` is asked for the least slab
with few moves and for fewest moves among plans of least slab, half of the time under order rules;
plan, moves and both bounds are compared with enumeration.
"""

from __future__ import annotations

import numpy as np

from optsched.check.plan import check_order, check_plan
from optsched.check.rules.near import count_moved
from optsched.check.rules.order import check_order_rules
from optsched.errors import GraphError, PlanError
from optsched.model.graph import Graph
from optsched.model.order_rules import NO_RULES, OrderRules, moved_ops
from optsched.ordering.moves import fewest_moves, least_peak_within
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve
from optsched.solver.result import Result
from optsched.solver.status import Status
from tests.support.brute import least_slab_of, orders
from tests.support.generators import PLANNABLE, random_graph, random_order
from tests.support.order_rules import random_rules

FEATURES = frozenset({"inputs", "inplace", "multi", "views", "mutation", "workspace", "control"})
FEATURES_OF_ORDERS = PLANNABLE | {"pins", "pools", "shuffled"}
MAX_BUFFERS = 8


def main(count: int = 2_000, seed: int = 0) -> int:
    total = 0
    for kind in (fuzz_rules, fuzz_orders, fuzz):
        compared, wrong = kind(count, seed)
        for line in wrong:
            print(line)
        print(f"{kind.__name__}: {compared} graphs compared, {len(wrong)} wrong", flush=True)
        total += len(wrong)
    return 1 if total else 0


def some_graph(rng: np.random.Generator, most: int) -> Graph:
    """Return a random graph with a limit on ops, half of the time in-place."""
    features = PLANNABLE if rng.random() < 0.5 else {"inputs", "inplace", "multi"}
    # Tiny sizes make many ties, huge ones show sums that overflow.
    size = int(rng.choice([2, 4, 16, 2**40]))
    graph = random_graph(rng, int(rng.integers(1, most + 1)), max_size=size, features=features)
    return graph.with_inplace() if rng.random() < 0.5 else graph


def fuzz_rules(graphs: int, seed: int) -> tuple[int, list[str]]:
    """Return how many graphs were compared, and where edges and rules have other orders."""
    wrong = []
    for number in range(graphs):
        rng = np.random.default_rng([seed, number])
        graph = random_graph(rng, int(rng.integers(1, 6)), features=FEATURES_OF_ORDERS)
        rules = random_rules(rng, graph)
        wanted = {order for order in orders(graph) if _keeps(graph, order, rules)}
        try:
            found = set(orders(rules.apply(graph)))
        except GraphError:
            found = set()
        if found != wanted:
            wrong.append(f"graph {number} of seed {seed}: {rules} has orders {found ^ wanted}")
    return graphs, wrong


def _keeps(graph: Graph, order: tuple[int, ...], rules: OrderRules) -> bool:
    names = [graph.ops[v].name for v in order]
    try:
        check_order_rules(names, first=rules.first, last=rules.last, groups=rules.groups)
    except PlanError:
        return False
    return True


def fuzz_orders(graphs: int, seed: int) -> tuple[int, list[str]]:
    """Return the number of graphs compared, and the faults of the searches of orders."""
    wrong = []
    for number in range(graphs):
        said = _compare_orders(np.random.default_rng([seed, number]))
        wrong += [f"graph {number} of seed {seed}: {said}"] if said else []
    return graphs, wrong


def _compare_orders(rng: np.random.Generator) -> str:
    graph = some_graph(rng, 6)
    baseline = random_order(rng, graph)
    if rng.random() < 0.2:
        # Mostly no valid order: users may give the order of another version of their graph.
        baseline = tuple(rng.permutation(len(graph.ops)).tolist())
    known = [(check_order(graph, x), moved_ops(x, baseline)) for x in orders(graph)]
    # A peak that some order has, or a byte less.
    peak = int(rng.choice([p for p, _ in known])) - int(rng.integers(2))
    clock = Clock.of(Limits())
    found = fewest_moves(graph, baseline, peak, clock=clock)
    within = [moved for p, moved in known if p <= peak]
    if found.order is None:
        least = min(p for p, _ in known)
        right = found.complete and not within and found.next_peak == least
    else:
        # Claimed, counted again, proved and enumerated: all four must be one number.
        numbers = {moved_ops(found.order, baseline), found.moved, found.bound, min(within)}
        right = len(numbers) == 1 and check_order(graph, found.order) <= peak and found.complete
    if not right:
        return f"peak {peak}: {found}"
    most = int(rng.integers(0, len(graph.ops) + 1))
    near = least_peak_within(graph, baseline, most, clock=clock)
    peaks = [p for p, moved in known if moved <= most]
    if near.order is None:
        fewest = min(moved for _, moved in known)
        return "" if not peaks and most < near.moved_bound <= fewest else f"{most} moves: {near}"
    values = {check_order(graph, near.order), near.peak, near.bound, min(peaks)}
    right = len(values) == 1 and moved_ops(near.order, baseline) <= most
    return "" if right else f"{most} moves: {near}"


def fuzz(graphs: int, seed: int) -> tuple[int, list[str]]:
    """Return the number of graphs compared, and the faults."""
    compared, wrong = 0, []
    for number in range(graphs):
        rng = np.random.default_rng([seed, number])
        graph = random_graph(rng, int(rng.integers(1, 5)), max_size=5, features=FEATURES)
        graph = graph.with_inplace() if rng.random() < 0.5 else graph
        rules = random_rules(rng, graph) if rng.random() < 0.5 else NO_RULES
        if len(graph.buffers) <= MAX_BUFFERS and _is_possible(graph, rules):
            compared += 1
            said = _compare(rng, graph, rules)
            wrong += [f"graph {number} of seed {seed}: {said}"] if said else []
    return compared, wrong


def _is_possible(graph: Graph, rules: OrderRules) -> bool:
    try:
        rules.apply(graph)
    except GraphError:
        return False
    return True


def _compare(rng: np.random.Generator, graph: Graph, rules: OrderRules) -> str:
    baseline = random_order(rng, rules.apply(graph) if rng.random() < 0.5 else graph)
    by_moves: dict[int, list[tuple[int, ...]]] = {}
    for order in orders(rules.apply(graph)):
        by_moves.setdefault(moved_ops(order, baseline), []).append(order)
    slabs = {moved: least_slab_of(graph, some) or 0 for moved, some in by_moves.items()}
    least = min(slabs.values())
    fewest = min(moved for moved, slab in slabs.items() if slab == least)
    most = int(rng.integers(min(slabs), len(graph.ops) + 1))
    within = min(slab for moved, slab in slabs.items() if moved <= most)
    few = solve(graph, order_rules=rules, baseline=baseline, max_moved=most)
    if (few.slab, few.slab_bound) != (within, within) or (few.moved or 0) > most:
        return f"{within} bytes with {most} moves, found {few}"
    best = solve(graph, order_rules=rules, baseline=baseline, fewest_moves=True)
    if (best.slab, best.slab_bound) != (least, least):
        return f"{least} bytes, found {best}"
    if (best.moved, best.moved_bound, best.status) != (fewest, fewest, Status.OPTIMAL):
        return f"{fewest} moves, found {best.moved}, at least {best.moved_bound}"
    if min(slabs) > 0:
        try:
            # One move fewer than any order needs: this must be refused, not answered.
            solve(graph, order_rules=rules, baseline=baseline, max_moved=min(slabs) - 1)
        except GraphError:
            pass
        else:
            return f"at least {min(slabs)} moves, and fewer were not refused"
    return _check(graph, rules, baseline, few) or _check(graph, rules, baseline, best)


def _check(graph: Graph, rules: OrderRules, baseline: tuple[int, ...], result: Result) -> str:
    """Let the checker look at a plan; it reads the graph without its control edges."""
    assert result.plan is not None
    checked = check_plan(graph, result.plan)
    order = [graph.ops[v].name for v in result.plan.order]
    check_order_rules(order, first=rules.first, last=rules.last, groups=rules.groups)
    moved = count_moved(order, [graph.ops[v].name for v in baseline])
    right = (checked.slab, moved) == (result.slab, result.moved)
    return "" if right else f"the checker has {checked.slab} bytes and {moved} moves: {result}"
