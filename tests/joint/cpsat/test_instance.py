from __future__ import annotations

import numpy as np
import pytest

from optsched.errors import UsageError
from optsched.joint.cpsat.instance import (
    INPUT,
    graph_instance,
    live_spans,
    packing_instance,
)
from optsched.model.builder import GraphBuilder
from optsched.model.liveness import live_ranges
from optsched.model.packing_problem import Gap, PackingProblem
from tests.joint.cpsat.common import diamond
from tests.support.generators import FEATURES, random_graph, random_order


def test_sizes_are_divided_by_their_common_divisor() -> None:
    instance = graph_instance(diamond(), placed=False)
    assert instance.unit == 2
    assert [item.size for item in instance.items] == [1, 2, 3, 4, 1]
    assert instance.items[0].birth == INPUT
    assert (instance.up(5), instance.down(5)) == (3, 2)


@pytest.mark.parametrize(
    ("alignment", "unit", "scaled"), [(2, 4, 1), (8, 4, 2), (6, 2, 3), (4, 4, 1), (1, 4, 1)]
)
def test_unit_keeps_alignments_exact(alignment: int, unit: int, scaled: int) -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 8, "y": 12})
    build.place("x", alignment=alignment)
    instance = graph_instance(build.build(), placed=True)
    assert (instance.unit, instance.items[0].alignment) == (unit, scaled)


def test_pins_and_windows_are_whole_units() -> None:
    columns = np.array([[0, 4, 8, 1, 6], [0, 4, 8, 1, -1]], np.int64).T
    problem = PackingProblem(("a", "b"), *columns, gaps=((), (Gap(1, 2, (4, 8)),)))
    instance = packing_instance(problem)
    assert instance.unit == 2
    assert instance.items[0].pin == 3
    assert [(p.low, p.high) for p in instance.items[1].parts] == [(0, 4), (2, 4), (0, 4)]


def test_windows_count_ancestors_and_descendants() -> None:
    assert graph_instance(diamond(), placed=False).step_windows == ((0, 0), (1, 2), (1, 2), (3, 3))


@pytest.mark.parametrize("seed", range(30))
def test_spans_are_live_ranges(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 7, features=FEATURES)
    order = random_order(rng, graph)
    instance, ranges = graph_instance(graph, placed=True), live_ranges(graph, order)
    found = {
        item.id: span
        for item, span in zip(instance.items, live_spans(instance, order), strict=True)
    }
    assert found == {
        b: (int(start), int(end))
        for b, (start, end) in enumerate(ranges)
        if graph.arrays.size[b] and end > start and graph.roots[b] == b
    }


def test_sizes_beyond_the_exact_range_are_refused() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 2**61 + 1, "y": 2**60 + 1})
    with pytest.raises(UsageError, match="outside the range"):
        graph_instance(build.build(), placed=False)


def test_large_sizes_with_a_common_divisor_are_fine() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 2**60, "y": 2**61})
    assert graph_instance(build.build(), placed=False).unit == 2**60
