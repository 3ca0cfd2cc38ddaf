"""Shapes that an ONNX model states: ONNX Runtime writes in place only where it knows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optsched.formats.onnx.contrib import stand_in
from optsched.formats.onnx.dims import set_dimensions
from optsched.formats.onnx.model import light_copy
from optsched.formats.onnx.sizes import TensorType, infer_types, set_shapes


def fix_dimensions(model: Any, dims: Mapping[str, int]) -> None:
    """Give the inputs of a ModelProto, changed in place, the sizes of its open dimensions.

    Shapes that the model states for outputs and between ops may be stale, so they become those that
    follow from the inputs, where these are known. A model with branches keeps its open dimensions:
    ONNX Runtime infers shapes in all branches, and refuses a model with a branch for other sizes.
    """
    fixed = bool(dims) and can_fix(model.graph)
    if fixed:
        set_dimensions(model, dims)
    state_shapes(model, stale=not fixed)


def state_shapes(model: Any, *, stale: bool = False) -> None:
    """Correct the shapes that a ModelProto states for outputs and between ops, in place.

    With `stale`, only those that contradict the inputs: ONNX Runtime takes such a shape for
    unknown, and does not write in place there.
    """
    # A copy, as inference needs a model without weights and contributed ops.
    light = light_copy(model)
    stand_in(light.graph)
    types = infer_types(light, {}).by_name
    stated = (*model.graph.output, *model.graph.value_info)
    set_shapes((x for x in stated if not stale or _is_stale(x, types.get(x.name))), types)


def _is_stale(value: Any, kind: TensorType | None) -> bool:
    if kind is None or not value.type.tensor_type.HasField("shape"):
        return False
    dims = value.type.tensor_type.shape.dim
    pairs = zip(dims, kind.shape, strict=False)
    return len(dims) != len(kind.shape) or any(d.dim_value not in (0, n) for d, n in pairs)


def can_fix(graph: Any) -> bool:
    """Return True if a GraphProto can be given sizes in place of its open dimensions."""
    return all(node.op_type != "If" for node in graph.node)
