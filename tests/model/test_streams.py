"""Ops on several streams: syncs, orders and levels, and what is wrong with them in one line."""

from __future__ import annotations

import numpy as np
import pytest

from heuristics import PACKINGS
from optsched.errors import GraphError, UsageError
from optsched.model.builder import GraphBuilder
from optsched.model.elements import Buffer, Op
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory, timeline
from optsched.model.memory_model import MemoryModel
from optsched.model.packing_problem import packing_problem
from optsched.model.streams import (
    has_one_order,
    in_levels,
    in_streams,
    parallel_levels,
    with_streams,
)
from tests.model import reference_aitemplate as reference
from tests.support.brute import orders
from tests.support.brute_streams import antichain_bytes, random_stream_graph
from tests.support.generators import random_graph


def loads() -> Graph:
    """A copy stream brings two tiles while a compute stream works: the second may come early."""
    build = GraphBuilder("loads")
    build.input("x", 8)
    build.op("load", writes={"w": 16}, stream="copy")
    build.op("load2", writes={"w2": 16}, stream="copy", control=["load"])
    build.op("mul", reads=["x", "w"], writes={"y": 8}, stream="main", control=["load"])
    build.op("mul2", reads=["y", "w2"], writes={"z": 8}, stream="main", control=["load2"])
    build.output("z")
    return build.build()


def test_what_runs_side_by_side_conflicts() -> None:
    graph = loads()
    order = [0, 2, 1, 3]
    # One after another `w` and `x` are gone before `w2` comes; the copy stream does not wait.
    assert peak_memory(graph.without_streams(), order) == 32
    assert peak_memory(graph, order) == antichain_bytes(graph, order) == 48
    problem, _ = packing_problem(graph, order)
    assert problem.max_load <= 48
    waiting = graph.ops[1]
    synced = Graph(
        "synced",
        (graph.ops[0], Op(**{**_fields(waiting), "control": (0, 2)}), *graph.ops[2:]),
        graph.buffers,
    )
    assert peak_memory(synced, order) == 32


def _fields(op: Op) -> dict[str, object]:
    return {name: getattr(op, name) for name in Op.__slots__}


def test_one_stream_is_as_without() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        graph = random_stream_graph(rng, int(rng.integers(1, 8)), 1)
        order = next(orders(graph))
        assert not graph.on_streams
        running = timeline(graph, order).running
        assert peak_memory(graph, order) == running.max(initial=graph.arrays.initial)


def test_a_dependency_across_streams_wants_a_sync() -> None:
    ops = (Op("a", writes=(0,), stream="one"), Op("b", reads=(0,), stream="two"))
    with pytest.raises(GraphError, match="op 'b' \\(stream 'two'\\) needs op 'a' \\(stream 'one'"):
        Graph("lost", ops, (Buffer("x", 4),))
    synced = Graph(
        "kept", (ops[0], Op("b", reads=(0,), stream="two", control=(0,))), (Buffer("x", 4),)
    )
    assert synced.streams == ("one", "two")


def test_a_sync_may_go_a_long_way() -> None:
    # `b` runs after `a` on its stream, and `c` waits for `b`.
    ops = (
        Op("a", writes=(0,), stream="one"),
        Op("b", stream="one", control=(0,)),
        Op("c", reads=(0,), stream="two", control=(1,)),
    )
    assert Graph("long", ops, (Buffer("x", 4),)).on_streams


def test_a_sync_to_nowhere() -> None:
    with pytest.raises(GraphError, match="op 'a' has a control edge from op number 5"):
        Graph("nowhere", (Op("a", control=(5,), stream="one"),), ())
    build = GraphBuilder("nowhere")
    build.op("a", stream="one", control=["ghost"])
    with pytest.raises(GraphError, match="op 'a' has a control edge from unknown op 'ghost'"):
        build.build()


def test_orders_become_edges() -> None:
    graph = loads().without_streams()
    fixed = in_streams(graph, {"copy": [0, 1], "main": [2, 3]})
    assert fixed.ops[3].control == (1, 2)
    assert has_one_order(fixed)
    assert not has_one_order(with_streams(small(), ["s", "t", "s"]))
    with pytest.raises(
        GraphError, match="stream 'main' runs op 'mul2' before 'mul', which it needs"
    ):
        in_streams(graph, {"main": [3, 2]})
    with pytest.raises(GraphError, match="op 'load' is in stream 'copy' and 'main'"):
        in_streams(graph, {"copy": [0], "main": [0, 2]})
    with pytest.raises(GraphError, match="op 'load' is in stream 'copy' twice"):
        in_streams(graph, {"copy": [0, 1, 0]})
    with pytest.raises(UsageError, match="on several streams already"):
        in_streams(loads(), {"copy": [0]})


def small() -> Graph:
    build = GraphBuilder("small")
    build.op("a", writes={"x": 4})
    build.op("b", writes={"y": 4})
    build.op("c", writes={"z": 4})
    return build.build()


def test_streams_bring_their_syncs() -> None:
    graph = with_streams(loads().without_streams(), ["c", "c", "m", "m"])
    assert [op.control for op in graph.ops] == [(), (0,), (0,), (1,)]
    with pytest.raises(UsageError, match="expected 4 streams, one per op, got 2"):
        with_streams(graph, ["a", "b"])


def test_levels() -> None:
    graph = loads().without_streams()
    assert parallel_levels(graph, 4) == [[0], [1, 2], [3]]
    assert parallel_levels(graph, 1) == [[0], [1], [2], [3]]
    levelled = in_levels(graph)
    assert levelled.streams == ("0", "1")
    assert len(levelled.ops[3].control) == 2
    with pytest.raises(GraphError, match="level 1 has 2 ops \\('load2', 'mul'\\), more than 1"):
        in_levels(graph, [[0], [1, 2], [3]], most=1)
    with pytest.raises(GraphError, match="op 'mul2' is in no level"):
        in_levels(graph, [[0], [1, 2]])
    with pytest.raises(GraphError, match="op 'load' is in two levels, or twice in one"):
        in_levels(graph, [[0], [0, 1, 2, 3]])
    with pytest.raises(GraphError, match="op 'load2' of level 0 needs 'load' of level 0"):
        in_levels(graph, [[0, 1], [2], [3]])
    with pytest.raises(UsageError, match="on several streams already and cannot"):
        in_levels(loads())
    with pytest.raises(UsageError, match="most must be at least 1, got 0"):
        parallel_levels(graph, 0)


def test_levels_are_those_of_aitemplate() -> None:
    rng = np.random.default_rng(2)
    for _ in range(300):
        graph = random_graph(
            rng, int(rng.integers(1, 9)), max_size=200, features={"multi", "control", "workspace"}
        )
        most = int(rng.integers(1, 4))
        levels = reference.parallel_levels(graph, most)
        assert parallel_levels(graph, most) == levels
        model = MemoryModel(align=64, streams=most).apply(graph)
        records = [
            record
            for record in reference.usage_records_of_levels(graph, levels)
            if graph.roots[record[0]] == record[0]
        ]
        order = [v for level in levels for v in level]
        problem, ids = packing_problem(model, order)
        rows = np.stack([ids, problem.start, problem.end - 1], axis=1).tolist()
        spans = {b: (first, last) for b, first, last in rows}
        assert not len(problem.keep_apart)
        for b, first, last, size in records:
            assert spans[b] == (first, last), (graph, levels)
            assert size == model.buffers[b].size


def test_greedy_by_size_is_aitemplates() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        graph = random_graph(rng, int(rng.integers(1, 9)), max_size=200, features={"multi"})
        levels = reference.parallel_levels(graph, 2)
        model = MemoryModel(align=64, streams=2).apply(graph)
        problem, _ = packing_problem(model, [v for level in levels for v in level])
        blob, _ = reference.greedy_by_size(reference.usage_records_of_levels(graph, levels))
        assert problem.slab_size(PACKINGS["greedy_by_size"](problem)) == blob


def test_the_model_of_a_graph_on_streams() -> None:
    graph = loads()
    assert MemoryModel(streams=2).apply(graph) == graph
    with pytest.raises(UsageError, match="ops run on 2 streams, more than the requested 1"):
        MemoryModel(streams=1).apply(graph)
    with pytest.raises(UsageError, match="streams must be at least 1, got 0"):
        MemoryModel(streams=0)
    with pytest.raises(
        UsageError, match="ops on several streams are not supported by the in-place"
    ):
        MemoryModel(inplace=True).apply(graph)
    with pytest.raises(
        UsageError, match="not supported by a separate workspace region, which ops share in turn"
    ):
        MemoryModel(workspace_apart=True).apply(graph)
    with pytest.raises(GraphError, match="ops on several streams cannot write in place"):
        Graph("both", graph.ops, graph.buffers, inplace=((2, 3, 0),))
    with pytest.raises(GraphError, match="must-share groups are not supported on several streams"):
        Graph("both", graph.ops, graph.buffers, must_share=((0, 1),))


def test_large_sizes_do_not_overflow() -> None:
    build = GraphBuilder("large")
    build.op("a", writes={"x": 2**61}, stream="one")
    build.op("b", writes={"y": 2**61}, stream="two")
    assert peak_memory(build.build(), [0, 1]) == 2**62
