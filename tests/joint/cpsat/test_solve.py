"""All three forms against brute force, over every switch of the cuts."""

from __future__ import annotations

from dataclasses import astuple
from itertools import product

import numpy as np
import pytest

from optsched.check.plan import check_order, check_packing, check_plan
from optsched.errors import PlanError, UsageError
from optsched.joint.cpsat import (
    CpSatOutcome,
    Cuts,
    Settings,
    Stop,
    solve_joint,
    solve_order,
    solve_packing,
)
from optsched.joint.cpsat.solver import SAFE
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan
from optsched.runtime.limits import Event, Limits, Objective
from tests.joint.cpsat.common import QUICK, diamond, random_packing, random_plan, stacked
from tests.support.brute import least_joint, least_peak, least_slab
from tests.support.generators import FEATURES, PLANNABLE, random_graph, random_order

EVERY_CUT = [Cuts(*switches) for switches in product((False, True), repeat=5)]
TINY = Settings({**SAFE.parameters, "max_deterministic_time": 1e-6})


def twin_heavy(rng: np.random.Generator, ops: int) -> Graph:
    """Few sizes and shared readers, so that every cut has something to do."""
    build = GraphBuilder()
    build.input("x", 2)
    made = ["x"]
    for v in range(ops):
        reads = list(dict.fromkeys(rng.choice(made[-4:], size=int(rng.integers(0, 3)))))
        count = int(rng.choice([0, 1, 1, 2]))
        writes = {f"b{v}_{i}": 2 * int(rng.integers(1, 3)) for i in range(count)}
        build.op(f"op{v}", reads=[str(b) for b in reads], writes=writes)
        made += writes
    return build.build()


@pytest.mark.parametrize(
    "cuts", EVERY_CUT, ids=lambda cuts: "".join(map(str, map(int, astuple(cuts))))
)
def test_every_combination_of_cuts_keeps_the_optimum(cuts: Cuts) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        graph = twin_heavy(rng, 7) if seed % 2 else random_graph(rng, 7)
        outcome = solve_order(graph, cuts=cuts, limits=QUICK)
        assert outcome.value == outcome.bound == least_peak(graph)
    for seed in range(4):
        graph = twin_heavy(np.random.default_rng(seed), 5)
        joint = solve_joint(graph, cuts=cuts, limits=QUICK, staged=False)
        assert (joint.value, joint.tie_value) == least_joint(graph)
        problem = random_packing(np.random.default_rng(seed), 6)
        assert solve_packing(problem, cuts=cuts, limits=QUICK).value == least_slab(problem)


@pytest.mark.parametrize("seed", range(40))
def test_orders_agree_with_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(0, 10)), features=FEATURES)
    outcome = solve_order(graph, limits=QUICK)
    assert outcome.order is not None
    assert check_order(graph, outcome.order) == outcome.value == least_peak(graph)
    assert outcome.optimal
    assert outcome.stop is Stop.CLAIMED


@pytest.mark.parametrize("seed", range(40))
def test_packings_agree_with_brute_force(seed: int) -> None:
    problem = random_packing(np.random.default_rng(seed), 6, pins=seed % 3 == 0)
    outcome = solve_packing(problem, limits=QUICK)
    assert outcome.value == least_slab(problem)
    if outcome.offsets is None:
        assert outcome.infeasible
    else:
        assert check_packing(problem, outcome.offsets) == outcome.value == outcome.bound


@pytest.mark.parametrize("seed", range(20))
def test_packings_with_gaps_agree_with_brute_force(seed: int) -> None:
    problem = random_packing(np.random.default_rng(seed), 4, gaps=True)
    outcome = solve_packing(problem, limits=QUICK)
    assert outcome.offsets is not None
    assert check_packing(problem, outcome.offsets) == outcome.value == least_slab(problem)


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_joint_agrees_with_brute_force(seed: int, staged: bool) -> None:
    rng = np.random.default_rng(seed)
    features = FEATURES if seed % 2 else PLANNABLE
    graph = random_graph(rng, int(rng.integers(0, 6)), max_size=6, features=features)
    outcome = solve_joint(graph, limits=QUICK, staged=staged)
    expected = least_joint(graph)
    if expected is None:
        assert outcome.infeasible
        assert outcome.plan is None
        return
    assert (outcome.value, outcome.tie_value) == expected
    assert (outcome.bound, outcome.tie_bound) == expected
    assert outcome.plan is not None
    check_plan(graph, outcome.plan, slab=outcome.value, peak=outcome.tie_value)


@pytest.mark.parametrize("seed", range(15))
def test_peak_first(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed), 5, max_size=6)
    outcome = solve_joint(graph, objective=Objective.PEAK, limits=QUICK)
    assert outcome.value == outcome.bound == least_peak(graph)
    assert outcome.plan is not None
    check_plan(graph, outcome.plan, peak=outcome.value, slab=outcome.tie_value)


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_capacity_is_decided(seed: int, staged: bool) -> None:
    graph = random_graph(np.random.default_rng(seed), 5, max_size=6)
    expected = least_joint(graph)
    assert expected is not None
    fits = solve_joint(graph, capacity=expected[0], limits=QUICK, staged=staged)
    assert fits.value == expected[0]
    assert fits.stop is Stop.CLAIMED
    refused = solve_joint(graph, capacity=expected[0] - 1, limits=QUICK, staged=staged)
    assert refused.infeasible
    assert refused.plan is None
    assert refused.bound >= expected[0]


def test_a_warm_start_that_fits_ends_the_question() -> None:
    graph = diamond()
    best = solve_joint(graph, limits=QUICK).plan
    again = solve_joint(graph, capacity=18, warm_start=best, limits=Limits(0.0))
    assert again.plan is best
    assert again.value == 18
    assert not again.improved


def test_a_warm_start_that_does_not_fit_is_kept_but_not_praised() -> None:
    graph = diamond()
    best = solve_joint(graph, limits=QUICK).plan
    refused = solve_joint(graph, capacity=17, warm_start=best, limits=QUICK)
    assert refused.infeasible
    assert refused.plan is best
    assert not refused.improved


@pytest.mark.parametrize("seed", range(20))
def test_hint_survives_a_tiny_limit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 9)
    plan = random_plan(rng, graph)
    assert plan is not None
    before = check_plan(graph, plan)
    outcome = solve_joint(graph, warm_start=plan, settings=TINY)
    assert outcome.plan is not None
    after = check_plan(graph, outcome.plan, slab=outcome.value, peak=outcome.tie_value)
    assert (after.slab, after.peak) <= (before.slab, before.peak)
    assert outcome.improved == ((after.slab, after.peak) < (before.slab, before.peak))


def test_without_time_the_warm_start_comes_back() -> None:
    rng = np.random.default_rng(5)
    graph = random_graph(rng, 9)
    plan = random_plan(rng, graph)
    outcome = solve_joint(graph, warm_start=plan, limits=Limits(0.0))
    assert outcome.stop is Stop.TIME_LIMIT
    assert outcome.value is not None
    assert outcome.value <= (plan.slab(graph) if plan else 0)
    order = random_order(rng, graph)
    assert solve_order(graph, warm_start=order, limits=Limits(0.0)).order is not None
    problem, _ = packing_problem(graph, order)
    packed = solve_packing(problem, warm_start=stacked(problem), limits=Limits(0.0))
    assert packed.offsets is not None


def test_an_optimal_warm_start_is_returned_as_it_is() -> None:
    graph = diamond()
    best = solve_joint(graph, limits=QUICK).plan
    again = solve_joint(graph, warm_start=best, limits=QUICK)
    assert again.plan is best
    assert again.optimal
    assert not again.improved


def test_an_invalid_warm_start_is_refused() -> None:
    with pytest.raises(PlanError):
        solve_joint(diamond(), warm_start=Plan((0, 1, 2, 3), (0, 0, 0, 0, 0)))


def test_bounds_are_kept_in_bytes() -> None:
    graph = diamond()
    outcome = solve_order(graph, peak_bound=17, limits=QUICK)
    assert outcome.value == outcome.bound == 18


def test_too_large_sizes_are_refused() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 2**60 + 1, "y": 2**60})
    for solve in (solve_order, solve_joint):
        with pytest.raises(UsageError):
            solve(build.build())


def test_huge_sizes_are_restored_exactly() -> None:
    build = GraphBuilder()
    scale = 2**55 + 2**20
    build.op("a", writes={"x": 3 * scale, "y": 5 * scale})
    build.op("b", reads=["x"], writes={"z": 4 * scale})
    build.op("c", reads=["y", "z"])
    outcome = solve_joint(build.build(), limits=QUICK)
    assert outcome.value == 12 * scale
    assert outcome.plan is not None
    check_plan(build.build(), outcome.plan, slab=12 * scale)


def test_events_never_move_back() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, 9)
        seen: list[Event] = []
        outcome = solve_joint(
            graph, warm_start=random_plan(rng, graph), on_event=seen.append, limits=QUICK
        )
        values = [event.incumbent for event in seen if event.incumbent is not None]
        bounds = [event.bound for event in seen]
        assert values == sorted(values, reverse=True)
        assert bounds == sorted(bounds)
        assert seen[-1].bound <= outcome.bound
        assert all(value >= (outcome.value or 0) for value in values)


def test_the_same_seed_gives_the_same_plan() -> None:
    graph = random_graph(np.random.default_rng(3), 9)

    def answer() -> CpSatOutcome:
        return solve_joint(graph, limits=Limits(workers=1, seed=7))

    first, second = answer(), answer()
    assert first.plan == second.plan
