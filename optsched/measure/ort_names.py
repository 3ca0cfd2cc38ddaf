"""Names in models that ONNX Runtime runs and writes.

The bodies of a model that it writes may hide a name outside, and it refuses such models: where it
changes half floats to floats, each graph gets its own `InsertedPrecisionFreeCast_x`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optsched.formats.onnx.model import initializers, node_names, subgraphs


def name_nodes(graph: Any, prefix: str = "") -> None:
    """Give each node of a GraphProto and its bodies a name, by which profiles mention it."""
    for node, name in zip(graph.node, node_names(graph), strict=True):
        node.name = name if node.name else f"{prefix}{name}"
        for number, body in enumerate(subgraphs(node)):
            name_nodes(body, f"{node.name}.{number}.")


def show_hidden(graph: Any, outer: frozenset[str] = frozenset()) -> None:
    """Rename values of the bodies in a GraphProto that have the name of a value outside."""
    own = _own_names(graph)
    clash = {name: f"{name}.{len(outer)}" for name in own & outer}
    if clash:
        _rename(graph, clash)
    known = outer | _own_names(graph)
    for node in graph.node:
        for body in subgraphs(node):
            show_hidden(body, known)


def _own_names(graph: Any) -> frozenset[str]:
    made = (name for node in graph.node for name in node.output if name)
    return frozenset((*initializers(graph), *(x.name for x in graph.input), *made))


def _rename(graph: Any, names: Mapping[str, str]) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for row in (node.input, node.output):
            row[:] = [names.get(name, name) for name in row]
        for body in subgraphs(node):
            hidden = _own_names(body)
            _rename(body, {old: new for old, new in names.items() if old not in hidden})
