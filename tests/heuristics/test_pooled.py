"""Walks over orders for several pools: valid, ever better, the same compiled or not."""

from __future__ import annotations

import numpy as np

from heuristics.kernels.moves import run_moves
from heuristics.orderings.pooled import pooled_orders
from optsched.check.plan import check_order
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.pools import pool_graph, pools_of
from tests.support.generators import PLANNABLE, random_graph, random_order


def sum_of_peaks(graph: Graph, order: list[int]) -> int:
    return sum(peak_memory(pool_graph(graph, pool), order) for pool in pools_of(graph))


def test_orders_are_valid_and_ever_better() -> None:
    rng = np.random.default_rng(1)
    better = 0
    for _ in range(40):
        graph = random_graph(rng, 14, features=PLANNABLE | {"pools"})
        order = np.array(random_order(rng, graph), np.int64)
        sums = [sum_of_peaks(graph, order.tolist())]
        for found in pooled_orders(graph, order, work=20_000):
            check_order(graph, found.tolist())
            sums.append(sum_of_peaks(graph, found.tolist()))
        assert sums == sorted(sums, reverse=True)
        better += sums[-1] < sums[0]
    assert better > 20


def test_same_seed_same_orders_compiled_or_not() -> None:
    graph = random_graph(np.random.default_rng(2), 12, features=PLANNABLE | {"pools"})
    order = np.array(random_order(np.random.default_rng(3), graph), np.int64)
    by_python = [found.tolist() for found in pooled_orders(graph, order, work=9_000)]
    assert by_python == [found.tolist() for found in pooled_orders(graph, order, work=9_000)]
    assert run_moves.compiled is not None
    assert by_python == [found.tolist() for found in pooled_orders(graph, order, work=9_000)]


def test_small_graphs_have_nothing_to_move() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 1})
    assert list(pooled_orders(build.build(), np.array([0]))) == []
    assert list(pooled_orders(GraphBuilder().build(), np.array([], np.int64))) == []


def test_a_graph_without_a_byte_has_nothing_to_walk_for() -> None:
    """It was divided by the number of its buffers."""
    build = GraphBuilder("empty")
    build.op("first", writes={"a": 0})
    build.op("second", reads=["a"], writes={"b": 0})
    assert list(pooled_orders(build.build(), np.arange(2))) == []
