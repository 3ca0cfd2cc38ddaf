"""Programs against replay: graphs, contracted problems, segments, rounded sizes."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.check.plan import check_order
from optsched.joint.copies import identical_ops, in_order, with_copies_in_order
from optsched.joint.instance import graph_instance
from optsched.joint.order_program import instance_program, problem_program, segments
from optsched.joint.units import shrunk
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.memory_model import plannable
from optsched.ordering.problem import build_problem
from tests.support.generators import random_graph, random_order


def mixed_graph(seed: int) -> tuple[np.random.Generator, Graph]:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(1, 12)))
    return rng, plannable(graph, seed % 2 == 1, None)


@pytest.mark.parametrize("seed", range(30))
def test_loads_are_those_of_the_replay(seed: int) -> None:
    rng, graph = mixed_graph(seed)
    instance = graph_instance(graph)
    order = random_order(rng, graph)
    peak = check_order(graph, order)
    assert instance_program(instance).peak(order) * instance.unit == peak
    assert problem_program(build_problem(graph.arrays)).peak(order) == peak


@pytest.mark.parametrize("seed", range(30))
def test_segments_have_the_loads_of_their_ops(seed: int) -> None:
    rng, graph = mixed_graph(seed)
    program = problem_program(build_problem(graph.arrays))
    order = random_order(rng, graph)
    parts = segments(program)
    assert sorted(v for part in parts for v in part.ops) == sorted(order)
    peaks = []
    for part in parts:
        number = {v: i for i, v in enumerate(part.ops)}
        peaks.append(part.program.peak([number[v] for v in order if v in number]))
    assert max(peaks) == program.peak(order)


def test_an_op_that_is_related_to_all_others_ends_a_segment() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 1})
    build.op("b", writes={"y": 2})
    build.op("join", reads=["x", "y"], writes={"z": 3})
    build.op("c", reads=["z"], writes={"v": 1})
    build.op("d", reads=["z"], writes={"w": 1})
    found = segments(problem_program(build_problem(build.build().arrays)))
    assert [part.ops for part in found] == [(0, 1), (2,), (3, 4)]


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 1000])
def test_rounded_sizes_are_a_relaxation(divisor: int) -> None:
    for seed in range(20):
        rng, graph = mixed_graph(seed)
        program = problem_program(build_problem(graph.arrays))
        order = random_order(rng, graph)
        assert shrunk(program, divisor).peak(order) * divisor <= program.peak(order)


def test_identical_ops_change_places_at_no_cost() -> None:
    build = GraphBuilder()
    build.input("x", 4)
    for i in range(3):
        build.op(f"branch{i}", reads=["x"], writes={f"y{i}": 5})
    build.op("other", reads=["x"], writes={"z": 6})
    build.op("join", reads=["y0", "y1", "y2", "z"])
    program = problem_program(build_problem(build.build().arrays))
    groups = identical_ops(program)
    assert groups == [[0, 1, 2]]
    ordered = in_order([2, 3, 0, 1, 4], groups)
    assert ordered == [0, 3, 1, 2, 4]
    assert program.peak(ordered) == program.peak([2, 3, 0, 1, 4])
    assert with_copies_in_order(program, groups).relation(0, 2) == 1
