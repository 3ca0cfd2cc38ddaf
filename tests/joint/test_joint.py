"""Order and offsets together: never optimal unless it is, found where brute force finds it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pytest

from optsched.check.plan import check_plan
from optsched.errors import GraphError
from optsched.joint import EnumerationEffort, OtherOrdersEffort, enumerate_orders, other_plans
from optsched.joint.other_orders import RandomWalk, _OtherOrders, rename_ops
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory, timeline
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan
from optsched.reports.capacity import packing_refusal, refusal
from optsched.reports.results import packing_record, packing_text, plan_record, plan_text
from optsched.runtime.clock import Clock
from optsched.runtime.limits import SIZES, Limits, Objective, Proof, StopReason
from optsched.solver import pipeline
from optsched.solver.joint_stages import all_orders
from optsched.solver.pack import pack
from optsched.solver.pipeline import solve
from optsched.solver.schedule import Engine, stages_of
from optsched.solver.status import Status
from tests.support import brute
from tests.support.families.small import make_graph
from tests.support.generators import PLAIN, PLANNABLE, random_graph, random_order

GAP = make_graph(
    "gap",
    (2, 2, 1, 1, 1, 2, 2),
    [(0, 1), (1, 3), (2, 3), (2, 4), (3, 5), (4, 5), (5, 6)],
)
"""Least peak 4, least slab 5."""

SIXTY = OtherOrdersEffort(tries=60)

FREE = make_graph(
    "free",
    (2, 2, 1, 1, 1, 2, 2),
    [(0, 1), (1, 3), (2, 5), (3, 4), (4, 5), (5, 6)],
)
"""A graph with equal live ranges in the order as written, but a read less: peak and slab 4."""


def tiny_graphs(count: int, seed: int) -> Iterator[tuple[Graph, int, int]]:
    """Graphs with their least peak and joint optimum by brute force."""
    rng = np.random.default_rng(seed)
    found = 0
    while found < count:
        graph = random_graph(rng, ops=int(rng.integers(1, 7)), max_size=8, features=PLANNABLE)
        if np.count_nonzero(graph.arrays.size) > 7:
            continue
        joint = brute.least_joint(graph)
        if joint is not None:
            found += 1
            yield graph, brute.least_peak(graph), joint[0]


def test_optimal_is_claimed_only_where_brute_force_agrees() -> None:
    gaps = proved = reached = meets = 0
    for graph, peak, slab in tiny_graphs(150, seed=1):
        result = solve(graph, limits=Limits(seconds=5))
        assert result.plan is not None
        assert result.slab is not None
        check_plan(graph, result.plan, peak=result.peak, slab=result.slab)
        assert result.slab_bound <= slab <= result.slab
        assert (result.status is Status.OPTIMAL) == (result.slab == result.slab_bound)
        gaps += slab > peak
        proved += result.status is Status.OPTIMAL
        meets += slab == peak
        reached += slab == peak == result.slab
    # Alignment makes the gaps; even they are proved, by going through all orders.
    assert gaps >= 2
    assert meets >= 140
    assert reached == meets
    assert proved == 150


def test_capacity_answers_agree_with_brute_force() -> None:
    for graph, _, slab in tiny_graphs(40, seed=2):
        fits = solve(graph, capacity=slab, limits=Limits(seconds=5))
        assert fits.stop_reason is StopReason.DECIDED
        assert fits.slab is not None
        assert fits.slab <= slab
        if not slab:
            continue
        refused = solve(graph, capacity=slab - 1, limits=Limits(seconds=5))
        assert refused.status is Status.INFEASIBLE
        assert refused.slab_bound == slab


@pytest.mark.parametrize("features", [PLAIN, frozenset({"alignment", "inputs", "multi"})])
def test_exhaustion_alone_finds_and_proves_the_joint_optimum(features: frozenset[str]) -> None:
    rng = np.random.default_rng(3)
    for _ in range(80):
        graph = random_graph(rng, ops=int(rng.integers(1, 6)), max_size=6, features=features)
        if np.count_nonzero(graph.arrays.size) > 7:
            continue
        joint = brute.least_joint(graph)
        assert joint is not None
        plans: list[Plan] = []
        found = enumerate_orders(graph, 1000, floor=0, offer=plans.append, limits=Limits())
        slabs = [check_plan(graph, plan).slab for plan in plans]
        assert found.complete
        assert slabs == sorted(slabs, reverse=True)
        assert slabs[-1] == joint[0] == found.refuted + 1


def test_exhaustion_gives_up_honestly() -> None:
    found = enumerate_orders(
        GAP,
        4,
        floor=4,
        offer=lambda plan: None,
        limits=Limits(),
        effort=EnumerationEffort(states=3),
    )
    assert not found.complete
    assert enumerate_orders(GAP, 4, floor=4, offer=lambda plan: None, limits=Limits()).complete


def test_a_slab_above_the_least_peak_is_proved_by_search() -> None:
    result = solve(GAP)
    assert (result.peak_bound, result.slab, result.slab_bound) == (4, 5, 5)
    assert result.slab_proof is Proof.JOINT_SEARCH
    assert result.status is Status.OPTIMAL
    assert "in every order" in plan_text(result, plan_record(result))
    bounds = [event.bound for event in result.trace]
    assert bounds == sorted(bounds)


def test_walks_stay_valid_and_within_the_budget() -> None:
    rng = np.random.default_rng(4)
    moved = 0
    for _ in range(40):
        graph = random_graph(rng, ops=12)
        order = random_order(rng, graph)
        budget = peak_memory(graph, order)
        walk = RandomWalk(graph, order, budget, rng)
        moved += walk.wander(60)
        assert peak_memory(graph, walk.order) <= budget
        assert walk.live == timeline(graph, walk.order).before.tolist()
    assert moved > 200


def test_renamed_ops_are_the_same_graph() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        graph = random_graph(rng, ops=9)
        names = rng.permutation(9).tolist()
        renamed = rename_ops(graph, names)
        order = random_order(rng, renamed)
        assert peak_memory(renamed, order) == peak_memory(graph, [names[v] for v in order])


def test_a_search_under_other_names_keeps_the_least_peak() -> None:
    rng = np.random.default_rng(6)
    graph = random_graph(rng, ops=10)
    least = brute.least_peak(graph)
    search = _OtherOrders(graph, [], Clock(Limits(5.0)), set(), OtherOrdersEffort())
    orders = {tuple(search.search_again(least, least) or ()) for _ in range(6)}
    assert () not in orders
    assert {peak_memory(graph, order) for order in orders} == {least}


def test_other_orders_pack_where_the_first_refuses() -> None:
    # The order as written is of least peak and needs a byte more; two others do not.
    given = [np.arange(7)]
    assert brute.least_peak(FREE) == peak_memory(FREE, given[0]) == 4
    plans = list(other_plans(FREE, given, 4, bound=4, limits=Limits(), effort=SIXTY))
    again = list(other_plans(FREE, given, 4, bound=4, limits=Limits(), effort=SIXTY))
    assert [check_plan(FREE, plan).slab for plan in plans] == [5, 4]
    assert plans == again


def test_work_instead_of_seconds_gives_the_same_plans_again() -> None:
    rng = np.random.default_rng(12)
    graph = random_graph(rng, 60, max_size=16, max_reads=4)
    start = [np.array(random_order(rng, graph))]
    peak = peak_memory(graph, start[0])
    one, two = (
        list(other_plans(graph, start, peak, bound=0, limits=Limits(work=100_000)))
        for _ in range(2)
    )
    assert one == two
    assert one


@pytest.mark.parametrize("objective", SIZES)
@pytest.mark.parametrize("capacity", [None, 2**63])
def test_pins_that_clash_in_every_order_are_told(
    objective: Objective, capacity: int | None
) -> None:
    build = GraphBuilder("clash")
    for name in "ab":
        build.op(name, writes={f"{name}{name}": 4})
        build.place(f"{name}{name}", pin=0)
        build.output(f"{name}{name}")
    with pytest.raises(GraphError, match="pinned onto each other in every order"):
        solve(build.build(), objective=objective, capacity=capacity)


def test_interrupts_keep_the_best_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> NoReturn:
        raise KeyboardInterrupt

    schedule = tuple(
        replace(stage, run=interrupted) if stage.run is all_orders else stage
        for stage in stages_of(Engine.AUTO, pipeline.answer)
        if not stage.repeat
    )
    monkeypatch.setattr(pipeline, "schedule", lambda *_, **__: schedule)
    result = solve(GAP)
    assert result.stop_reason is StopReason.INTERRUPTED
    assert result.status is Status.FEASIBLE
    assert result.slab == 5


def test_refused_capacity_names_bytes_and_culprits() -> None:
    build = GraphBuilder("towers")
    build.op("a", writes={"x": 5, "y": 7})
    build.op("b", reads=["x", "y"], writes={"z": 2})
    build.output("z")
    graph = build.build()
    result = solve(graph, capacity=11)
    assert refusal(graph, result)["culprits_live"] == "whenever op 'b' runs"
    record = plan_record(result)
    assert (record["required"], record["available"], record["excess"]) == (14, 11, 3)
    assert _culprits(record) == [("y", 7), ("x", 5), ("z", 2)]
    assert "14 required, 3 too few" in plan_text(result, record)
    assert "y 7, x 5, z 2" in plan_text(result, record)
    assert "required" not in plan_record(solve(graph, capacity=14))
    assert "required" not in plan_record(solve(graph))


def test_refused_capacity_names_what_is_pinned_too_high_or_kept_apart() -> None:
    build = GraphBuilder("one by one")
    build.op("a", writes={"x": 5})
    build.op("b", writes={"y": 5})
    build.keep_apart("x", "y")
    apart = build.build()
    found = refusal(apart, solve(apart, capacity=9))
    assert _culprits(found) == [("x", 5), ("y", 5)]
    assert "kept apart" in found["culprits_live"]
    build.place("y", pin=8)
    pinned = build.build()
    found = refusal(pinned, solve(pinned, capacity=12))
    assert _culprits(found) == [("y", 5)]
    assert found["culprits_live"] == "and pinned to offset 8"


def test_culprits_add_up_to_at_least_the_bytes_of_a_refusing_op() -> None:
    for graph, peak, _ in tiny_graphs(40, seed=10):
        if found := refusal(graph, solve(graph, capacity=peak - 1)) if peak else {}:
            sizes = [size for _, size in _culprits(found)]
            assert sizes == sorted(sizes, reverse=True)
            assert sum(sizes) > found["available"]


def test_refused_packing_names_its_fullest_step_or_its_pin() -> None:
    problem, _ = packing_problem(GAP, range(7))
    result = pack(problem, capacity=3)
    found = packing_refusal(problem, result)
    assert found["excess"] == found["required"] - 3
    assert sum(size for _, size in _culprits(found)) == problem.max_load
    assert packing_record(result)["available"] == 3
    assert "too few" in packing_text(result, packing_record(result))
    pinned = replace(problem, pin=np.array([10, -1, -1, -1, -1, -1, -1]))
    refusal = packing_refusal(pinned, pack(pinned, capacity=9))
    assert _culprits(refusal) == [("a", 2)]
    assert "required" not in packing_record(pack(problem, capacity=9))


def _culprits(record: dict[str, Any]) -> list[tuple[str, int]]:
    return [(row["buffer"], row["size"]) for row in record["culprits"]]
