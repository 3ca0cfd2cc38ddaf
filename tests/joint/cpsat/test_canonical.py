"""Any plan becomes a point that obeys every cut, with no larger peak or slab: cuts are sound."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from optsched.joint.cpsat.canonical import canonical, settle
from optsched.joint.cpsat.cuts import Cuts, early_frees, late_allocs, twin_items, twin_ops
from optsched.joint.cpsat.instance import joint_instance, order_instance, packing_instance
from optsched.joint.cpsat.model import joint_model, order_model, packing_model
from optsched.joint.cpsat.solver import add_hint
from optsched.model.builder import GraphBuilder
from tests.joint.cpsat.common import holds, random_packing, random_plan, stacked
from tests.support.generators import FEATURES, PLANNABLE, random_graph, random_order

ALL = Cuts()


@pytest.mark.parametrize("seed", range(60))
def test_hint_is_complete_and_feasible(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(0, 9)), features=PLANNABLE | {"shuffled", "pools"})
    plan = random_plan(rng, graph)
    assert plan is not None
    instance = joint_instance(graph)
    places = [plan.offsets[item.id] or 0 for item in instance.items]
    point = canonical(instance, plan.order, places, ALL)
    assert point.peak * instance.unit <= plan.peak(graph)
    assert point.slab * instance.unit <= plan.slab(graph)
    variables = joint_model(instance, ALL)
    add_hint(variables, point)
    proto = variables.model.proto
    assert sorted(proto.solution_hint.vars) == list(range(len(proto.variables)))
    assert holds(variables, point)


@pytest.mark.parametrize("seed", range(40))
def test_order_hint_is_complete_and_feasible(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 8, features=FEATURES)
    order = random_order(rng, graph)
    instance = order_instance(graph)
    point = canonical(instance, order, None, ALL)
    variables = order_model(instance, ALL)
    add_hint(variables, point)
    proto = variables.model.proto
    assert sorted(proto.solution_hint.vars) == list(range(len(proto.variables)))
    assert holds(variables, point)


@pytest.mark.parametrize("seed", range(40))
def test_packing_hint_is_complete_and_feasible(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_packing(rng, 8, gaps=seed % 2 == 0)
    offsets = stacked(problem)
    instance = packing_instance(problem)
    point = canonical(instance, (), offsets.tolist(), ALL)
    assert point.slab * instance.unit <= problem.slab_size(offsets)
    variables = packing_model(instance, ALL)
    add_hint(variables, point)
    proto = variables.model.proto
    assert sorted(proto.solution_hint.vars) == list(range(len(proto.variables)))
    assert holds(variables, point)


def test_settling_lowers_onto_whole_units() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 4, "y": 8})
    build.op("b", reads=["x", "y"])
    instance = joint_instance(build.build())
    assert settle(instance, (0, 1), (9, 17)) == (0, 1)
    assert settle(instance, (0, 1), (8, 0)) == (2, 0)


def test_settling_passes_by_a_pin() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 2, "y": 2, "z": 2})
    build.op("b", reads=["x", "y", "z"])
    build.place("y", pin=4)
    instance = joint_instance(build.build())
    assert settle(instance, (0, 1), (0, 4, 9)) == (0, 2, 3)
    assert settle(instance, (0, 1), (2, 4, 0)) == (1, 2, 0)


def test_early_frees_move_forward() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 4})
    build.op("b", writes={"y": 4})
    build.op("free", reads=["x"])
    instance = order_instance(build.build())
    assert early_frees(instance) == (2,)
    assert canonical(instance, (0, 1, 2), None, ALL).order == (0, 2, 1)


def test_late_allocs_move_backward() -> None:
    build = GraphBuilder()
    build.op("constant", writes={"c": 4})
    build.op("a", writes={"x": 2})
    build.op("b", reads=["x"], writes={"y": 4})
    build.op("use", reads=["c", "y"])
    instance = order_instance(build.build())
    assert late_allocs(instance) == (0, 1)
    order = canonical(instance, (0, 1, 2, 3), None, ALL).order
    assert order == (1, 2, 0, 3)


def test_an_op_with_workspace_does_not_wait() -> None:
    build = GraphBuilder()
    build.op("constant", writes={"c": 4}, workspace=1)
    build.op("use", reads=["c"])
    assert late_allocs(order_instance(build.build())) == ()


def test_the_last_reader_of_an_input_does_not_wait() -> None:
    build = GraphBuilder()
    build.input("x", 4)
    build.op("a", reads=["x"], writes={"y": 1})
    build.op("use", reads=["y"])
    assert late_allocs(order_instance(build.build())) == ()


def test_twins_are_told_from_strangers() -> None:
    build = GraphBuilder()
    build.input("x", 4)
    for i, size in enumerate((3, 3, 5)):
        build.op(f"a{i}", reads=["x"], writes={f"y{i}": size, f"z{i}": 2, f"w{i}": 2})
    build.op("join", reads=[f"{b}{i}" for b in "yzw" for i in range(3)])
    instance = joint_instance(build.build())
    assert twin_ops(instance) == [(0, 1)]
    assert [len(twins) for twins in twin_items(instance)] == [2, 2, 2]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2)])
def test_twins_take_their_items_along(order: tuple[int, ...]) -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 4})
    build.op("b", writes={"y": 4})
    build.op("c", reads=["x", "y"])
    instance = joint_instance(build.build())
    point = canonical(instance, order, (0, 4), ALL)
    assert point.order == (0, 1, 2)
    assert point.offsets == ((0, 1) if order[0] == 0 else (1, 0))


@pytest.mark.parametrize("seed", range(30))
def test_a_canonical_order_stays(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 9)
    instance = order_instance(graph)
    once = canonical(instance, random_order(rng, graph), None, ALL)
    assert canonical(instance, once.order, None, ALL).order == once.order
    for twins in twin_ops(instance):
        assert all(once.step[u] < once.step[v] for u, v in pairwise(twins))
