"""Small helpers on flat arrays, against what numpy has for them."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from optsched.model.arrays import GraphArrays, Rows, build_rows, distinct
from optsched.model.graph import Graph
from tests.support.generators import FEATURES, random_graph, with_sharing


def test_distinct_values_are_those_of_numpy() -> None:
    random = np.random.default_rng(0)
    for count in range(40):
        values = random.integers(-5, 20, count)
        assert distinct(values).tolist() == np.unique(values).tolist()


def test_rows_are_sorted_sets() -> None:
    random = np.random.default_rng(2)
    for count in range(60):
        rows = [random.integers(0, 9, random.integers(5)).tolist() for _ in range(count)]
        found = build_rows(rows)
        assert [found.row(i).tolist() for i in range(count)] == [sorted(set(x)) for x in rows]
        assert len(found.ptr) == count + 1


def test_arrays_are_those_that_ops_and_buffers_say() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        graph = random_graph(rng, int(rng.integers(1, 14)), features=FEATURES)
        arrays, roots = graph.arrays, graph.roots
        for v, op in enumerate(graph.ops):
            used = {*op.reads, *op.uses} | {roots[b] for b in (*op.reads, *op.uses, *op.writes)}
            other = sorted(b for b in used if graph.producers[b] != v)
            assert arrays.read.row(v).tolist() == other
            assert arrays.write.row(v).tolist() == sorted(op.writes)
        for b, buffer in enumerate(graph.buffers):
            counted = 0 if graph.buffers[roots[b]].external else buffer.size
            assert arrays.size[b] == counted
            users = [v for v in range(len(graph.ops)) if b in arrays.read.row(v)]
            assert arrays.user.row(b).tolist() == users


def test_a_graph_with_other_sizes_equals_one_that_is_made_anew() -> None:
    rng = np.random.default_rng(1)
    pairs = 0
    for number in range(400):
        graph = random_graph(rng, int(rng.integers(4, 14)), features=FEATURES)
        graph = with_sharing(rng, graph) if number % 3 else graph.with_inplace()
        buffers = tuple(
            replace(x, size=int(rng.integers(9)) * (x.alias_of is None), pin=None)
            if rng.random() < 0.5 and b not in {b for group in graph.must_share for b in group}
            else x
            for b, x in enumerate(graph.buffers)
        )
        made, anew = graph.with_sizes(buffers), replace(graph, buffers=buffers)
        assert made == anew
        assert rows(made) == rows(anew)
        assert made.arrays.inplace_pairs() == anew.arrays.inplace_pairs()
        assert made.digest == anew.digest
        pairs += made.arrays.inplace_pairs() != graph.arrays.inplace_pairs()
    assert pairs > 10


def rows(graph: Graph) -> list[list[int] | tuple[list[int], list[int]] | int]:
    """Return all data of a graph's arrays as lists."""
    found: list[list[int] | tuple[list[int], list[int]] | int] = []
    for each in fields(GraphArrays):
        value = getattr(graph.arrays, each.name)
        if isinstance(value, Rows):
            found.append((value.ptr.tolist(), value.idx.tolist()))
        else:
            found.append(value if isinstance(value, int) else value.tolist())
    return found
