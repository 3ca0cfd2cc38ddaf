"""Facts about an ONNX model that need no sizes, for models that cannot be planned yet."""

from __future__ import annotations

from collections import Counter
from typing import Any

from optsched.formats.format import FileFacts, Source
from optsched.formats.onnx.dims import open_dimensions, settable
from optsched.formats.onnx.model import find_constants, operation_nodes, parse_model
from optsched.formats.onnx.suggest import as_options, suggested_sizes


def describe(source: Source) -> FileFacts:
    """Return inputs, outputs, op types and open dimensions of a model."""
    model = parse_model(source.data)
    graph = model.graph
    constants = find_constants(graph)
    found = open_dimensions(graph, constants)
    return FileFacts(
        inputs=tuple(_value(x) for x in graph.input if x.name not in constants),
        outputs=tuple(map(_value, graph.output)),
        ops=Counter(_text(node.op_type) for _, node in operation_nodes(graph)),
        open=tuple(_text(dim.name) for dim in found),
        suggestion=as_options(suggested_sizes(model, found, {})) if found else "",
        settable=settable(graph),
    )


def _value(value: Any) -> str:
    """Return a value's name and shape, such as `x [batch, 3]`."""
    if not value.type.HasField("tensor_type"):
        return f"{value.name} (not a tensor)"
    dims = value.type.tensor_type.shape.dim
    shape = (
        str(d.dim_value) if d.HasField("dim_value") else _text(d.dim_param) or "?" for d in dims
    )
    return f"{_text(value.name)} [{', '.join(shape)}]"


def _text(value: str | bytes) -> str:
    """Return a text of a model; protobuf returns the bytes of one that is damaged."""
    return value if isinstance(value, str) else value.decode(errors="backslashreplace")
