"""Regions that are chains: searches with and without, and any order led along them.

    python -m tests.fuzz ordering.regions --count 4000 --seed 1

A graph is either `side_by_side`, some regions that are best gone through in turns, or `nested`. The
first is solved with the rule and without, which the other studies try. Of the second some orders,
most of them rather good, are led along the chains: that must be an order again, and have no higher
peak. A line is printed for each mistake, and one at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.ordering import ALL_RULES, OrderingRules, solve_order
from optsched.ordering.context import SearchContext
from optsched.ordering.effort import EFFORT, OrderingEffort
from optsched.ordering.problem import OrderingProblem, build_problem
from optsched.ordering.reduce.modules import ChainedProblem
from optsched.ordering.reduce.regions import reduce
from tests.fuzz.ordering.lead import lead

SIZES = (0, 1, 2, 4, 8, 16, 32, 64)
ORDERS = 8


def main(count: int = 4_000, seed: int = 0) -> int:
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter(wrong=0)
    for number in range(count):
        found = compare(side_by_side(rng), counts) if number % 2 else lead_all(rng, counts)
        for mistake in found:
            counts["wrong"] += 1
            print(f"seed {seed}, graph {number}: {mistake}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return 1 if counts["wrong"] else 0


def compare(graph: Graph, counts: Counter[str]) -> Iterator[str]:
    """Solve with the rule and without."""
    without, outcome = solve_order(graph, rules=OrderingRules(regions=False)), solve_order(graph)
    counts["regions searched"] += outcome.statistics.regions
    if (outcome.peak, outcome.bound) != (without.peak, without.bound):
        yield f"[{outcome.bound}, {outcome.peak}], without [{without.bound}, {without.peak}]"


def lead_all(
    rng: np.random.Generator, counts: Counter[str], most: int = 60, effort: OrderingEffort = EFFORT
) -> Iterator[str]:
    """Make chains of the regions of a graph, and lead orders along them."""
    graph = nested(rng, int(rng.integers(3, most)))
    rules = replace(ALL_RULES, contract=bool(rng.integers(2)))
    context = SearchContext(build_problem(graph.arrays), rules, effort)
    reduced = reduce(context)
    stages = reduced.stages
    counts["regions with orders led along"] += context.statistics.regions
    for _ in range(ORDERS):
        order = some_order(rng, context.problem)
        shrunk = reduced.shrink(order)
        if not is_order(reduced.problem, shrunk):
            yield f"{shrunk} is no order"
        if not is_order(context.problem, reduced.expand(shrunk)):
            yield f"{shrunk} is not an order of the full graph"
        peak, at = context.follow(order)[0], context
        for number, stage in enumerate(stages):
            if number == 1:
                assert isinstance(stage, ChainedProblem)
                led = np.array(order)
                for ops in stage.chains:
                    led = lead(led, at, ops)
                order = led.tolist()
            order = stage.shrink(order)
            at = replace(context, problem=stage.problem, priority=None)
            now = at.follow(order)[0]
            if now > peak:
                yield f"an order of peak {peak} becomes one of {now}"
            counts["orders improved"] += now < peak
            peak = now
        whole = reduced.expand(order)
        if not is_order(context.problem, whole) or context.follow(whole)[0] > peak:
            yield f"{order} is worse as a whole"


def nested(rng: np.random.Generator, ops: int, scale: int = 1) -> Graph:
    """Parts in series, in parallel between two ops, or wired at random between two ops."""
    build = GraphBuilder("nested")
    made = 0
    shared: list[str] = []

    def op(reads: list[str]) -> list[str]:
        nonlocal made
        writes = {
            f"b{made}_{k}": int(rng.choice(SIZES)) * scale for k in range(1 + (rng.random() < 0.2))
        }
        extra = int(rng.choice(SIZES)) * scale if rng.random() < 0.5 else 0
        if shared and rng.random() < 0.1:
            reads = [*reads, shared[int(rng.integers(len(shared)))]]
        shared.extend(writes)
        build.op(f"op{made}", reads=sorted(set(reads)), writes=writes, workspace=extra)
        made += 1
        return list(writes)

    def some(names: list[str]) -> list[str]:
        return [names[int(rng.integers(len(names)))]] if rng.random() < 0.5 else names

    def part(count: int, at: list[str]) -> list[str]:
        if count <= 1:
            return op(some(at))
        if count < 4 or rng.random() < 0.35:
            left = int(rng.integers(1, count))
            return part(count - left, part(left, at))
        first = op(at)
        if rng.random() < 0.7:
            left = int(rng.integers(1, count - 2))
            return op(part(left, first) + part(count - 2 - left, first))
        rows = [first]
        for _ in range(count - 2):
            rows.append(op(sorted({*some(rows[int(rng.integers(len(rows)))]), *some(rows[-1])})))
        return op([name for row in rows for name in row])

    build.input("x", int(rng.integers(9)) * scale)
    outputs = part(ops, ["x"])
    if rng.random() < 0.5:
        build.output(outputs[0])
    return build.build()


def side_by_side(rng: np.random.Generator) -> Graph:
    """Regions that free bytes, or take some, step by step: the best order goes back and forth."""
    build = GraphBuilder("side by side")
    made = 0

    def op(reads: list[str], sizes: list[int], extra: int = 0) -> list[str]:
        nonlocal made
        writes = {f"b{made}_{k}": size for k, size in enumerate(sizes)}
        build.op(f"op{made}", reads=reads, writes=writes, workspace=extra)
        made += 1
        return list(writes)

    def some(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    grows = rng.random() < 0.3
    build.input("x", some(1, 9))
    ends: list[str] = []
    for begin in op(["x"], [some(5, 60) for _ in range(some(2, 4))]):
        sizes = [some(5, 40) for _ in range(some(2, 4))]
        rows = []
        for name in op([begin], [some(0, 4) for _ in sizes] if grows else sizes):
            last = [name]
            for _ in range(some(1, 3)):
                last = op(last, [some(5, 40) if grows else some(0, 20)], some(0, 60))
            rows += last
        ends += op(rows, [some(20, 60) if grows else some(1, 9)], some(0, 9))
    build.output(op(ends, [some(1, 9)])[0])
    return build.build()


def some_order(rng: np.random.Generator, problem: OrderingProblem) -> list[int]:
    """A random order, most of them rather good: the op that leaves least bytes is often next."""
    missing, waiting = np.diff(problem.pred_ptr), np.diff(problem.user_ptr)
    ready, order = np.flatnonzero(missing == 0).tolist(), list[int]()
    greed, fear = rng.choice([0.0, 0.8, 1.0]), rng.choice([0.0, 1.0])

    def score(v: int) -> float:
        read = problem.read[problem.read_ptr[v] : problem.read_ptr[v + 1]]
        freed = int(problem.size[read[waiting[read] == 1]].sum())
        return float(problem.delta[v] - freed + fear * problem.rise[v])

    while ready:
        v = min(ready, key=score) if rng.random() < greed else ready[int(rng.integers(len(ready)))]
        ready.remove(v)
        order.append(v)
        waiting[problem.read[problem.read_ptr[v] : problem.read_ptr[v + 1]]] -= 1
        for w in problem.succ[problem.succ_ptr[v] : problem.succ_ptr[v + 1]].tolist():
            missing[w] -= 1
            if not missing[w]:
                ready.append(w)
    return order


def is_order(problem: OrderingProblem, order: list[int]) -> bool:
    step = {v: i for i, v in enumerate(order)}
    rows = [problem.pred[a:b].tolist() for a, b in pairwise(problem.pred_ptr)]
    return len(step) == len(order) == len(rows) and all(
        step[u] < step[v] for v, row in enumerate(rows) for u in row
    )
