"""Graphs of several pools: the least sum of their slabs over all orders, by brute force beside."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from optsched.check.plan import check_plan
from optsched.cli import main
from optsched.errors import GraphError, PlanError
from optsched.formats import write_graph
from optsched.formats.native_plan import plan_document, read_plan_document
from optsched.joint import enumerate_orders
from optsched.joint.cpsat import solve_joint
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.model.pools import address_limit, pinned_bytes, pool_graph, pools_of
from optsched.runtime.limits import Limits, Objective, Proof, StopReason
from optsched.solver.pipeline import solve
from optsched.solver.schedule import Engine
from optsched.solver.status import Status
from tests.support import brute
from tests.support.commands import Cli
from tests.support.generators import PLANNABLE, random_graph

POOLED = PLANNABLE | {"pools"}
PINNED = POOLED | {"pins"}


def rivals() -> Graph:
    """Two towers, each in both pools: one order is best for the one, another for the other."""
    build = GraphBuilder("rivals")
    build.op("a", writes={"a1": 4, "a2": 1})
    build.op("b", writes={"b1": 1, "b2": 4})
    build.op("c", reads=["a1", "b2"], writes={"c1": 2})
    build.op("d", reads=["a2", "b1", "c1"], writes={"y": 1})
    build.output("y")
    for name in ("a2", "b2", "y"):
        build.place(name, pool="slow")
    return build.build()


def some_graphs(seed: int, count: int, features: frozenset[str]) -> list[Graph]:
    rng = np.random.default_rng(seed)
    found: list[Graph] = []
    while len(found) < count:
        graph = random_graph(rng, ops=int(rng.integers(1, 7)), max_size=8, features=features)
        if np.count_nonzero(graph.arrays.size) <= 7:
            found.append(graph)
    return found


@pytest.mark.parametrize("features", [POOLED, PINNED], ids=["pools", "pools and pins"])
def test_solve_gives_the_least_sum_of_slabs(features: frozenset[str]) -> None:
    pooled = above = 0
    for graph in some_graphs(1, 60, features):
        joint = brute.least_joint(graph)
        if joint is None:
            with pytest.raises(GraphError, match="in every order"):
                solve(graph)
            continue
        result = solve(graph, limits=Limits(seconds=20))
        assert result.status is Status.OPTIMAL
        assert result.slab == joint[0]
        assert result.plan is not None
        checked = check_plan(graph, result.plan, peak=result.peak, slab=result.slab)
        assert checked.slabs == result.plan.slabs(graph)
        pooled += len(checked.slabs) > 1
        above += joint[0] > brute.least_peak(graph)
    assert (pooled > 28, above > 10) == (True, True)


def test_pins_that_clash_in_every_order_are_refused() -> None:
    build = GraphBuilder("clash")
    build.input("x", 3)
    build.op("a", reads=["x"], writes={"p": 4, "q": 2})
    build.place("p", pin=0, pool="slow")
    build.place("q", pin=3, pool="slow")
    with pytest.raises(GraphError, match="clash: buffers are pinned onto each other"):
        solve(build.build())


def test_least_peak_is_of_all_pools_together() -> None:
    for graph in some_graphs(2, 60, POOLED):
        result = solve(graph, objective=Objective.PEAK, limits=Limits(seconds=20))
        assert (result.peak, result.status) == (brute.least_peak(graph), Status.OPTIMAL)


def test_capacity_is_of_all_slabs_together() -> None:
    for graph in some_graphs(3, 20, POOLED):
        joint = brute.least_joint(graph)
        assert joint is not None
        fits = solve(graph, capacity=joint[0])
        assert (fits.stop_reason, fits.slab) == (StopReason.DECIDED, joint[0])
        if joint[0]:
            assert solve(graph, capacity=joint[0] - 1).status is Status.INFEASIBLE


def test_exhaustion_alone_finds_and_proves_it() -> None:
    for graph in some_graphs(4, 60, PINNED):
        joint, plans = brute.least_joint(graph), list[Plan]()
        found = enumerate_orders(
            graph, address_limit(graph), floor=0, offer=plans.append, limits=Limits()
        )
        slabs = [check_plan(graph, plan).slab for plan in plans]
        assert found.complete
        assert slabs == sorted(slabs, reverse=True)
        if joint is None:
            assert not slabs
        else:
            assert slabs[-1] == joint[0] == found.refuted + 1


def test_joint_model_says_the_same() -> None:
    seen = 0
    for graph in some_graphs(5, 25, POOLED):
        joint = brute.least_joint(graph)
        if joint is None or len(pools_of(graph)) < 2:
            continue
        seen += 1
        outcome = solve_joint(graph, limits=Limits(seconds=20))
        assert (outcome.value, outcome.bound) == (joint[0], joint[0])
    assert seen > 8


def test_every_engine_takes_pools() -> None:
    graph = rivals()
    joint = brute.least_joint(graph)
    assert joint is not None
    for engine in Engine:
        result = solve(graph, engine=engine)
        assert result.slab_bound <= joint[0] <= (result.slab or 0)
    result = solve(graph)
    assert (result.slab, result.slab_bound, result.status) == (*joint[:1] * 2, Status.OPTIMAL)
    assert result.slab_proof in (Proof.JOINT, Proof.JOINT_SEARCH)


def test_in_place_pairs_stay_in_their_pool() -> None:
    for graph in some_graphs(6, 40, POOLED | {"inplace"}):
        result = solve(graph.with_inplace(), limits=Limits(seconds=5))
        assert result.plan is not None
        assert result.slab is not None
        checked = check_plan(graph.with_inplace(), result.plan, slab=result.slab)
        assert result.slab_bound <= checked.slab
        assert checked.peak >= result.peak_bound


def test_parts_of_the_bounds() -> None:
    build = GraphBuilder()
    build.input("x", 3)
    build.op("a", reads=["x"], writes={"p": 4, "q": 2})
    build.place("p", pin=8)
    build.place("q", pool="slow", pin=1)
    graph = build.build()
    assert pools_of(graph) == ("", "slow")
    assert pool_graph(graph, "slow").arrays.size.tolist() == [0, 0, 2]
    assert (pinned_bytes(graph), address_limit(graph)) == (12 + 3, 12 + 3 + 3)
    assert solve(graph).slab == 15


def test_plan_names_each_slab_and_a_wrong_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    graph, path, out = rivals(), tmp_path / "g.json", tmp_path / "p.json"
    write_graph(graph, path)
    record, document = cli.json("solve", path, "-o", out), json.loads(out.read_text())
    assert record["slabs"] == document["slabs"]
    assert sum(record["slabs"].values()) == record["slab"] == document["slab"]
    plan, claims = read_plan_document(graph, document)
    assert claims["slabs"] == plan.slabs(graph)
    assert plan_document(graph, plan)["slabs"] == claims["slabs"]
    assert main(["check", str(path), str(out)]) == 0
    assert f"'slow' {plan.slabs(graph)['slow']}" in capsys.readouterr().out
    said = cli("solve", path)
    assert "2 pools together" in said
    assert ("summed over separate pools" in said) == (record["slab"] > record["peak_bound"])
    document["slabs"]["slow"] += 1
    out.write_text(json.dumps(document))
    assert "slab in pool 'slow'" in cli.error("check", path, out, code=1)


def test_checker_adds_the_slabs_and_keeps_pools_apart() -> None:
    graph = rivals()
    ids = graph.buffer_ids
    places = {"a1": 0, "a2": 0, "b1": 4, "b2": 1, "c1": 5, "y": 5}
    order = (0, 1, 2, 3)
    plan = Plan(order, tuple(places[buffer.name] for buffer in graph.buffers))
    assert check_plan(graph, plan).slabs == {"": 7, "slow": 6}
    assert check_plan(graph, plan, slab=13, slabs={"slow": 6}).slab == 13
    with pytest.raises(PlanError, match="pool 'slow'"):
        check_plan(graph, plan, slabs={"slow": 5})
    offsets = list(plan.offsets)
    offsets[ids["b2"]] = 0
    with pytest.raises(PlanError, match="overlap"):
        check_plan(graph, Plan(order, tuple(offsets)))


@pytest.mark.parametrize("seed", range(60))
def test_a_graph_in_other_pools_is_as_one_made_of_its_parts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng).with_inplace()
    pools = [f"p{rng.integers(2)}" for _ in graph.buffers]
    pools = [pools[root] for root in graph.roots]
    for group in graph.must_share:
        for b in group:
            pools[b] = pools[group[0]]
    moved = graph.in_pools(pools)
    rows = zip(graph.buffers, pools, strict=True)
    made = Graph(
        **{each.name: getattr(graph, each.name) for each in fields(graph) if each.init}
        | {
            "buffers": tuple(replace(buffer, pool=pool) for buffer, pool in rows),
            "inplace": tuple(
                x for x in graph.inplace if len({graph.buffers[b].pool for b in x[1:]}) == 1
            ),
        }
    )
    for each in fields(Graph):
        assert getattr(moved, each.name) == getattr(made, each.name)
    assert repr(moved.arrays) == repr(made.arrays)
    assert moved.op_ids == graph.op_ids


def test_a_placed_graph_takes_the_arrays_that_pools_do_not_change() -> None:
    shared = 0
    for seed in range(60):
        rng = np.random.default_rng([11, seed])
        graph = random_graph(rng, 6)
        graph = graph.with_inplace() if seed % 2 else graph
        root_pools = ["fast" if rng.random() < 0.5 else "slow" for _ in graph.buffers]
        pools = tuple(root_pools[root] for root in graph.roots)
        if any(buffer.pin is not None for buffer in graph.buffers):
            continue
        plan = Plan((), (None,) * len(graph.buffers), pools)
        arrays = graph.arrays
        placed = plan.placed(graph)
        shared += placed.arrays is arrays
        anew = replace(placed).arrays
        for name in ("size", "alloc", "own", "keep", "inplace_op", "inplace_output"):
            assert getattr(placed.arrays, name).tolist() == getattr(anew, name).tolist()
    assert shared > 20
