"""Shapes of what a Loop makes, where its state has the same shape before and after an iteration.

The inference of the onnx package knows nothing of a loop's state: an iteration might change its
shape. If the body, given the shapes of the first state, returns these very shapes, none does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final

from optsched.formats.onnx.model import captures, find_constants, subgraphs

_INT64: Final = 7
Infer = Callable[[Any], dict[str, Any]]
"""Returns, of a ModelProto, the values whose shapes are known, by name."""


def settle_loops(model: Any, found: Mapping[str, Any], infer: Infer) -> dict[str, Any]:
    """Return the values that loops make, and that their bodies hold, as far as they are new.

    `found` are the values of known shape in a ModelProto, `infer` the onnx package's inference.
    """
    new: dict[str, Any] = {}
    for node in model.graph.node:
        if node.op_type == "Loop" and not node.domain and any(x not in found for x in node.output):
            new.update(_settle(node, model, found, infer))
    return {name: value for name, value in new.items() if name not in found}


def _settle(node: Any, model: Any, found: Mapping[str, Any], infer: Infer) -> dict[str, Any]:
    body = next(subgraphs(node), None)
    states = list(node.input[2:])
    if body is None or len(body.input) != 2 + len(states) or len(body.output) <= len(states):
        return {}
    if any(state not in found for state in states):
        return {}
    inside = infer(_body_model(node, body, model, found))
    results = [value.name for value in body.output[1 : 1 + len(states)]]
    if any(_shape(inside.get(x)) != _shape(found[s]) for x, s in zip(results, states, strict=True)):
        return {}
    new = {name: value for name, value in inside.items() if name not in found}
    for name, state in zip(node.output, states, strict=False):
        new[name] = renamed(found[state], name)
    trips = _trip_count(node, body, model.graph)
    slices = [inside.get(value.name) for value in body.output[1 + len(states) :]]
    for name, part in zip(node.output[len(states) :], slices, strict=False):
        if trips is not None and part is not None:
            new[name] = _stacked(part, name, trips)
    new.pop("", None)
    return new


def _body_model(node: Any, body: Any, model: Any, found: Mapping[str, Any]) -> Any:
    """Return a body as a model: its state as the loop begins, what it captures as inputs."""
    alone = type(model)()
    alone.CopyFrom(model)
    alone.graph.CopyFrom(body)
    for formal, state in zip(alone.graph.input[2:], node.input[2:], strict=True):
        formal.type.CopyFrom(found[state].type)
    captured = set(captures(node))
    alone.graph.input.extend(found[name] for name in sorted(captured) if name in found)
    alone.graph.initializer.extend(x for x in model.graph.initializer if x.name in captured)
    return alone


def _trip_count(node: Any, body: Any, graph: Any) -> int | None:
    """Return how often a loop runs, if the file says so and nothing ends it earlier."""
    going, goes_on = body.input[1].name, body.output[0].name
    passed = {going} | {
        x.output[0] for x in body.node if x.op_type == "Identity" and x.input[0] == going
    }
    if node.input[1] or goes_on not in passed | find_constants(body):
        return None
    counts = [x for x in graph.initializer if x.name == node.input[0]]
    return _integer(counts[0]) if counts else None


def _integer(tensor: Any) -> int | None:
    """Return the one integer of at least 0 that a tensor holds; None if it holds something else."""
    if tensor.data_type != _INT64:
        return None
    if len(tensor.raw_data) == 8:
        number = int.from_bytes(tensor.raw_data, "little", signed=True)
    elif len(tensor.int64_data) == 1:
        number = tensor.int64_data[0]
    else:
        return None
    return number if number >= 0 else None


def _shape(value: Any) -> tuple[int, list[int]] | None:
    if value is None:
        return None
    tensor = value.type.tensor_type
    return tensor.elem_type, [dim.dim_value for dim in tensor.shape.dim]


def renamed(value: Any, name: str) -> Any:
    """Return a copy of a value under another name."""
    made = deepcopy(value)
    made.name = name
    return made


def _stacked(value: Any, name: str, count: int) -> Any:
    made = renamed(value, name)
    dims = [count, *(dim.dim_value for dim in value.type.tensor_type.shape.dim)]
    del made.type.tensor_type.shape.dim[:]
    for dim in dims:
        made.type.tensor_type.shape.dim.add().dim_value = dim
    return made
