"""NetworkX graphs: nothing lost there and back, op graphs as users draw them."""

from __future__ import annotations

import re
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from optsched.errors import GraphError
from optsched.formats.networkx import from_networkx, to_networkx
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from tests.support.generators import FEATURES, graphs, random_graph


@settings(max_examples=60, deadline=None)
@given(graphs(features=FEATURES))
def test_bipartite_round_trip(graph: Graph) -> None:
    made = to_networkx(graph)
    assert from_networkx(made) == graph
    sides = nx.get_node_attributes(made, "bipartite")
    assert len(sides) == len(graph.ops) + len(graph.buffers)
    assert all(sides[u] != sides[v] for u, v in made.edges)


def test_survives_a_copy_and_names_can_be_given() -> None:
    graph = random_graph(np.random.default_rng(1), 20, features=FEATURES)
    made = to_networkx(graph)
    assert from_networkx(made.copy()) == graph
    assert from_networkx(made, name="other").name == "other"


def test_bipartite_graph_made_by_hand() -> None:
    source = nx.DiGraph(name="hand")
    source.add_nodes_from(["load", "add"], bipartite=0)
    source.add_nodes_from(["x", "y"], bipartite=1, size=4)
    source.nodes["y"]["output"] = "live"
    source.add_edges_from([("load", "x"), ("x", "add"), ("add", "y")])
    build = GraphBuilder("hand")
    build.op("load", writes={"x": 4})
    build.op("add", reads=["x"], writes={"y": 4})
    build.output("y")
    assert from_networkx(source) == build.build()


def op_graph() -> nx.DiGraph:
    source = nx.DiGraph(name="net")
    source.add_node("load", size=8, kind="Load")
    source.add_node("left", size=np.int64(4), workspace=2)
    source.add_node("right", size=6, output=True)
    source.add_node("join", size=4)
    source.add_node("log", size=1, output=False)
    source.add_edges_from([("load", "left"), ("load", "right"), ("right", "join")])
    source.add_edges_from([("left", "join"), ("join", "log")])
    source.add_edge("left", "right", control=True)
    return source


def test_op_graph() -> None:
    build = GraphBuilder("net")
    build.op("load", writes={"load": 8}, kind="Load")
    build.op("left", reads=["load"], writes={"left": 4})
    build.op("right", reads=["load"], writes={"right": 6}, control=["left"])
    build.op("join", reads=["right", "left"], writes={"join": 4})
    build.op("log", reads=["join"], writes={"log": 1})
    build.output("right")
    expected = build.build()
    found = from_networkx(op_graph())
    assert found.name == "net"
    assert [op.reads for op in found.ops] == [op.reads for op in expected.ops]
    assert found.predecessors == expected.predecessors
    assert found.buffers[:5] == expected.buffers
    assert [b.name for b in found.buffers[5:]] == ["left.workspace"]
    assert found.ops[1].workspace == 5


def test_unread_results_are_outputs_unless_denied() -> None:
    source = nx.DiGraph([("a", "b"), ("a", "c"), ("a", "d")])
    nx.set_node_attributes(source, 1, "size")
    source.nodes["c"]["output"] = False
    # An op that something merely follows is still one that nobody reads.
    source.edges["a", "d"]["control"] = True
    outputs = [buffer.name for buffer in from_networkx(source).buffers if buffer.output]
    assert outputs == ["b", "d"]


def test_nodes_of_any_kind_are_called_by_their_text() -> None:
    source = nx.DiGraph([(1, (2, 3))])
    nx.set_node_attributes(source, 1, "size")
    assert [op.name for op in from_networkx(source).ops] == ["1", "(2, 3)"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": None}, "node 'join' has no size; every node needs the bytes of its output"),
        ({"size": 4.0}, "node 'join': size must be an integer, got 4.0"),
        ({"size": True}, "node 'join': size must be an integer, got True"),
        ({"size": -1}, "buffer 'join': size must be at least 0, got -1"),
        ({"workspace": "2"}, "node 'join': workspace must be an integer, got '2'"),
        ({"bipartite": 2}, "bipartite must be 0 (op) or 1 (buffer)"),
    ],
)
def test_bad_nodes_are_named(change: dict[str, Any], message: str) -> None:
    source = op_graph()
    source.nodes["join"].update(change)
    with pytest.raises(GraphError, match=re.escape(message)):
        from_networkx(source)


def test_attributes_of_other_tools_are_ignored() -> None:
    source = op_graph()
    expected = from_networkx(source)
    source.graph["rankdir"] = "LR"
    nx.set_node_attributes(source, {"color": "red"}, "style")
    nx.set_edge_attributes(source, 0.5, "weight")
    assert from_networkx(source) == expected
    graph = random_graph(np.random.default_rng(3), 9, features=FEATURES)
    made = to_networkx(graph)
    nx.set_node_attributes(made, (1.0, 2.0), "pos")
    assert from_networkx(made) == graph


def test_graphs_of_another_class() -> None:
    for kind in (nx.Graph, nx.MultiDiGraph):
        with pytest.raises(GraphError, match=r"expected a networkx.DiGraph, got a (Multi|Graph)"):
            from_networkx(kind([("a", "b")]))


def test_cycles_are_named() -> None:
    source = nx.DiGraph([("a", "b"), ("b", "a")])
    nx.set_node_attributes(source, 1, "size")
    with pytest.raises(GraphError, match="ops form a cycle: 'a' -> 'b' -> 'a'"):
        from_networkx(source)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda g: g.add_edge(("op", "a"), ("op", "b")), "joins two ops or two buffers"),
        (
            lambda g: g.nodes["op", "b"].update(control=["q"]),
            "op 'b': control names unknown op 'q'",
        ),
        (lambda g: g.nodes["op", "b"].update(workspace="q"), "workspace names unknown buffer 'q'"),
        (lambda g: g.nodes["buffer", "x"].pop("size"), "buffer 'x': size is missing"),
        (lambda g: g.nodes["buffer", "x"].update(birth="q"), "'x': birth names unknown op 'q'"),
        (
            lambda g: g.nodes["buffer", "x"].update(alias_of="q"),
            "'x': alias_of names unknown buffer 'q'",
        ),
        (lambda g: g.nodes["buffer", "x"].update(input="q"), "input must be one of excluded"),
        (
            lambda g: g.graph["inplace"].append(("q", "y", "x")),
            "in-place candidate number 0: op names unknown op 'q'",
        ),
    ],
)
def test_bad_bipartite_graphs(spoil: Any, message: str) -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 4})
    build.op("b", reads=["x"], writes={"y": 4})
    made = to_networkx(build.build())
    spoil(made)
    with pytest.raises(GraphError, match=re.escape(message)):
        from_networkx(made)
