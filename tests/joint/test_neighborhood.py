"""Neighborhoods: plans are valid and ever better, never below the optimum, and repeatable."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heuristics.orderings.program import program
from optsched import solve
from optsched.check.plan import check_plan
from optsched.joint.neighborhood import better_plans
from optsched.joint.packed import best_plan
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.model.question import Question
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver import pipeline
from optsched.solver.driver import Stage, run_stage
from optsched.solver.finding import Finding
from optsched.solver.joint_stages import neighborhoods
from optsched.solver.known import Known
from optsched.solver.resume import Resume
from optsched.solver.schedule import Engine, stages_of
from tests.joint.cpsat.common import random_plan
from tests.support.brute import least_joint
from tests.support.families.wiring import random_wiring
from tests.support.generators import PLANNABLE, random_graph, with_sharing


def slabs(graph: Graph, plan: Plan, limits: Limits, floor: int = 0) -> list[int]:
    """Return the slabs of all plans yielded, each checked."""
    clock = Clock.of(limits)
    return [
        check_plan(graph, found).slab
        for found in better_plans(graph, plan, clock=clock, floor=floor)
    ]


@pytest.mark.parametrize("seed", range(25))
def test_small_graphs_reach_the_optimum_and_nothing_below(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = PLANNABLE | {"shuffled"} if seed % 2 else {"multi", "workspace", "alignment"}
    graph = random_graph(rng, 5, max_size=6, features=features)
    if seed % 3 == 0:
        graph = replace(with_sharing(rng, graph), must_share=())
    plan, least = random_plan(rng, graph), least_joint(graph)
    if plan is None or least is None:
        return
    begun = check_plan(graph, plan).slab
    found = [begun, *slabs(graph, plan, Limits(work=3_000_000), least[0])]
    assert found == sorted(set(found), reverse=True)
    assert found[-1] >= least[0]
    if begun > least[0]:
        # All five ops and all buffers are in one neighborhood.
        assert found[-1] == least[0]


def test_the_slab_of_random_wiring_falls_the_same_way_each_time() -> None:
    graph = random_wiring(32, 1, unit=False)
    plan = best_plan(graph, program(graph).tolist(), Clock.of(Limits(work=1)))
    assert plan is not None
    first, second = (slabs(graph, plan, Limits(work=40_000)) for _ in range(2))
    assert first == second
    assert first[-1] < plan.slab(graph)


def test_what_the_model_does_not_have_is_left_alone() -> None:
    rng = np.random.default_rng(0)
    graph = random_graph(rng, 6, features={"pools"})
    plan = solve(graph, time_limit=2).plan
    assert plan is not None
    assert slabs(graph, plan, Limits(2.0)) == []


def test_solve_lowers_a_slab_with_it() -> None:
    searches = stages_of(Engine.AUTO, pipeline.answer)
    assert any(stage.run is neighborhoods for stage in searches)
    graph = random_wiring(32, 1, unit=False)
    known = Known(Question(graph), Limits(work=400_000))
    plan = best_plan(graph, program(graph).tolist(), Clock.of(Limits(work=1)))
    assert plan is not None
    known.merge(Finding("start", plans=(plan,)))
    slab = known.measured.slab
    run_stage(known, Resume(), Stage(neighborhoods, share=0.2))
    assert known.measured.slab < slab
