"""Small ONNX models for the tests, in few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx import TensorProto, helper

from optsched.formats.format import Source
from optsched.formats.onnx.read import read_onnx
from optsched.model.graph import Graph

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Shape = Sequence[Any] | None


def value(name: str, shape: Shape = (4, 4), kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def node(kind: str, reads: str, writes: str, name: str = "", **attributes: Any) -> Any:
    """A node; inputs and outputs parted by commas, so that "a,,b" leaves one out."""
    split = [text.split(",") if text else [] for text in (reads, writes)]
    return helper.make_node(kind, *split, name=name, **attributes)


def weight(name: str, *dims: int, kind: int = FLOAT, values: Sequence[float] = ()) -> Any:
    count = 1
    for dim in dims:
        count *= dim
    return helper.make_tensor(name, kind, dims, list(values) or [0] * count)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any] = (value("x"),),
    outputs: Sequence[Any] = (value("y"),),
    weights: Sequence[Any] = (),
    *,
    opset: int = 17,
    **more: Any,
) -> Any:
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights, **more)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=[*opsets, helper.make_opsetid("own", 1)])
    made.ir_version = 8
    return made


def body(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    return helper.make_graph(nodes, "body", inputs, outputs)


def read(made: Any, dims: Mapping[str, int] | None = None, profile: Path | None = None) -> Graph:
    return read_onnx(Source(made.SerializeToString(), "net"), dims=dims, profile=profile)


def sizes(graph: Graph) -> dict[str, int]:
    return {buffer.name: buffer.size for buffer in graph.buffers}


def candidates(graph: Graph) -> list[tuple[str, str, str]]:
    return [
        (graph.ops[v].name, graph.buffers[b].name, graph.buffers[source].name)
        for v, b, source in graph.inplace_candidates
    ]
