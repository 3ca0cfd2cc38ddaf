"""Neighborhoods: plans are valid and ever better, never below the optimum, and repeatable."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heuristics.orderings.program import program
from optsched import solve
from optsched.check.plan import check_plan
from optsched.joint.cpsat.neighborhood_model import PlanInUnits
from optsched.joint.instance import graph_instance
from optsched.joint.neighborhood import NeighborhoodEffort, better_plans
from optsched.joint.packed import best_plan
from optsched.model.builder import GraphBuilder
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


def test_small_parts_of_a_plan_fit_beside_all_that_is_fixed() -> None:
    """Most buffers are fixed, pinned or live throughout the window; every plan is checked."""
    effort = NeighborhoodEffort(ops=2, most_ops=3, buffers=1, most_buffers=3, tries=12)
    better = 0
    for seed in range(12):
        rng = np.random.default_rng((28, seed))
        graph = replace(random_graph(rng, 12, max_size=9), must_share=())
        plan = random_plan(rng, graph)
        assert plan is not None
        graph = _pinned_as_in(rng, graph, plan)
        clock = Clock.of(Limits(work=300_000))
        found = [plan, *better_plans(graph, plan, clock=clock, seed=seed, effort=effort)]
        values = [check_plan(graph, one).slab for one in found]
        assert values == sorted(set(values), reverse=True)
        better += len(values) - 1
    assert better > 12


def _pinned_as_in(rng: np.random.Generator, graph: Graph, plan: Plan) -> Graph:
    """Return the graph with one buffer pinned to its offset in a plan."""
    pinned = int(rng.choice([i for i in set(graph.roots) if plan.offsets[i] is not None]))
    buffers = list(graph.buffers)
    buffers[pinned] = replace(buffers[pinned], pin=plan.offsets[pinned])
    return replace(graph, buffers=tuple(buffers))


def test_buffers_at_the_top_come_down_one_after_another() -> None:
    """Two buffers end at the top at different steps, and no neighborhood has both."""
    build = GraphBuilder("two tops")
    build.op("p", writes={"x": 1})
    build.op("q", reads=["x"], writes={"y": 1})
    build.op("r", reads=["y"], writes={"z": 1})
    build.op("s", reads=["z"])
    graph = build.build()
    ids = {buffer.name: i for i, buffer in enumerate(graph.buffers)}
    offsets = [0] * len(graph.buffers)
    offsets[ids["x"]] = offsets[ids["z"]] = 5
    plan = Plan(tuple(range(len(graph.ops))), tuple(offsets))
    effort = NeighborhoodEffort(ops=1, most_ops=1, buffers=0, most_buffers=0)
    clock = Clock.of(Limits(work=100_000))
    assert [p.slab(graph) for p in better_plans(graph, plan, clock=clock, effort=effort)]


def test_ops_change_what_they_allocate_and_release() -> None:
    graph = random_wiring(16, 0)
    instance = graph_instance(graph)
    order = program(graph).tolist()
    plan = PlanInUnits(instance, order, np.zeros(len(instance.items), np.int64))
    for low, high in ((0, 4), (5, 9), (10, 17)):
        ops = set(order[low:high])
        for item, changed in zip(instance.items, plan.changed(low, high).tolist(), strict=True):
            last = max((order.index(u) for u in item.users), default=-1)
            released = not item.kept and low <= last < high
            assert changed == (item.birth in ops or released)


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
