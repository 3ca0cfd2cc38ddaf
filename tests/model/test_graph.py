"""The graph model: what it accepts, and the one line with which it refuses the rest."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optsched.errors import GraphError, UsageError
from optsched.model.builder import GraphBuilder
from optsched.model.elements import MAX_TOTAL_BYTES, Buffer, InputPolicy, Op, OutputPolicy
from optsched.model.graph import Graph
from tests.support.families.small import diamond


def chain(*sizes: int) -> GraphBuilder:
    build = GraphBuilder("chain")
    build.input("x", 8)
    before = "x"
    for i, size in enumerate(sizes):
        build.op(f"op{i}", reads=[before], writes={f"b{i}": size})
        before = f"b{i}"
    return build


def test_builder_resolves_names_to_ids() -> None:
    build = chain(4, 2)
    build.output("b1")
    graph = build.build()
    assert graph.op_ids == {"op0": 0, "op1": 1}
    assert graph.predecessors == ((), (0,))
    assert graph.producers == (None, 0, 1)
    assert graph.kept[graph.buffer_ids["b1"]]
    assert graph.buffers[0].input is InputPolicy.FREED


def test_names_may_be_used_before_they_are_defined() -> None:
    build = GraphBuilder()
    build.op("late", reads=["y"], writes={"z": 1}, control=["early"])
    build.op("early", writes={"y": 1})
    assert build.build().predecessors == ((1,), ())


def test_empty_graph_is_valid() -> None:
    graph = Graph("empty")
    assert graph.arrays.op_count == graph.arrays.buffer_count == 0


def test_views_resolve_to_their_root_and_order_after_what_they_show() -> None:
    build = chain(4)
    build.op("reshape", reads=["b0"], views={"v": "b0"})
    build.op("again", reads=["v"], views={"w": "v"})
    build.op("use", reads=["w"], writes={"y": 1})
    graph = build.build()
    ids = graph.buffer_ids
    assert graph.roots[ids["w"]] == graph.roots[ids["v"]] == ids["b0"]
    assert graph.predecessors[graph.op_ids["use"]] == (graph.op_ids["again"],)
    # The root is used by every op that touches one of its views.
    assert graph.arrays.user.row(ids["b0"]).tolist() == [1, 2, 3]


def test_workspace_is_a_buffer_nobody_reads() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 1}, workspace=7)
    graph = build.build()
    workspace = graph.ops[0].workspace
    assert workspace is not None
    assert graph.buffers[workspace] == Buffer("a.workspace", 7)
    assert graph.arrays.own.tolist() == [8]


def test_birth_orders_the_parent_first_and_counts_there() -> None:
    build = GraphBuilder()
    build.op("parent", writes={"p": 0})
    build.op("child", reads=["p"], writes={"c": 5})
    build.place("c", birth="parent")
    build.output("c")
    arrays = build.build().arrays
    assert arrays.alloc.tolist() == [5, 0]
    assert arrays.producer.tolist() == [0, 1]


def test_external_buffers_have_no_bytes_in_the_arrays() -> None:
    build = GraphBuilder()
    build.input("weights", 100, "excluded")
    build.op("a", reads=["weights"], writes={"y": 4})
    build.output("y", policy="own")
    graph = build.build()
    assert graph.arrays.size.tolist() == [0, 0]
    assert graph.buffers[1].output is OutputPolicy.OWN


REFUSED = {
    "cycle": (
        lambda b: (
            b.op("p", reads=["q0"], writes={"p0": 1}),
            b.op("q", reads=["p0"], writes={"q0": 1}),
        ),
        r"ops form a cycle: 'p' -> 'q' -> 'p'|ops form a cycle: 'q' -> 'p' -> 'q'",
    ),
    "unknown buffer": (lambda b: b.op("p", reads=["ghost"]), "op 'p' reads unknown buffer 'ghost'"),
    "unknown control": (
        lambda b: b.op("p", control=["ghost"]),
        "op 'p' has a control edge from unknown op 'ghost'",
    ),
    "control from itself": (lambda b: b.op("p", control=["p"]), "op 'p' has a control edge from i"),
    "duplicate op": (lambda b: (b.op("p"), b.op("p")), r"op 'p' is defined twice"),
    "duplicate buffer": (
        lambda b: (b.op("p", writes={"y": 1}), b.op("q", writes={"y": 2})),
        "buffer 'y' is defined twice",
    ),
    "self read": (
        lambda b: b.op("p", reads=["y"], writes={"y": 1}),
        "op 'p' reads buffer 'y', its own output",
    ),
    "negative size": (lambda b: b.op("p", writes={"y": -3}), "buffer 'y': size .* got -3"),
    "float size": (lambda b: b.op("p", writes={"y": 2.5}), "buffer 'y': size .* got 2.5"),
    "bool size": (lambda b: b.op("p", writes={"y": True}), "buffer 'y': size .* got True"),
    "unknown size": (lambda b: b.op("p", writes={"y": None}), "buffer 'y': size .* got None"),
    "huge size": (
        lambda b: b.op("p", writes={"y": MAX_TOTAL_BYTES, "z": 1}),
        r"buffer 'z': sizes up to this buffer add up to 4611686018427387905",
    ),
    "view of itself": (lambda b: b.op("p", views={"v": "v"}), "views form a cycle: 'v' -> 'v'"),
    "view cycle": (
        lambda b: (b.op("p", views={"v": "w"}), b.op("q", views={"w": "v"})),
        "views form a cycle: 'v' -> 'w' -> 'v'",
    ),
    "view of nothing": (lambda b: b.op("p", views={"v": "ghost"}), "'v' is a view of unknown"),
    "empty name": (lambda b: b.op(""), "op number 0 has no name"),
    "policy": (
        lambda b: b.input("i", 1, "sometimes"),
        "buffer 'i': unknown policy 'sometimes', expected one of",
    ),
    "output of nothing": (lambda b: b.output("ghost"), "names unknown buffer 'ghost'"),
    "written input": (
        lambda b: (b.input("i", 1), b.op("p", writes={"i": 1})),
        "buffer 'i' is defined twice",
    ),
    "pin off alignment": (
        lambda b: (b.op("p", writes={"y": 1}), b.place("y", alignment=64, pin=32)),
        "buffer 'y': pin 32 is not a multiple of alignment 64",
    ),
    "birth nowhere": (
        lambda b: (b.op("p", writes={"y": 1}), b.place("y", birth="ghost")),
        "buffer 'y' is born at unknown op 'ghost'",
    ),
    "mutated twice": (
        lambda b: (
            b.op("o", writes={"y": 1}),
            b.op("p", reads=["y"], mutates={"y1": "y"}),
            b.op("q", reads=["y"], mutates={"y2": "y"}),
        ),
        "buffers 'y1' and 'y2' both mutate 'y'",
    ),
    "in-place into another's input": (
        lambda b: (
            b.input("i", 1),
            b.op("p", writes={"y": 1}),
            b.inplace("p", "y", "i"),
        ),
        "op 'p': in-place input 'i' is not a buffer that it reads",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_graphs_are_refused_in_one_line(case: str) -> None:
    make, message = REFUSED[case]
    build = GraphBuilder()
    with pytest.raises(GraphError, match=message) as caught:
        make(build)
        build.build()
    assert "\n" not in str(caught.value)


def test_two_producers_are_named() -> None:
    with pytest.raises(GraphError, match="buffer 'y' has two producers: 'p' and 'q'"):
        Graph("g", (Op("p", writes=(0,)), Op("q", writes=(0,))), (Buffer("y", 1),))


def test_buffer_from_nowhere_is_refused() -> None:
    with pytest.raises(
        GraphError, match="buffer 'y' is not written by any op and is not a graph input"
    ):
        Graph("g", (), (Buffer("y", 1),))


def test_long_chains_do_not_recurse() -> None:
    build = GraphBuilder()
    build.op("op0", writes={"b0": 1})
    for i in range(1, 20_000):
        build.op(f"op{i}", reads=[f"b{i - 1}"], views={f"b{i}": f"b{i - 1}"})
    assert set(build.build().roots) == {0}


def test_integers_of_numpy_are_sizes_like_any_other() -> None:
    build = GraphBuilder("numbers")
    build.input("x", np.int64(8))
    build.op("a", reads=["x"], writes={"y": np.uint8(4)}, workspace=np.int32(2))
    build.place("y", alignment=np.int16(2), pin=np.int64(16))
    build.output("y")
    plain = GraphBuilder("numbers")
    plain.input("x", 8)
    plain.op("a", reads=["x"], writes={"y": 4}, workspace=2)
    plain.place("y", alignment=2, pin=16)
    plain.output("y")
    assert build.build() == plain.build()
    assert all(type(buffer.size) is int for buffer in build.build().buffers)
    for wrong in (np.float64(4), np.bool_(1), True, "4"):
        with pytest.raises(GraphError, match="size must be an integer"):
            Graph("g", (), (Buffer("x", wrong, input=InputPolicy.FREED),))  # type: ignore[arg-type]


def test_ops_and_buffers_are_found_by_name() -> None:
    graph = diamond()
    assert [graph.op(op.name) for op in graph.ops] == [*graph.ops]
    assert [graph.buffer(buffer.name) for buffer in graph.buffers] == [*graph.buffers]


@pytest.mark.parametrize(
    ("find", "name", "text"),
    [
        ("op", "jion", "op 'jion' is not in graph 'diamond': did you mean 'join'?"),
        ("op", "qqqq", "op 'qqqq' is not in graph 'diamond', which has 3 ops"),
        ("buffer", "left.wrkspace", "did you mean 'right.workspace'?"),
        ("buffer", 3, "name of buffer wants a str, got int"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(find: str, name: Any, text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(text)):
        getattr(diamond(), find)(name)


def test_costs_are_checked_like_those_of_a_new_graph() -> None:
    graph = Graph("pair", (Op("make", writes=(0,)), Op("use", reads=(0,))), (Buffer("a", 8),))
    priced = graph.with_costs([3, 0], "ps")
    ops = (replace(graph.ops[0], cost=3), graph.ops[1])
    assert priced == replace(graph, ops=ops, cost_unit="ps")
    assert priced.predecessors == graph.predecessors
    for wrong in (-1, 1.5, True, "3"):
        with pytest.raises(GraphError, match="op 'use': cost"):
            graph.with_costs([3, wrong], "ps")  # type: ignore[list-item]
