"""Any plan becomes a complete and feasible hint, with the same peak and slab."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optsched.joint.cpsat.joint_model import JointModel
from optsched.joint.cpsat.point import ModelPoint
from optsched.joint.families import ALL_PACKING
from optsched.joint.instance import graph_instance
from optsched.model.builder import GraphBuilder
from optsched.model.plan import Plan
from tests.joint.cpsat.common import holds, random_plan
from tests.support.generators import FEATURES, PLANNABLE, random_graph


@pytest.mark.parametrize("seed", range(100))
def test_hint_is_complete_and_feasible(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = PLANNABLE | {"shuffled", "pools"} if seed % 2 else FEATURES - {"pins"}
    graph = random_graph(rng, int(rng.integers(0, 9)), features=features)
    graph = graph.with_inplace() if seed % 3 else graph
    plan = random_plan(rng, graph)
    assert plan is not None
    instance = graph_instance(graph)
    point = ModelPoint.of_plan(instance, plan)
    assert point.peak * instance.unit <= plan.peak(graph)
    assert point.slab * instance.unit <= plan.slab(graph)
    families = replace(ALL_PACKING, resting=seed % 4 == 0)
    variables = JointModel(instance, families)
    settled = variables.settled(point)
    assert settled.slab <= point.slab
    variables.add_hint(point)
    proto = variables.model.proto
    assert sorted(proto.solution_hint.vars) == list(range(len(proto.variables)))
    assert holds(variables, settled)


def test_offsets_between_the_units_are_rounded_down() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 4, "y": 8})
    build.op("b", reads=["x", "y"])
    instance = graph_instance(build.build())
    assert ModelPoint.of_plan(instance, Plan((0, 1), (9, 17))).offsets == (2, 4)
