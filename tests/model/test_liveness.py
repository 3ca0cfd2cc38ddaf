"""Live ranges, timelines, peaks: by hand, and against the checker's own replay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optsched.check.plan import check_order
from optsched.errors import PlanError
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.liveness import (
    ESTIMATORS,
    inductor_2025_09_peak,
    live_ranges,
    peak_memory,
    timeline,
)
from optsched.model.steps import steps_of
from tests.support.families.small import diamond
from tests.support.generators import graphs, random_graph, random_order


def test_diamond_by_hand() -> None:
    graph = diamond()
    ranges = dict(zip(graph.buffer_ids, live_ranges(graph, [0, 1, 2]).tolist(), strict=True))
    assert ranges == {"x": [0, 2], "a": [0, 3], "b": [1, 3], "right.workspace": [1, 2], "y": [2, 3]}
    line = timeline(graph, [0, 1, 2])
    assert line.before.tolist() == [8, 12, 10]
    assert line.running.tolist() == [12, 20, 14]
    assert line.after.tolist() == [12, 10, 4]
    assert peak_memory(graph, [0, 1, 2]) == 20
    assert peak_memory(graph, [1, 0, 2]) == 18


def test_historical_estimator_releases_outputs_before_they_exist() -> None:
    assert inductor_2025_09_peak(diamond(), [0, 1, 2]) == 20 - 4
    assert set(ESTIMATORS) == {"live", "inductor-2025-09"}


def test_input_that_nobody_uses_is_never_live() -> None:
    build = GraphBuilder()
    build.input("unused", 100)
    build.input("kept", 10, "kept")
    build.op("a", writes={"y": 1})
    graph = build.build()
    assert live_ranges(graph, [0]).tolist() == [[0, 0], [0, 1], [0, 1]]
    assert peak_memory(graph, [0]) == 11


def test_graph_without_ops_still_holds_its_kept_inputs() -> None:
    build = GraphBuilder()
    build.input("kept", 10, "kept")
    graph = build.build()
    assert live_ranges(graph, []).tolist() == [[0, 1]]
    assert peak_memory(graph, []) == check_order(graph, []) == 10


def test_child_buffer_is_live_from_its_parent_on() -> None:
    build = GraphBuilder()
    build.op("parent", writes={"p": 0})
    build.op("other", writes={"o": 3})
    build.op("child", reads=["p"], writes={"c": 5})
    build.place("c", birth="parent")
    graph = build.build()
    assert live_ranges(graph, [0, 1, 2]).tolist() == [[0, 3], [1, 2], [0, 3]]
    assert timeline(graph, [0, 1, 2]).running.tolist() == [5, 8, 5]


@given(graphs(max_ops=9), st.integers(0, 2**31))
def test_peak_agrees_with_the_independent_replay(graph: Graph, seed: int) -> None:
    order = random_order(np.random.default_rng(seed), graph)
    assert peak_memory(graph, order) == check_order(graph, order)
    line = timeline(graph, order)
    if graph.ops:
        assert line.before[0] == graph.arrays.initial
        assert (line.before[1:] == line.after[:-1]).all()
        assert (line.running >= line.before).all()
        assert (line.running >= line.after).all()
        assert line.after[-1] == graph.arrays.size[graph.arrays.keep].sum()


def test_peak_agrees_with_the_replay_on_many_larger_graphs() -> None:
    rng = np.random.default_rng(7)
    for _ in range(200):
        graph = random_graph(rng, ops=int(rng.integers(1, 60)))
        order = random_order(rng, graph)
        assert peak_memory(graph, order) == check_order(graph, order)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 1], "order misses op 'join'"),
        ([[0, 1, 2]], "a flat list of ops, got 2 dimensions"),
        ([0, 1, 3], "names op number 3"),
        ([0, 0, 2], "names op 'left' 2 times"),
        ([0, 2, 2], "misses op 'right'"),
        ([0, 2, 1], r"runs op 'join' \(step 1\) before 'right' \(step 2\)"),
    ],
)
def test_bad_orders_are_refused(order: list[int], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        steps_of(diamond(), order)


@given(graphs(max_ops=8), st.integers(2, 1000), st.integers(0, 2**31))
def test_scaling_sizes_scales_the_peak(graph: Graph, factor: int, seed: int) -> None:
    from dataclasses import replace

    order = random_order(np.random.default_rng(seed), graph)
    buffers = tuple(replace(b, size=b.size * factor) for b in graph.buffers)
    scaled = replace(graph, buffers=buffers)
    assert peak_memory(scaled, order) == factor * peak_memory(graph, order)
