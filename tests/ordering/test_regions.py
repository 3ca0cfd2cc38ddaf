"""Regions: chains in their place keep the optimum, and the rest is solved as before."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest

from optsched.check.plan import check_order
from optsched.model.builder import GraphBuilder
from optsched.ordering import closure_bound, solve_order
from optsched.ordering.context import SearchContext
from optsched.ordering.effort import EFFORT
from optsched.ordering.problem import build_problem
from optsched.ordering.reduce.modules import ModuleContraction
from optsched.ordering.reduce.regions import find_forks, reduce
from optsched.ordering.rules import OrderingRules
from optsched.runtime.limits import Proof
from tests.fuzz.ordering.regions import compare, lead_all, nested, side_by_side
from tests.support.families.shapes import series_parallel
from tests.support.ordering_oracle import Oracle


@pytest.mark.parametrize("ops", [12, 30, 120])
def test_any_order_becomes_one_of_chains_without_a_higher_peak(ops: int) -> None:
    rng = np.random.default_rng(ops)
    counts: Counter[str] = Counter()
    for _ in range(1_600 // ops):
        effort = replace(EFFORT, region_ops=int(rng.choice([10, 200, 200])))
        assert list(lead_all(rng, counts, ops, effort)) == []
    assert counts["regions with orders led along"] > 12
    assert counts["orders improved"] > 4


def test_optimum_is_the_same_with_the_rule_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    effort = replace(EFFORT, first_states=1)
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(120):
        graph = nested(rng, int(rng.integers(4, 12)))
        optimum = Oracle(graph).least_peak()
        some = {field.name: bool(rng.integers(2)) for field in fields(OrderingRules)}
        for rules in (
            OrderingRules(),
            OrderingRules(**some | {"regions": True}),
            OrderingRules(regions=False),
        ):
            outcome = solve_order(graph, rules=rules, effort=effort)
            assert check_order(graph, outcome.order) == outcome.peak
            assert (outcome.peak, outcome.bound) == (optimum, optimum)
            assert rules.regions or not outcome.statistics.regions
            found += outcome.statistics.regions
    assert found > 25


def test_regions_take_turns() -> None:
    rng = np.random.default_rng(1)
    counts: Counter[str] = Counter()
    for _ in range(150):
        assert list(compare(side_by_side(rng), counts)) == []
    assert counts["regions searched"] > 180


@pytest.mark.parametrize("limit", ["region_states", "region_ops", "fork_distance", "fork_ops"])
def test_a_region_that_takes_too_long_stays(limit: str) -> None:
    effort = replace(EFFORT, **{"many_ops": 10, limit: 0})
    graph = series_parallel(60, 1)
    outcome = solve_order(graph, effort=effort)
    assert (
        outcome.peak == outcome.bound == solve_order(graph, rules=OrderingRules(regions=False)).peak
    )
    assert outcome.statistics.regions == 0


@pytest.mark.parametrize(("seed", "proof"), [(0, Proof.SEARCH), (1, Proof.BOUND)])
def test_series_parallel_nets_are_solved_by_chains_alone(seed: int, proof: Proof) -> None:
    graph = series_parallel(400, seed)
    outcome = solve_order(graph)
    assert outcome.peak == outcome.bound == check_order(graph, outcome.order)
    assert outcome.statistics.branches == outcome.statistics.windows == 0
    # Chains are results of searches, so any bound after them is one by search.
    assert outcome.proof is proof
    assert (closure_bound(graph).value == outcome.peak) is (proof is Proof.BOUND)
    context = SearchContext(build_problem(graph.arrays))
    assert len(reduce(context).problem.delta) < 10


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
        contraction = ModuleContraction(SearchContext(build_problem(build.build().arrays)))
        contraction.contract_all(find_forks(contraction.context.problem, contraction.order))
        assert len(contraction.found) == found
