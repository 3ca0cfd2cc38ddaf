"""The joint model against brute force; warm starts, capacities, limits and huge sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optsched import read_graph, solve
from optsched.check.plan import check_plan
from optsched.errors import PlanError, UsageError
from optsched.joint.cpsat import CpSatEffort, CpSatOutcome, solve_joint
from optsched.joint.cpsat import solve as solve_module
from optsched.joint.cpsat.joint_model import JointModel
from optsched.joint.cpsat.solver import SAFE, SolverThread
from optsched.joint.milp import solve_order_milp
from optsched.model.builder import GraphBuilder
from optsched.model.plan import Plan
from optsched.runtime.limits import Event, Limits, Objective, StopReason
from tests.joint.cpsat.common import QUICK, diamond, random_plan
from tests.support.brute import least_joint, least_peak
from tests.support.generators import FEATURES, PLANNABLE, random_graph, with_sharing

ABOVE_PEAK = Path(__file__).parents[3] / "instances" / "counterexamples" / "joint_gap_smallest.json"
TINY = CpSatEffort(parameters={**SAFE, "max_deterministic_time": 1e-6})


@pytest.mark.parametrize("seed", range(30))
def test_joint_agrees_with_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = FEATURES if seed % 2 else PLANNABLE
    graph = random_graph(rng, int(rng.integers(0, 6)), max_size=6, features=features)
    outcome = solve_joint(graph, limits=QUICK)
    expected = least_joint(graph)
    if expected is None:
        assert outcome.infeasible
        assert outcome.plan is None
        return
    assert outcome.value == outcome.bound == expected[0]
    assert outcome.plan is not None
    check_plan(graph, outcome.plan, slab=outcome.value)


@pytest.mark.parametrize("seed", range(30))
def test_pairs_and_groups_agree_with_brute_force(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    features = PLANNABLE | ({"pools", "pins"} if seed % 2 else set())
    graph = random_graph(rng, int(rng.integers(3, 6)), max_size=6, features=features)
    graph = with_sharing(rng, graph)
    outcome = solve_joint(graph, limits=QUICK)
    expected = least_joint(graph)
    assert outcome.value == (None if expected is None else expected[0])
    if outcome.plan is not None:
        check_plan(graph, outcome.plan, slab=outcome.value)


def test_a_model_that_takes_too_long_to_build_is_not_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = random_graph(np.random.default_rng(0), 400)
    start = random_plan(np.random.default_rng(0), graph)
    assert start is not None
    slab = check_plan(graph, start).slab
    monkeypatch.setattr(solve_module, "JointModel", None)
    outcome = solve_joint(graph, limits=Limits(seconds=2), warm_start=start, slab_bound=3)
    # Its order is still packed again.
    assert outcome.value is not None
    assert outcome.value <= slab
    assert 3 <= outcome.bound <= outcome.value
    assert outcome.stop_reason is StopReason.TIME_LIMIT
    assert not outcome.optimal


@pytest.mark.parametrize("seed", range(15))
def test_peak_first(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed), 4 + seed % 5, max_size=6)
    outcome = solve_joint(graph, objective=Objective.PEAK, limits=QUICK)
    assert outcome.value == outcome.bound == least_peak(graph)
    assert outcome.plan is not None
    check_plan(graph, outcome.plan, peak=outcome.value)


@pytest.mark.parametrize("seed", range(10))
def test_capacity_is_decided(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed), 5, max_size=6)
    expected = least_joint(graph)
    assert expected is not None
    fits = solve_joint(graph, capacity=expected[0], limits=QUICK)
    assert fits.value == expected[0]
    assert fits.stop_reason is StopReason.DECIDED
    refused = solve_joint(graph, capacity=expected[0] - 1, limits=QUICK)
    assert refused.infeasible
    assert refused.plan is None
    assert refused.bound >= expected[0]


def test_an_optimal_warm_start_is_returned_as_it_is() -> None:
    """Also where it ends the question, without time, or does not fit, beside the bound."""
    graph = diamond()
    best = solve_joint(graph, limits=QUICK).plan
    again = solve_joint(graph, warm_start=best, limits=QUICK)
    fits = solve_joint(graph, capacity=18, warm_start=best, limits=Limits(0.0))
    refused = solve_joint(graph, capacity=17, warm_start=best, limits=QUICK)
    assert again.plan is fits.plan is refused.plan is best
    assert again.optimal
    assert fits.value == refused.bound == refused.value == 18


@pytest.mark.parametrize("seed", range(20))
def test_hint_survives_a_tiny_limit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 9)
    plan = random_plan(rng, graph)
    assert plan is not None
    before = check_plan(graph, plan)
    outcome = solve_joint(graph, warm_start=plan, effort=TINY)
    assert outcome.plan is not None
    after = check_plan(graph, outcome.plan, slab=outcome.value)
    assert after.slab < before.slab or outcome.plan is plan


def test_without_time_the_warm_start_comes_back() -> None:
    rng = np.random.default_rng(5)
    graph = random_graph(rng, 9)
    plan = random_plan(rng, graph)
    outcome = solve_joint(graph, warm_start=plan, limits=Limits(0.0))
    assert outcome.stop_reason is StopReason.TIME_LIMIT
    assert outcome.value is not None
    assert outcome.value <= (plan.slab(graph) if plan else 0)


@pytest.mark.parametrize(
    ("lie", "line"),
    [
        ({"best": None, "bound": None, "infeasible": True}, "refuted by its own plan of "),
        ({"reported": 1}, "refuted by replay: it has "),
    ],
)
def test_a_claim_of_the_joint_model_that_a_plan_refutes_is_dropped(
    lie: dict[str, object],
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = SolverThread.run

    def lies(self, on_progress):  # type: ignore[no-untyped-def]
        state = run(self, on_progress)
        return replace(state, **lie) if isinstance(self.variables, JointModel) else state

    monkeypatch.setattr(SolverThread, "run", lies)
    # No order of it packs into its least peak, so that the joint model is asked.
    graph = read_graph(ABOVE_PEAK)
    start = solve(graph, engine="heuristics").plan
    outcome = solve_joint(graph, warm_start=start, limits=QUICK, slab_bound=3)
    assert outcome.bound == 3
    assert line in outcome.refuted
    assert caplog.messages == [outcome.refuted]


def test_an_invalid_warm_start_is_refused() -> None:
    with pytest.raises(PlanError):
        solve_joint(diamond(), warm_start=Plan((0, 1, 2, 3), (0, 0, 0, 0, 0)))


def test_bounds_are_kept_in_bytes() -> None:
    graph = diamond()
    outcome = solve_joint(graph, objective=Objective.PEAK, peak_bound=17, limits=QUICK)
    assert outcome.value == outcome.bound == 18


def test_too_large_sizes_are_refused() -> None:
    build = GraphBuilder("large")
    build.op("a", writes={"x": 2**60 + 1, "y": 2**60})
    graph = build.build()
    line = (
        r"large: sizes of .* are exact; buffer 'x' has 1152921504606846977 bytes; use engine auto"
    )
    with pytest.raises(UsageError, match=line):
        solve_joint(graph)
    with pytest.raises(UsageError, match=line):
        solve_order_milp(graph)


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


def test_a_capacity_beyond_64_bits_is_no_constraint() -> None:
    graph = diamond()
    for capacity in (2**63 - 1, 2**63, 2**200):
        outcome = solve_joint(graph, capacity=capacity, limits=QUICK)
        assert outcome.stop_reason is StopReason.DECIDED
        assert outcome.plan is not None
        check_plan(graph, outcome.plan, slab=outcome.value)


def test_work_instead_of_seconds_ends_a_search_at_the_same_plan() -> None:
    rng = np.random.default_rng(1)
    graph = random_graph(rng, 40, max_size=4001, features={"multi", "workspace"})
    plan = random_plan(rng, graph)
    first, second = (
        solve_joint(graph, warm_start=plan, limits=Limits(work=20_000), independent=True)
        for _ in range(2)
    )
    assert first == second
    assert first.stop_reason is StopReason.WORK_LIMIT
