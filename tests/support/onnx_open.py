"""Open dimensions in place of some sizes of an ONNX model, with and without names.

Inputs lose sizes of some axes. What the file states of outputs and of values between ops is kept,
opened as well, or left out, as exporters do. Names stand for one size each, so that every run with
inputs of the given sizes agrees with the file.
"""

from __future__ import annotations

import random
from typing import Any

from tests.support.onnx_nodes import Case


def with_open_dimensions(case: Case, seed: int) -> tuple[Case, dict[str, int]]:
    """Return a model of fixed sizes with open dimensions, and their sizes as `--dim` takes them."""
    from onnx.shape_inference import infer_shapes

    label, model, feed = case
    draw = random.Random(seed)
    # Shapes of values between ops, before sizes are lost.
    between = [x for x in infer_shapes(model).graph.value_info if x.type.HasField("tensor_type")]
    dims: dict[str, int] = {}
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            size = dim.dim_value
            if size > 0 and draw.random() < 0.5:
                name = _open(dim, draw)
                dims[name or f"{value.name}.{axis}"] = size
    outputs = {value.name for value in model.graph.output}
    stated = [x for x in between if x.name not in outputs and draw.random() < 0.2]
    for value in (*stated, *model.graph.output):
        _change(value, draw)
    model.graph.value_info.extend(stated)
    for node in model.graph.node:
        for attribute in node.attribute:
            for value in (*attribute.g.input, *attribute.g.output):
                _change(value, draw)
    return (label, model, feed), dims


def _open(dim: Any, draw: random.Random) -> str:
    """Take the size of a dimension; return the name that it has instead, or an empty text."""
    size = dim.dim_value
    dim.ClearField("dim_value")
    kind = draw.choice(("one", "one", "other", "none", "question", "minus"))
    if kind in ("one", "other"):
        dim.dim_param = f"{kind}{size}"
        return str(dim.dim_param)
    if kind == "question":
        dim.dim_param = "?"
    elif kind == "minus":
        dim.dim_value = -1
    return ""


def _change(value: Any, draw: random.Random) -> None:
    """Keep the shape that is stated of a value, or open some of its dimensions, or all of it."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape") or draw.random() < 0.3:
        return
    if draw.random() < 0.3:
        tensor.ClearField("shape")
        return
    for dim in tensor.shape.dim:
        if dim.dim_value > 0 and draw.random() < 0.7:
            _open(dim, draw)
