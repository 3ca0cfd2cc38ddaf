"""Order rules as control edges, and the count of moved ops, against enumeration."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from optsched.check.rules.near import count_moved
from optsched.errors import GraphError, UsageError
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.order_rules import OrderRules, kept_ops, moved_ops
from tests.fuzz import moves
from tests.support.brute import orders
from tests.support.generators import random_graph, random_order


def test_edges_and_rules_have_the_same_orders() -> None:
    assert moves.fuzz_rules(250, seed=17) == (250, [])


def _longest_common(order: tuple[int, ...], baseline: tuple[int, ...]) -> int:
    step = {v: at for at, v in enumerate(baseline)}
    return max(
        size
        for size in range(len(order) + 1)
        for some in combinations(order, size)
        if [step[v] for v in some] == sorted(step[v] for v in some)
    )


def test_moved_ops_are_counted_as_by_enumeration() -> None:
    rng = np.random.default_rng(18)
    for _ in range(500):
        graph = random_graph(rng, int(rng.integers(0, 7)))
        order, baseline = random_order(rng, graph), random_order(rng, graph)
        moved = len(order) - _longest_common(order, baseline)
        assert moved_ops(order, baseline) == moved
        assert count_moved([str(v) for v in order], [str(v) for v in baseline]) == moved
        kept = kept_ops(order, baseline)
        assert kept == [v for v in order if v in kept] == [v for v in baseline if v in kept]


def _diamond() -> Graph:
    build = GraphBuilder("diamond")
    build.input("x", 8)
    build.op("left", reads=["x"], writes={"a": 4})
    build.op("right", reads=["x"], writes={"b": 6})
    build.op("join", reads=["a", "b"], writes={"y": 4})
    return build.build()


def test_many_ops_are_pinned_with_few_edges() -> None:
    build = GraphBuilder("chains")
    build.input("x", 1)
    for i in range(100):
        build.op(f"a{i}", reads=[f"a{i - 1}.out" if i else "x"], writes={f"a{i}.out": 1})
        build.op(f"b{i}", reads=[f"b{i - 1}.out" if i else "x"], writes={f"b{i}.out": 1})
    graph = build.build()
    rules = OrderRules.match(graph, first=["a*"])
    assert sum(len(op.control) for op in rules.apply(graph).ops) == 1
    group = OrderRules.match(graph, groups=[["a?", "b?"]])
    assert sum(len(op.control) for op in group.apply(graph).ops) == 19


def test_a_group_keeps_the_sequence_of_the_baseline_or_the_graph() -> None:
    graph = _diamond()
    assert OrderRules.match(graph, groups=[["right", "left"]]).groups == (("left", "right"),)
    turned = OrderRules.match(graph, groups=[["*t"]], baseline=[1, 0, 2])
    assert turned.groups == (("right", "left"),)
    assert list(orders(turned.apply(graph))) == [(1, 0, 2)]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"first": ("join",)}, "op 'join' is pinned first, but needs op 'left', which is not"),
        ({"last": ("left",)}, "op 'left' is pinned last, but is needed by op 'join', which is"),
        ({"groups": (("join", "left"),)}, "no order keeps the order rules: ops form a cycle"),
        ({"first": ("none",)}, "order rules name op 'none', which is not in graph 'diamond'"),
    ],
)
def test_rules_that_nothing_keeps_are_one_line(
    rules: dict[str, tuple[str, ...]], message: str
) -> None:
    with pytest.raises((GraphError, UsageError), match=message):
        OrderRules(**rules).apply(_diamond())


def test_ops_on_streams_have_no_order_rules() -> None:
    graph = _diamond()
    ops = tuple(
        replace(op, stream=op.name[0], control=(0,) * (v == 2)) for v, op in enumerate(graph.ops)
    )
    streams = replace(graph, ops=(ops[0], replace(ops[1], stream="j"), ops[2]))
    with pytest.raises(UsageError, match="order rules"):
        OrderRules(first=("left",)).apply(streams)


def test_contradictions_are_one_line() -> None:
    with pytest.raises(UsageError, match="op 'a' is named twice"):
        OrderRules(first=("a",), last=("a",))
    with pytest.raises(UsageError, match="group of ops: op 'a' is named twice"):
        OrderRules(groups=(("a", "b", "a"),))
    with pytest.raises(UsageError, match="name op 'nothing\\*', but no op has that name"):
        OrderRules.match(_diamond(), first=["nothing*"])
