"""Small helpers on flat arrays, against what numpy has for them."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from optsched.model.arrays import GraphArrays, Rows, distinct
from optsched.model.graph import Graph
from tests.support.generators import FEATURES, random_graph, with_sharing


def test_distinct_values_are_those_of_numpy() -> None:
    random = np.random.default_rng(0)
    for count in range(40):
        values = random.integers(-5, 20, count)
        assert distinct(values).tolist() == np.unique(values).tolist()


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
