"""Streams in files: as written, as lists of ops, as levels, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from optsched.errors import FormatError, GraphError, UsageError
from optsched.formats.inductor_write import write_inductor
from optsched.formats.native import graph_document, read_graph_document
from optsched.formats.networkx import from_networkx, to_networkx
from optsched.model.streams import in_levels, in_streams
from optsched.store import graph_key
from tests.model.test_streams import loads
from tests.support.schemas import schema


def document(**more: Any) -> dict[str, Any]:
    return {**graph_document(loads().without_streams()), **more}


def test_nothing_is_lost() -> None:
    graph = loads()
    written = graph_document(graph)
    assert [op["stream"] for op in written["ops"]] == ["copy", "copy", "main", "main"]
    assert read_graph_document(written) == graph
    assert from_networkx(to_networkx(graph)) == graph


def test_edges_of_an_op_graph_may_be_syncs() -> None:
    networkx = pytest.importorskip("networkx")
    source = networkx.DiGraph()
    source.add_node("load", size=4, stream="copy")
    source.add_node("use", size=4, stream="main")
    source.add_edge("load", "use")
    with pytest.raises(GraphError, match=r"op 'use' .stream 'main'. needs op 'load'"):
        from_networkx(source)
    source.edges["load", "use"]["sync"] = True
    assert from_networkx(source).streams == ("copy", "main")


def test_orders_of_streams() -> None:
    rows = {"copy": ["load", "load2"], "main": ["mul", "mul2"]}
    found = read_graph_document(document(streams=rows))
    assert found == in_streams(loads().without_streams(), {"copy": [0, 1], "main": [2, 3]})


def test_levels() -> None:
    rows = {"ops": [["load"], ["mul", "load2"], ["mul2"]], "at_most": 2}
    found = read_graph_document(document(levels=rows))
    assert found == in_levels(loads().without_streams(), [[0], [2, 1], [3]], most=2)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"streams": {"copy": ["ghost"]}}, "streams: copy names unknown op 'ghost'"),
        ({"streams": {"main": ["mul2", "mul"]}}, "stream 'main' runs op 'mul2' before"),
        ({"streams": {"a": ["load"], "b": ["load"]}}, "op 'load' is in stream 'a' and 'b'"),
        ({"streams": {"a": ["load", "load2"]}}, "op 'mul' .stream ''. needs op 'load'"),
        ({"streams": ["load"]}, "streams must be an object"),
        (
            {"levels": {"ops": [["load"], ["mul", "load2"], ["mul2"]], "at_most": 1}},
            "level 1 has 2 ops .'mul', 'load2'., more than 1",
        ),
        ({"levels": {"ops": [["ghost"]]}}, "level 0: ops names unknown op 'ghost'"),
        ({"levels": {"ops": [["load"]], "most": 1}}, "levels: unknown key 'most'"),
        ({"levels": {}}, "levels: ops is missing"),
    ],
)
def test_what_is_wrong_is_said(more: dict[str, Any], said: str) -> None:
    given = document(**more)
    if "needs op" in said:
        for op in given["ops"]:
            op.pop("control", None)
    with pytest.raises((FormatError, GraphError), match=said):
        read_graph_document(given)


def test_the_schema_knows_streams() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    rows = {"ops": [["load"], ["mul", "load2"], ["mul2"]], "at_most": 2}
    for given in (
        graph_document(loads()),
        document(levels=rows),
        document(streams={"main": ["mul", "mul2"]}),
    ):
        jsonschema.validate(given, schema("graph-1"))


def test_other_formats_refuse_streams() -> None:
    with pytest.raises(
        UsageError, match="ops on several streams are not supported by a simulator file"
    ):
        write_inductor(loads())


def test_the_stream_is_part_of_a_graphs_key() -> None:
    graph = loads()
    assert graph_key(graph) != graph_key(graph.without_streams())
