"""Regions: no order is lost when they become chains, and what is left is solved as before."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest

from experiments.ordering_families.shapes import series_parallel
from optsched.builder import GraphBuilder
from optsched.check import check_order
from optsched.graph import Graph
from optsched.ordering import engine, regions, solve_order
from optsched.ordering.model import Net, build_net
from optsched.ordering.problem import Problem
from optsched.ordering.regions import Folding, reduce
from optsched.ordering.rules import ALL_RULES, Rules
from tests.ordering.oracle import Oracle

SIZES = (0, 1, 2, 4, 8, 16, 32, 64)


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


def some_order(rng: np.random.Generator, net: Net) -> list[int]:
    """A random order, most of them rather good: the op that leaves least bytes is often next."""
    missing, waiting = np.diff(net.pred_ptr), np.diff(net.user_ptr)
    ready, order = np.flatnonzero(missing == 0).tolist(), list[int]()
    greed, fear = rng.choice([0.0, 0.8, 1.0]), rng.choice([0.0, 1.0])

    def score(v: int) -> float:
        read = net.read[net.read_ptr[v] : net.read_ptr[v + 1]]
        freed = int(net.size[read[waiting[read] == 1]].sum())
        return float(net.net[v] - freed + fear * net.hill[v])

    while ready:
        v = min(ready, key=score) if rng.random() < greed else ready[int(rng.integers(len(ready)))]
        ready.remove(v)
        order.append(v)
        waiting[net.read[net.read_ptr[v] : net.read_ptr[v + 1]]] -= 1
        for w in net.succ[net.succ_ptr[v] : net.succ_ptr[v + 1]].tolist():
            missing[w] -= 1
            if not missing[w]:
                ready.append(w)
    return order


def is_order(net: Net, order: list[int]) -> bool:
    step = {v: i for i, v in enumerate(order)}
    rows = [net.pred[a:b].tolist() for a, b in pairwise(net.pred_ptr)]
    return len(step) == len(order) == len(rows) and all(
        step[u] < step[v] for v, row in enumerate(rows) for u in row
    )


@pytest.mark.parametrize("ops", [12, 30, 120])
def test_any_order_becomes_one_of_chains_without_a_higher_peak(
    ops: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(ops)
    folded = changed = 0
    for _ in range(7_200 // ops):
        graph = nested(rng, int(rng.integers(3, ops)))
        rules = replace(ALL_RULES, contract=bool(rng.integers(2)))
        problem = Problem(build_net(graph.arrays), graph.arrays.initial, rules)
        monkeypatch.setattr(regions, "MOST_OPS", int(rng.choice([10, 200, 200])))
        reduced = reduce(problem)
        small = replace(problem, net=reduced.net, priority=None)
        folded += problem.statistics.regions
        for _ in range(8):
            order = some_order(rng, problem.net)
            peak = problem.follow(order)[0]
            shrunk = reduced.shrink(order)
            assert is_order(reduced.net, shrunk)
            assert small.follow(shrunk)[0] <= peak
            changed += small.follow(shrunk)[0] < peak
            whole = reduced.expand(some_order(rng, reduced.net))
            assert is_order(problem.net, whole)
            inner = reduced.shrink(whole)
            assert problem.follow(reduced.expand(inner))[0] <= small.follow(inner)[0]
    assert folded > 50
    assert changed > 10


def test_optimum_is_the_same_with_the_rule_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "FIRST_EFFORT", 1)
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(250):
        graph = nested(rng, int(rng.integers(4, 12)))
        optimum = Oracle(graph).least_peak()
        some = {field.name: bool(rng.integers(2)) for field in fields(Rules)}
        for rules in (Rules(), Rules(**some | {"regions": True}), Rules(regions=False)):
            outcome = solve_order(graph, rules=rules)
            assert check_order(graph, outcome.order) == outcome.peak
            assert (outcome.peak, outcome.bound) == (optimum, optimum)
            assert rules.regions or not outcome.statistics.regions
            found += outcome.statistics.regions
    assert found > 50


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


def test_regions_take_turns() -> None:
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(400):
        graph = side_by_side(rng)
        without, outcome = solve_order(graph, rules=Rules(regions=False)), solve_order(graph)
        assert (outcome.peak, outcome.bound) == (without.peak, without.bound)
        assert check_order(graph, outcome.order) == outcome.peak
        found += outcome.statistics.regions
    assert found > 500


@pytest.mark.parametrize("limit", ["MOST_STATES", "MOST_OPS", "TOO_MANY"])
def test_a_region_that_takes_too_long_stays(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, limit, 0)
    graph = series_parallel(60, 1)
    outcome = solve_order(graph)
    assert outcome.peak == outcome.bound == solve_order(graph, rules=Rules(regions=False)).peak
    assert outcome.statistics.regions == 0


def test_series_parallel_nets_are_solved_by_chains_alone() -> None:
    graph = series_parallel(400, 1)
    outcome = solve_order(graph)
    assert outcome.peak == outcome.bound == check_order(graph, outcome.order)
    assert outcome.statistics.branches == outcome.statistics.windows == 0
    problem = Problem(build_net(graph.arrays), graph.arrays.initial)
    assert len(reduce(problem).net.net) < 10


def test_regions_as_large_as_numbers_get_are_left_alone() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        graph = nested(rng, 11, scale=2**51)
        optimum = Oracle(graph).least_peak()
        outcome = solve_order(graph)
        assert (outcome.peak, outcome.bound) == (optimum, optimum)
    for size, found in ((2**57, 1), (2**60, 0)):
        build = GraphBuilder("diamond")
        build.op("fork", writes={"x": size})
        build.op("left", reads=["x"], writes={"y": size})
        build.op("right", reads=["x"], writes={"z": size // 2})
        build.op("join", reads=["y", "z"], writes={"out": size})
        folding = Folding(Problem(build_net(build.build().arrays), 0))
        folding.fold_all()
        assert len(folding.found) == found
