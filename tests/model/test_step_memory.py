"""Allocations, frees and last uses by op: added up by hand, and as Inductor itself has them."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.model.builder import GraphBuilder
from optsched.model.liveness import (
    OpMemory,
    buf_to_snode_last_use,
    peak_memory,
    snodes_allocfree,
    timeline,
)
from tests.support.families.small import diamond
from tests.support.generators import FEATURES, random_graph, random_order


def test_a_diamond_by_hand() -> None:
    graph = diamond()
    ids = graph.op_ids
    found = snodes_allocfree(graph, [ids["right"], ids["left"], ids["join"]])
    allocated = sum(row.allocated for row in found.values())
    assert allocated == int(graph.arrays.size.sum())
    last = buf_to_snode_last_use(graph, [ids["right"], ids["left"], ids["join"]])
    assert last[graph.buffer_ids["x"]] == ids["left"]
    assert last[graph.buffer_ids["a"]] == ids["join"]
    assert graph.buffer_ids["y"] not in last


def test_live_bytes_are_what_was_allocated_and_not_freed() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        graph = random_graph(rng, int(rng.integers(1, 10)), features=FEATURES - {"pins"})
        order = random_order(rng, graph)
        live = timeline(graph, order)
        at = 0
        for t, (v, row) in enumerate(snodes_allocfree(graph, order).items()):
            assert v == order[t]
            at += row.allocated
            assert at == live.running[t]
            at -= row.freed
            assert at == live.after[t]


def test_a_freeable_input_that_nobody_uses_is_released_at_entry() -> None:
    """It is there before step 0 and at no step: Inductor adds and takes its bytes in one sum."""
    build = GraphBuilder("unused")
    build.input("x", 100)
    build.input("z", 3)
    build.op("a", reads=["z"], writes={"y": 5})
    build.output("y")
    graph = build.build()
    assert snodes_allocfree(graph, [0]) == {0: OpMemory(8, 3)}
    assert buf_to_snode_last_use(graph, [0]) == {graph.buffer_ids["z"]: 0}
    assert peak_memory(graph, [0]) == 8


def test_the_same_as_inductors_own_functions() -> None:
    pytest.importorskip("torch", reason="runs Inductor's estimator")
    from torch._inductor import memory

    from tests.support.inductor_nodes import as_inductor_graph

    rng = np.random.default_rng(2)
    features = {"inputs", "control", "multi", "uses", "zeros", "workspace"}
    for _ in range(300):
        graph = random_graph(rng, int(rng.integers(1, 12)), features=features)
        order = random_order(rng, graph)
        theirs = as_inductor_graph(graph)
        nodes = [theirs.nodes[v] for v in order]
        peak, _, allocfree, last = memory.estimate_peak_memory_allocfree(
            nodes, theirs.freeable, theirs.outputs
        )
        ours = snodes_allocfree(graph, order)
        for v, node in enumerate(theirs.nodes):
            row = allocfree[node]
            assert ours[v] == OpMemory(row.size_alloc, row.size_free)
        wanted = {buffer.name: node.name for buffer, node in last.items()}
        assert {
            graph.buffers[b].name: graph.ops[v].name
            for b, v in buf_to_snode_last_use(graph, order).items()
        } == wanted
        assert peak == peak_memory(graph, order)
