"""The in-place memory model: pairs, matchings, peaks and plans, by hand and by enumeration."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from optsched.check.plan import check_order, check_plan
from optsched.errors import PlanError
from optsched.formats.native import graph_document
from optsched.model.builder import GraphBuilder
from optsched.model.elements import OutputPolicy
from optsched.model.graph import Graph
from optsched.model.inplace import matched_bytes
from optsched.model.liveness import peak_memory, timeline
from optsched.model.memory_model import MemoryModel
from optsched.model.plan import Plan
from optsched.ordering.bound.single_ops import op_bound, peak_lower_bound
from tests.support.brute import (
    inplace_choices,
    least_peak,
    least_peak_inplace,
    orders,
    peak_inplace,
)
from tests.support.generators import PLANNABLE, random_graph, random_order


def chain() -> GraphBuilder:
    """x(8) -> a(8) -> b(6, output)."""
    build = GraphBuilder("chain")
    build.input("x", 8)
    build.op("f", reads=["x"], writes={"a": 8})
    build.op("g", reads=["a"], writes={"b": 6})
    build.output("b")
    build.inplace("f", "a", "x")
    build.inplace("g", "b", "a")
    return build


def some_graphs(count: int, seed: int, ops: int = 7, max_size: int = 9) -> list[Graph]:
    rng = np.random.default_rng(seed)
    features = PLANNABLE | {"shuffled"}
    return [
        more_candidates(
            rng,
            random_graph(rng, int(rng.integers(1, ops + 1)), max_size=max_size, features=features),
        ).with_inplace()
        for _ in range(count)
    ]


def more_candidates(rng: np.random.Generator, graph: Graph) -> Graph:
    """Let two thirds of all pairs of an output and an input be candidates."""
    pairs = [
        (v, output, source)
        for v, op in enumerate(graph.ops)
        for output in op.writes
        for source in op.reads
        if rng.random() < 0.67
    ]
    return replace(graph, inplace_candidates=(*graph.inplace_candidates, *pairs))


def test_the_flag_names_the_model_and_is_no_part_of_a_file() -> None:
    graph = chain().build()
    assert not graph.in_place
    assert len(graph.arrays.inplace_op) == 0
    taken = graph.with_inplace()
    assert len(taken.arrays.inplace_op) == 2
    assert taken.model_name == "default; in-place"
    assert taken == taken.with_inplace() == MemoryModel(inplace=True).apply(graph)
    assert graph == MemoryModel(inplace=False).apply(taken) == MemoryModel().apply(graph)
    assert taken == MemoryModel().apply(taken)
    assert taken.without_inplace() == graph
    assert graph_document(taken) == graph_document(graph)


def test_a_chain_needs_one_buffer() -> None:
    graph = chain().build()
    assert peak_memory(graph, [0, 1]) == check_order(graph, [0, 1]) == 16
    graph = graph.with_inplace()
    line = timeline(graph, [0, 1])
    assert line.before.tolist() == [8, 8]
    assert line.running.tolist() == [8, 8]
    assert line.after.tolist() == [8, 6]
    assert check_plan(graph, Plan((0, 1), (0, 0, 0))).slab == 8
    with pytest.raises(PlanError, match="overlap"):
        check_plan(graph, Plan((0, 1), (0, 0, 2)))
    with pytest.raises(PlanError, match="overlap"):
        check_plan(chain().build(), Plan((0, 1), (0, 0, 0)))


def test_an_input_with_a_later_user_is_not_overwritten() -> None:
    build = chain()
    build.op("h", reads=["x"], writes={"c": 1})
    build.output("c")
    graph = build.build().with_inplace()
    assert peak_memory(graph, [0, 1, 2]) == 16 + 6 - 6
    assert peak_memory(graph, [2, 0, 1]) == 9
    with pytest.raises(PlanError, match="overlap"):
        check_plan(graph, Plan((0, 1, 2), (0, 0, 0, 8)))
    assert check_plan(graph, Plan((2, 0, 1), (0, 0, 0, 8))).slab == 9


def test_an_input_serves_one_output() -> None:
    build = GraphBuilder("split")
    build.input("x", 8)
    build.op("f", reads=["x"], writes={"a": 4, "b": 3})
    for name in "ab":
        build.output(name)
        build.inplace("f", name, "x")
    graph = build.build().with_inplace()
    assert peak_memory(graph, [0]) == check_order(graph, [0]) == 8 + 3
    ids = graph.buffer_ids

    def offsets(**at: int) -> tuple[int, ...]:
        return tuple(at[name] for name in sorted(ids, key=lambda name: ids[name]))

    assert check_plan(graph, Plan((0,), offsets(x=0, a=0, b=8))).slab == 11
    assert check_plan(graph, Plan((0,), offsets(x=0, a=8, b=0))).slab == 12
    for wrong in (offsets(x=0, a=0, b=0), offsets(x=0, a=0, b=4)):
        with pytest.raises(PlanError, match="overlap"):
            check_plan(graph, Plan((0,), wrong))


@pytest.mark.parametrize(
    ("change", "pairs"),
    [
        ({}, 1),
        ({"out": 9}, 0),
        ({"out": 0}, 0),
        ({"keep": True}, 0),
        ({"own": True}, 0),
        ({"alignment": 4}, 0),
    ],
)
def test_what_is_admissible(change: dict[str, int], pairs: int) -> None:
    build = GraphBuilder("one")
    build.input("x", 8)
    build.op("f", reads=["x"], writes={"a": change.get("out", 8)})
    build.inplace("f", "a", "x")
    graph = build.build()
    x, a = graph.buffers[graph.buffer_ids["x"]], graph.buffers[graph.buffer_ids["a"]]
    if change.get("keep"):
        x = replace(x, output=OutputPolicy.LIVE)
    if change.get("own"):
        a = replace(a, output=OutputPolicy.OWN)
    a = replace(a, alignment=change.get("alignment", 1))
    buffers = tuple({"x": x, "a": a}[buffer.name] for buffer in graph.buffers)
    graph = replace(graph, buffers=buffers).with_inplace()
    assert len(graph.arrays.inplace_op) == pairs
    assert check_order(graph, [0]) == peak_memory(graph, [0]) == peak_inplace(graph, (0,))


def test_matching_is_the_heaviest() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        size = rng.integers(1, 6, 4)
        pairs = [(b, 10 + r) for b in range(4) for r in range(3) if rng.random() < 0.5]
        best = 0
        for count in range(1, 4):
            for some in combinations(pairs, count):
                if len({b for b, _ in some}) == len({r for _, r in some}) == count:
                    best = max(best, sum(int(size[b]) for b, _ in some))
        assert matched_bytes(pairs, size) == best


def test_peak_is_the_least_over_all_choices() -> None:
    rng = np.random.default_rng(3)
    differ = 0
    for graph in some_graphs(400, seed=1):
        order = random_order(rng, graph)
        found = peak_memory(graph, order)
        assert found == check_order(graph, order) == peak_inplace(graph, order)
        differ += found < peak_memory(graph.without_inplace(), order)
        line = timeline(graph, order)
        assert (line.running >= line.before).all()
        assert (line.running >= line.after).all()
    assert differ > 40


def test_least_peak_by_downsets_is_that_by_orders() -> None:
    for graph in some_graphs(60, seed=2, ops=5):
        assert least_peak(graph) == least_peak_inplace(graph)


def test_choices_of_the_oracle_are_matchings() -> None:
    for graph in some_graphs(40, seed=5):
        order = random_order(np.random.default_rng(1), graph)
        for choice in inplace_choices(graph, order):
            assert len({b for _, b, _ in choice}) == len({r for _, _, r in choice}) == len(choice)


def test_simple_bounds_hold_for_every_order_and_add_up() -> None:
    tight = less = 0
    for graph in some_graphs(150, seed=9, ops=6):
        some = list(orders(graph))[:60]
        bound = peak_lower_bound(graph, some[:1])
        least = least_peak(graph)
        assert bound.value <= least
        assert sum(graph.buffers[b].size for b in bound.buffers) == bound.value
        tight += bound.value == least
        less += bound.value < peak_lower_bound(graph.without_inplace(), some[:1]).value
        for v in range(len(graph.ops)):
            forced = op_bound(graph.arrays, v).value
            assert forced <= min(timeline(graph, o).running[o.index(v)] for o in some)
    assert tight > 75
    assert less > 20
