"""Which ops run before which: uses, control edges, births, overwritten contents; and cycles."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from optsched.errors import GraphError
from optsched.model.builder import GraphBuilder
from optsched.model.dependencies import find_cycle, followers, reached, topological_order


def chain() -> GraphBuilder:
    build = GraphBuilder("chain")
    build.input("x", 8)
    build.op("op0", reads=["x"], writes={"b0": 4})
    return build


def test_an_op_waits_for_what_it_uses_for_births_and_for_control_edges() -> None:
    build = chain()
    build.op("parent", writes={"p": 1})
    build.op("child", reads=["b0"], writes={"c": 5}, control=["last"])
    build.place("c", birth="parent")
    build.op("last", reads=["x"], writes={"y": 1})
    graph = build.build()
    assert graph.predecessors == ((), (), (0, 1, 3), ())


def test_an_op_that_waits_for_itself_is_refused() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 1}, control=["a"])
    with pytest.raises(GraphError, match="op 'a' has a control edge from itself"):
        build.build()


def test_mutation_waits_for_readers_of_the_old_contents() -> None:
    build = chain()
    build.op("update", reads=["b0"], mutates={"b0'": "b0"})
    build.op("reader", reads=["b0"], writes={"y": 1})
    build.op("new", reads=["b0'"], writes={"z": 1})
    graph = build.build()
    ids = graph.op_ids
    assert ids["reader"] in graph.predecessors[ids["update"]]
    assert graph.predecessors[ids["new"]] == (ids["update"],)


@pytest.mark.parametrize(
    ("reads", "makes", "message"),
    [
        (["b0", "b1"], {"writes": {"y": 1}}, r"cycle: '(one|two)' -> '(one|two)' -> "),
        (["b0"], {"mutates": {"b2": "b0"}}, "'b1' and 'b2' both mutate 'b0'"),
    ],
)
def test_contents_are_overwritten_once_after_all_readers_of_the_old(
    reads: list[str], makes: Any, message: str
) -> None:
    build = chain()
    build.op("one", reads=["b0"], mutates={"b1": "b0"})
    build.op("two", reads=reads, **makes)
    with pytest.raises(GraphError, match=message):
        build.build()


def test_a_cycle_is_found_where_there_is_one() -> None:
    rng = np.random.default_rng(0)
    met = 0
    for _ in range(300):
        n = int(rng.integers(1, 9))
        before = [np.flatnonzero(rng.random(n) < 0.15).tolist() for _ in range(n)]
        cycle = find_cycle(before)
        try:
            TopologicalSorter(dict(enumerate(before))).prepare()
            assert cycle == []
        except CycleError:
            met += 1
            assert cycle[0] == cycle[-1]
            assert len(set(cycle)) == len(cycle) - 1
            assert all(u in before[v] for u, v in pairwise(cycle))
    assert 50 < met < 250


def test_an_order_is_that_of_graphlib_and_reach_that_of_paths() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        n = int(rng.integers(1, 12))
        # Numbers say nothing about the order.
        place = rng.permutation(n)
        rows = [
            [u for u in range(n) if place[u] < place[v] and rng.random() < 0.3] for v in range(n)
        ]
        assert topological_order(rows) == [*TopologicalSorter(dict(enumerate(rows))).static_order()]
        paths = np.zeros((n, n), bool)
        for v in topological_order(rows):
            paths[v] = np.any([paths[u] for u in rows[v]], axis=0) if rows[v] else False
            paths[v, rows[v]] = True
        starts = [v for v in range(n) if rng.random() < 0.3]
        up = paths[starts].any(axis=0) if starts else np.zeros(n, bool)
        down = paths.T[starts].any(axis=0) if starts else np.zeros(n, bool)
        assert [*reached(rows, starts)] == up.tolist()
        assert [*reached(followers(rows), starts)] == down.tolist()
