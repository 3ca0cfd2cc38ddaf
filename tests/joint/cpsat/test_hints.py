"""Any plan becomes a complete and feasible hint, with the same peak and slab."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.joint.cpsat.constraints import joint_model, order_model, packing_model
from optsched.joint.cpsat.hints import add_hint, point_of
from optsched.joint.cpsat.instance import graph_instance, packing_instance
from optsched.model.builder import GraphBuilder
from tests.joint.cpsat.common import holds, random_packing, random_plan, stacked
from tests.support.generators import FEATURES, PLANNABLE, random_graph, random_order


@pytest.mark.parametrize("seed", range(60))
def test_hint_is_complete_and_feasible(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(0, 9)), features=PLANNABLE | {"shuffled", "pools"})
    plan = random_plan(rng, graph)
    assert plan is not None
    instance = graph_instance(graph, placed=True)
    places = [plan.offsets[item.id] or 0 for item in instance.items]
    point = point_of(instance, plan.order, places)
    assert point.peak * instance.unit <= plan.peak(graph)
    assert point.slab * instance.unit <= plan.slab(graph)
    variables = joint_model(instance)
    add_hint(variables, point)
    proto = variables.model.proto
    assert sorted(proto.solution_hint.vars) == list(range(len(proto.variables)))
    assert holds(variables, point)


@pytest.mark.parametrize("seed", range(40))
def test_order_hint_is_complete_and_feasible(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 8, features=FEATURES)
    order = random_order(rng, graph)
    instance = graph_instance(graph, placed=False)
    point = point_of(instance, order)
    variables = order_model(instance)
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
    point = point_of(instance, (), offsets.tolist())
    assert point.slab * instance.unit <= problem.slab_size(offsets)
    variables = packing_model(instance)
    add_hint(variables, point)
    proto = variables.model.proto
    assert sorted(proto.solution_hint.vars) == list(range(len(proto.variables)))
    assert holds(variables, point)


def test_offsets_between_the_units_are_rounded_down() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 4, "y": 8})
    build.op("b", reads=["x", "y"])
    instance = graph_instance(build.build(), placed=True)
    assert point_of(instance, (0, 1), (9, 17)).offsets == (2, 4)
