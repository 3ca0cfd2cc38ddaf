"""Graphs as a store keeps them: in the native format, with ids as names.

The key of a graph is :attr:`Graph.digest`, which depends on everything but names. Ops and buffers
keep their ids, so plans, orders and certificates are stored as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from optsched.errors import FormatError
from optsched.formats.fields import Record
from optsched.formats.native import graph_document, read_graph_document
from optsched.model.graph import Graph

MAX_VALUES = 2**22
"""Values that the JSON of a graph may have: each takes some 70 bytes of memory."""


def graph_key(graph: Graph) -> str:
    """Return the same text for graphs that differ only in names."""
    return graph.digest.hex()


def kept_document(graph: Graph) -> dict[str, Any]:
    """Return a graph as a store keeps it, which :func:`read_kept` restores."""
    # The native format has candidates alone; bounds depend on which of them ops may make use of.
    return {**graph_document(graph, ids_as_names=True), "admitted": graph.inplace}


def read_kept(document: object) -> Graph:
    """Return the graph of a document of :func:`kept_document`.

    Raise `FormatError` if it is not such a document. Raise `GraphError` if the graph breaks a rule.
    """
    record = Record(document, "graph")
    given = {key: value for key, value in record.value.items() if key != "admitted"}
    rows = record.items("admitted")
    # Not isinstance: True would pass as an integer.
    if not all(isinstance(row, list) and list(map(type, row)) == [int] * 3 for row in rows):
        raise FormatError("graph: admitted must be rows of three ids")
    return replace(read_graph_document(given), inplace=tuple(map(tuple, rows)))
