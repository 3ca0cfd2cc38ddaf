"""Simple bounds: true by hand, never above any order's peak, the same for all given orders."""

from __future__ import annotations

import itertools

import numpy as np

from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory, timeline
from optsched.ordering.bound.single_ops import op_bound, peak_lower_bound
from tests.support.clocks import ExpiringClock
from tests.support.generators import random_graph, random_order


def test_bypassed_buffer_is_forced() -> None:
    build = GraphBuilder()
    build.input("x", 1)
    build.op("a", reads=["x"], writes={"skip": 10, "in": 1})
    build.op("b", reads=["in"], writes={"mid": 5})
    build.op("c", reads=["skip", "mid"], writes={"y": 2})
    build.output("y")
    graph = build.build()
    bound = peak_lower_bound(graph, [[0, 1, 2]])
    assert (bound.value, bound.op) == (17, 2)
    assert [graph.buffers[b].name for b in bound.buffers] == ["skip", "mid", "y"]


def test_inputs_and_outputs_bound_graphs_without_ops() -> None:
    build = GraphBuilder()
    build.input("kept", 7, "kept")
    build.input("unused", 9)
    assert peak_lower_bound(build.build(), []).value == 7


def all_orders(graph: Graph) -> list[tuple[int, ...]]:
    valid = []
    for order in itertools.permutations(range(len(graph.ops))):
        step = {v: t for t, v in enumerate(order)}
        if all(step[u] < step[v] for v, us in enumerate(graph.predecessors) for u in us):
            valid.append(order)
    return valid


def test_never_above_the_least_peak_and_witness_adds_up() -> None:
    rng = np.random.default_rng(11)
    tight = 0
    for _ in range(150):
        graph = random_graph(rng, ops=int(rng.integers(1, 6)))
        orders = all_orders(graph)
        least = min(peak_memory(graph, order) for order in orders)
        bound = peak_lower_bound(graph, [orders[0]])
        assert bound.value <= least
        assert sum(graph.buffers[b].size for b in bound.buffers) == bound.value
        assert bound.value == peak_lower_bound(graph, orders).value
        tight += bound.value == least
        for v in range(len(graph.ops)):
            forced = op_bound(graph.arrays, v).value
            assert forced <= min(timeline(graph, o).running[o.index(v)] for o in orders)
    assert tight > 75


def test_lazy_evaluation_misses_nothing() -> None:
    rng = np.random.default_rng(5)
    for _ in range(40):
        graph = random_graph(rng, ops=30)
        every = max(op_bound(graph.arrays, v).value for v in range(len(graph.ops)))
        kept = int(graph.arrays.size[graph.arrays.keep].sum())
        bound = peak_lower_bound(graph, [random_order(rng, graph)])
        assert bound.value == max(every, kept, graph.arrays.initial)


def test_clock_leaves_the_best_bound_so_far() -> None:
    graph = random_graph(np.random.default_rng(6), ops=60)
    orders = [random_order(np.random.default_rng(7), graph)]
    found = []
    for looks in range(60):
        found.append(peak_lower_bound(graph, orders, clock=ExpiringClock(looks)).value)
    assert found == sorted(found)
    assert found[0] < found[-1] == peak_lower_bound(graph, orders).value
