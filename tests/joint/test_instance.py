from __future__ import annotations

import numpy as np
import pytest

from optsched.errors import UsageError
from optsched.joint.instance import INPUT, graph_instance, live_spans
from optsched.model.builder import GraphBuilder
from optsched.model.liveness import live_ranges
from tests.joint.cpsat.common import diamond
from tests.support.generators import FEATURES, random_graph, random_order


def test_sizes_are_divided_by_their_common_divisor() -> None:
    instance = graph_instance(diamond())
    assert instance.unit == 2
    assert [item.size for item in instance.items] == [1, 2, 3, 4, 1]
    assert instance.items[0].birth == INPUT
    assert instance.up(5) == 3


@pytest.mark.parametrize(
    ("alignment", "unit", "scaled"), [(2, 4, 1), (8, 4, 2), (6, 2, 3), (4, 4, 1), (1, 4, 1)]
)
def test_unit_keeps_alignments_exact(alignment: int, unit: int, scaled: int) -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 8, "y": 12})
    build.place("x", alignment=alignment)
    instance = graph_instance(build.build())
    assert (instance.unit, instance.items[0].alignment) == (unit, scaled)


def test_pins_are_whole_units() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 8, "y": 8})
    build.place("x", pin=6)
    instance = graph_instance(build.build())
    assert (instance.unit, instance.items[0].pin, instance.items[1].size) == (2, 3, 4)


def test_windows_count_ancestors_and_descendants() -> None:
    assert graph_instance(diamond()).step_windows == ((0, 0), (1, 2), (1, 2), (3, 3))


@pytest.mark.parametrize("seed", range(30))
def test_spans_are_live_ranges(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 7, features=FEATURES)
    order = random_order(rng, graph)
    instance, ranges = graph_instance(graph), live_ranges(graph, order)
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
        graph_instance(build.build())


def test_large_sizes_with_a_common_divisor_are_fine() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 2**60, "y": 2**61})
    assert graph_instance(build.build()).unit == 2**60
