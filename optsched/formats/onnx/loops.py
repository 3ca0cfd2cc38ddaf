"""Shapes of what a Loop or a Scan makes, where its state keeps its shape from run to run.

The inference of the onnx package knows nothing of a loop's state: an iteration might change its
shape. If the body, given the shapes of the first state, returns these very shapes, none does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from optsched.formats.onnx.fold import constant_node, put_first, run_graphs
from optsched.formats.onnx.model import (
    attribute_of,
    captures,
    find_constants,
    initializers,
    sizes_of,
    subgraphs,
)

_BOOL: Final = 9
_INT64: Final = 7
Solve = Callable[[Any], dict[str, Any]]
"""Returns, of a ModelProto, the values whose shapes are known, by name."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """A Loop or Scan: its node and body, and which operands and results are its state.

    `formals` are the types of the body's inputs; `trips` is the number of iterations, None if it is
    unknown; `axes` are those along which the other results are stacked.
    """

    node: Any
    body: Any
    states: Sequence[str]
    formals: Sequence[Any]
    first_result: int
    trips: int | None
    axes: Sequence[int]

    @property
    def state_results(self) -> list[str]:
        end = self.first_result + len(self.states)
        return [value.name for value in self.body.output[self.first_result : end]]

    @property
    def parts(self) -> list[str]:
        return [x.name for x in self.body.output[self.first_result + len(self.states) :]]


def settle_loops(
    model: Any, found: Mapping[str, Any], values: Mapping[str, Any], solve: Solve
) -> dict[str, Any]:
    """Return the values that become known: results of loops, and values in their bodies.

    `found` are the values of known shape in a ModelProto, `values` those of known numbers, and
    `solve` finds the shapes within a body.
    """
    new: dict[str, Any] = {}
    for loop in _loops(model, found, values):
        new.update(_settle(loop, model, found, values, solve))
    return {name: value for name, value in new.items() if name not in found}


def _loops(model: Any, found: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[_Loop]:
    """Return the loops with results of unknown shape whose operands have known shapes."""
    make = {"Loop": _read_loop, "Scan": _read_scan}
    for graph in run_graphs(model.graph):
        for node in graph.node:
            body = next(subgraphs(node), None)
            if node.op_type not in make or node.domain or body is None:
                continue
            if all(x in found for x in node.output if x):
                continue
            loop = make[node.op_type](node, body, found, values)
            if loop is not None and len(loop.formals) == len(body.input):
                yield loop


def _read_loop(
    node: Any, body: Any, found: Mapping[str, Any], values: Mapping[str, Any]
) -> _Loop | None:
    states = list(node.input[2:])
    if any(x not in found for x in states) or len(body.output) < 1 + len(states):
        return None
    # A body's first two inputs are the iteration's number and the condition.
    formals = [_scalar(_INT64), _scalar(_BOOL), *(found[x].type for x in states)]
    trips = _trip_count(node, body, values) if len(body.input) > 1 else None
    return _Loop(node, body, states, formals, 1, trips, [0] * len(body.output))


def _read_scan(
    node: Any, body: Any, found: Mapping[str, Any], values: Mapping[str, Any]
) -> _Loop | None:
    """Read a Scan of operator set 9 or later, which has no lengths of sequences."""
    count = attribute_of(node, "num_scan_inputs", "i", 0)
    first = len(node.input) - count
    if count < 1 or first < 0 or any(x not in found for x in node.input):
        return None
    states, scanned = list(node.input[:first]), [found[x].type for x in node.input[first:]]
    axes = _ints(node, "scan_input_axes", count)
    ranks = [len(kind.tensor_type.shape.dim) for kind in scanned]
    if any(not -rank <= axis < rank for axis, rank in zip(axes, ranks, strict=True)):
        return None
    trips = scanned[0].tensor_type.shape.dim[axes[0]].dim_value
    parts = [_without_axis(kind, axis) for kind, axis in zip(scanned, axes, strict=True)]
    formals = [*(found[x].type for x in states), *parts]
    stacked = _ints(node, "scan_output_axes", len(body.output) - len(states))
    return _Loop(node, body, states, formals, 0, trips, stacked)


def _settle(
    loop: _Loop, model: Any, found: Mapping[str, Any], values: Mapping[str, Any], solve: Solve
) -> dict[str, Any]:
    inside = solve(_body_model(loop, model, found, values))
    pairs = [*zip(loop.state_results, loop.states, strict=True)]
    # Some state has another shape after an iteration: nothing is known of later ones.
    if any(_shape(inside.get(x)) != _shape(found[state]) for x, state in pairs):
        return {}
    new = {name: value for name, value in inside.items() if name not in found}
    for name, state in zip(loop.node.output, loop.states, strict=False):
        new[name] = renamed(found[state], name)
    results = loop.node.output[len(loop.states) :]
    for name, part, axis in zip(results, loop.parts, loop.axes, strict=False):
        # Stacked results have a part per iteration, so the number must be known.
        if loop.trips is not None and part in inside:
            new[name] = _stacked(inside[part], name, loop.trips, axis)
    new.pop("", None)
    return new


def _body_model(
    loop: _Loop, model: Any, found: Mapping[str, Any], values: Mapping[str, Any]
) -> Any:
    """Return a body as a model: its state as the loop begins, what it captures as inputs."""
    alone = type(model)()
    alone.ir_version = model.ir_version
    alone.opset_import.extend(model.opset_import)
    alone.graph.CopyFrom(loop.body)
    for formal, kind in zip(alone.graph.input, loop.formals, strict=True):
        formal.type.CopyFrom(kind)
    captured = sorted(captures(loop.node))
    known = [name for name in captured if name in values]
    put_first(alone.graph, [constant_node(name, values[name]) for name in known])
    weights = {x.name: x for x in model.graph.initializer}
    for name in (x for x in captured if x not in values):
        if name in weights:
            alone.graph.initializer.append(weights[name])
        elif name in found:
            alone.graph.input.append(found[name])
    return alone


def _trip_count(node: Any, body: Any, values: Mapping[str, Any]) -> int | None:
    """Return how often a Loop runs, if that is known and nothing ends it earlier."""
    # The condition is passed on unchanged, or is a constant that is true.
    going, goes_on = body.input[1].name, body.output[0].name
    passed = {going} | {
        x.output[0] for x in body.node if x.op_type == "Identity" and x.input[0] == going
    }
    if node.input[1] and not _is_true(values.get(node.input[1])):
        return None
    if goes_on not in passed and not (goes_on in find_constants(body) and _stays_true(body)):
        return None
    count = values.get(node.input[0])
    return max(0, int(count.item())) if count is not None and count.size == 1 else None


def _is_true(value: Any) -> bool:
    return value is not None and value.size == 1 and bool(value.item())


def _stays_true(body: Any) -> bool:
    """Return True if the constant that a Loop's body returns as its condition is true."""
    from onnx import numpy_helper

    name = body.output[0].name
    if name in set(initializers(body)):
        tensors = [x for x in body.initializer if x.name == name]
    else:
        nodes = [x for x in body.node if x.op_type == "Constant" and name in x.output]
        tensors = [a.t for x in nodes for a in x.attribute if a.name == "value"]
    return bool(tensors) and _is_true(numpy_helper.to_array(tensors[0]))


def _ints(node: Any, name: str, count: int) -> list[int]:
    found = list(attribute_of(node, name, "ints", ()))
    return found if len(found) == count else [0] * count


def _scalar(kind: int) -> Any:
    from onnx import helper

    return helper.make_tensor_type_proto(kind, [])


def _without_axis(kind: Any, axis: int) -> Any:
    from onnx import helper

    dims = sizes_of(kind)
    del dims[axis]
    return helper.make_tensor_type_proto(kind.tensor_type.elem_type, dims)


def _shape(value: Any) -> tuple[int, list[int]] | None:
    if value is None:
        return None
    return value.type.tensor_type.elem_type, sizes_of(value.type)


def renamed(value: Any, name: str) -> Any:
    """Return a copy of a value under another name."""
    made = deepcopy(value)
    made.name = name
    return made


def _stacked(value: Any, name: str, count: int, axis: int) -> Any:
    """Return a value of `count` parts side by side along a new axis."""
    made = renamed(value, name)
    dims = sizes_of(value.type)
    dims.insert(axis if axis >= 0 else len(dims) + 1 + axis, count)
    del made.type.tensor_type.shape.dim[:]
    for dim in dims:
        made.type.tensor_type.shape.dim.add().dim_value = dim
    return made
