from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optsched.model.arrays import IntArray, build_rows
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory, running_by_op
from optsched.model.steps import Order
from optsched.ordering import closure_bound, closure_witness
from optsched.ordering.bound import closure
from optsched.ordering.effort import EFFORT
from optsched.ordering.kernels.cut import around, build_cut, least_given
from optsched.ordering.problem import build_problem
from tests.ordering.test_blocks import block_graphs
from tests.support.clocks import ExpiringClock
from tests.support.families.copies import microbatches
from tests.support.generators import PLANNABLE, random_graph, random_order
from tests.support.ordering_oracle import Oracle


def some_graphs(count: int, seed: int, ops: int = 8, max_size: int = 16) -> list[Graph]:
    rng = np.random.default_rng(seed)
    features = PLANNABLE | {"shuffled"}
    return [
        random_graph(rng, int(rng.integers(0, ops + 1)), max_size=max_size, features=features)
        for _ in range(count)
    ]


@pytest.mark.parametrize("max_size", [3, 16, 2**50])
def test_every_op_bound_is_the_least_over_all_downsets(max_size: int) -> None:
    for graph in some_graphs(60, seed=1, max_size=max_size):
        oracle, problem = Oracle(graph), build_problem(graph.arrays)
        place = np.full(len(graph.ops), -1, np.int64)
        for v in range(len(graph.ops)):
            expected = oracle.least_during(v)
            sides = around(problem, v)
            assert least_given(problem, *sides, v, place) == expected
            assert least_given.compiled(problem, *sides, v, place) == expected


def test_bound_is_the_best_op_and_never_above_the_optimum() -> None:
    rng = np.random.default_rng(2)
    for graph in some_graphs(200, seed=3):
        oracle = Oracle(graph)
        ends = [oracle.live(0), oracle.live(oracle.full)]
        expected = max(ends + [oracle.least_during(v) for v in range(len(graph.ops))])
        orders = [random_order(rng, graph) for _ in range(3)]
        for known in ([], orders[:1], orders):
            bound = closure_bound(graph, known)
            assert bound.value == expected
            assert bound.complete
            if bound.op is not None:
                assert oracle.least_during(bound.op) == expected
        assert expected <= oracle.least_peak() <= min(peak_memory(graph, o) for o in orders)


def test_ops_of_identical_blocks_share_a_flow() -> None:
    fewer = 0
    for graph in block_graphs(60):
        plain = closure_bound(graph)
        for many in (1, 3):
            effort = replace(EFFORT, block_flows=many)
            shared = closure_bound(graph, effort=effort)
            assert (shared.value, shared.complete) == (plain.value, True)
            fewer += shared.flows < plain.flows
    assert fewer > 30
    graph = microbatches(8, 8)
    assert closure_bound(graph).flows < 64 + len(graph.ops) // 8 + 8


def test_a_good_order_saves_flows() -> None:
    graph = some_graphs(1, seed=5, ops=12)[0]
    order = random_order(np.random.default_rng(0), graph)
    assert closure_bound(graph, [order]).flows <= closure_bound(graph).flows


class Counted(list[int]):
    """A list that knows how often it was read."""

    reads = 0

    def __getitem__(self, at: Any) -> Any:
        self.reads += 1
        return super().__getitem__(at)


def test_a_buffer_of_many_users_is_looked_at_once() -> None:
    build = GraphBuilder("star")
    build.input("x", 5)
    for i in range(300):
        build.op(f"leaf{i}", reads=["x"], writes={f"b{i}": 7})
    problem = build_problem(build.build().arrays)
    users = Counted(problem.user.tolist())
    done = np.zeros(300, np.bool_)
    build_cut(problem._replace(user=users), done, np.arange(300), np.full(300, -1, np.int64))  # type: ignore[arg-type]
    assert 300 <= users.reads <= 4 * 300


def test_deadline_spares_orders_but_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = some_graphs(1, seed=5, ops=12)[0]
    orders = [random_order(np.random.default_rng(seed), graph) for seed in range(4)]
    followed = []

    def follow(graph: Graph, order: Order) -> IntArray:
        followed.append(order)
        return running_by_op(graph, order)

    monkeypatch.setattr(closure, "running_by_op", follow)
    bound = closure_bound(graph, orders, clock=ExpiringClock(0))
    assert len(followed) == 1
    assert bound.value <= closure_bound(graph, orders).value
    assert len(followed) == 5


def test_deadline_leaves_a_valid_bound() -> None:
    for graph in some_graphs(20, seed=7):
        bound = closure_bound(graph, clock=ExpiringClock(0))
        assert bound.value <= Oracle(graph).least_peak()
        assert bound.flows <= 1


def test_witness_adds_up() -> None:
    for graph in some_graphs(120, seed=11):
        oracle = Oracle(graph)
        for v in range(len(graph.ops)):
            witness = closure_witness(graph, v)
            assert witness.value == oracle.least_during(v)
            done = sum(1 << u for u in witness.done)
            assert oracle.live(done, 1 << v) == witness.value


def test_empty_graph_and_graph_without_bytes() -> None:
    assert closure_bound(Graph("empty")).value == 0
    build = GraphBuilder("nothing")
    build.op("a")
    build.op("b", control=["a"])
    assert closure_bound(build.build()).value == 0
    assert len(build_rows([]).ptr) == 1
