"""Fixed dimensions in an ONNX model: ONNX Runtime writes in place only where it knows all sizes."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from optsched.formats.onnx.contrib import stand_in
from optsched.formats.onnx.dims import set_dimensions
from optsched.formats.onnx.model import drop_weights
from optsched.formats.onnx.sizes import infer_types, set_shapes


def fix_dimensions(model: Any, dims: Mapping[str, int]) -> None:
    """Give the inputs of a ModelProto, changed in place, the sizes of its open dimensions.

    Shapes that the model states for outputs and between ops may be stale, so they become those that
    follow from the inputs, where these are known. A model with branches keeps its open dimensions:
    ONNX Runtime infers shapes in all branches, and refuses a model with a branch for other sizes.
    """
    if dims and can_fix(model.graph):
        set_dimensions(model, dims)
        state_shapes(model)


def state_shapes(model: Any) -> None:
    """Correct the shapes that a ModelProto states for outputs and between ops, in place."""
    # A copy, as inference needs a model without weights and contributed ops.
    light = deepcopy(model)
    drop_weights(light.graph)
    stand_in(light.graph)
    types = infer_types(light, {}).by_name
    set_shapes((*model.graph.output, *model.graph.value_info), types)


def can_fix(graph: Any) -> bool:
    """Return True if a GraphProto can be given sizes in place of its open dimensions."""
    return all(node.op_type != "If" for node in graph.node)
