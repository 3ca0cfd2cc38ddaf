"""Bytes of the values of an ONNX model: shape inference, given dimensions, a profile's shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from optsched.errors import FormatError, UsageError
from optsched.formats.fields import show, unknown_dimension
from optsched.formats.onnx.loops import settle_loops
from optsched.formats.onnx.model import first_line, subgraphs

HOW: Final = "give --dim NAME=N for each dimension, or --profile with a profile of ONNX Runtime"
ELEMENT_BITS: Final[dict[str, int]] = {
    **dict.fromkeys(("BOOL", "INT8", "UINT8", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2"), 8),
    **dict.fromkeys(("FLOAT8E5M2FNUZ", "FLOAT8E8M0"), 8),
    **dict.fromkeys(("INT16", "UINT16", "FLOAT16", "BFLOAT16"), 16),
    **dict.fromkeys(("INT32", "UINT32", "FLOAT"), 32),
    **dict.fromkeys(("INT64", "UINT64", "DOUBLE", "COMPLEX64"), 64),
    "COMPLEX128": 128,
    **dict.fromkeys(("INT4", "UINT4", "FLOAT4E2M1"), 4),
    **dict.fromkeys(("INT2", "UINT2"), 2),
}
"""Bits of an element by the name of its type in `TensorProto.DataType`; strings have no size."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element width in bits and shape of a tensor all of whose dimensions are known."""

    bits: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes; elements of less than 8 bits lie side by side, and the last byte is filled up."""
        return -(-self.bits * prod(self.shape) // 8)


def set_dimensions(model: Any, dims: Mapping[str, int]) -> None:
    """Put numbers in the place of dimensions that a ModelProto, changed in place, leaves open.

    They go by the dimension's name in the file, or by `INPUT.AXIS` where it has none. It raises
    `UsageError` if no dimension has one of these names, or a number is below 1.
    """
    open_dims = list(_open_dimensions(_values(model.graph)))
    known = list(dict.fromkeys(name for name, _ in open_dims))
    for name, number in dims.items():
        if name not in known:
            raise unknown_dimension(name, known)
        if number < 1:
            raise UsageError(f"dimension {show(name)} must be at least 1, got {number}")
    for name, dim in open_dims:
        if name in dims:
            dim.dim_value = dims[name]


def require_input_shapes(graph: Any, constants: set[str]) -> None:
    """Raise `FormatError`, naming input and axis, if an input has an open dimension."""
    for value in graph.input:
        if value.name in constants:
            continue
        label = f"input {show(value.name)}"
        if not value.type.HasField("tensor_type"):
            raise FormatError(f"{label} is not a tensor; the size of other types is unknown")
        if not value.type.tensor_type.HasField("shape"):
            raise FormatError(f"{label} has no shape; {HOW}")
        for name, _ in _open_dimensions([value]):
            raise FormatError(f"{label}: its dimension {show(name)} is open; {HOW}")


def infer_types(model: Any, known: Mapping[str, TensorType]) -> dict[str, TensorType]:
    """Return the types of all values of a model and of its subgraphs that can be worked out.

    Shapes that the file itself gives to values between ops, or to its outputs, may be stale: they
    are dropped from the ModelProto and inferred again. Where that leaves a value without a shape,
    because an op is unknown to the onnx package or a loop might change it, the file is believed
    after all. `known` is known better than the file does, from a profile.
    """
    from onnx import TensorProto

    numbers = TensorProto.DataType.items()
    bits = {number: ELEMENT_BITS[name] for name, number in numbers if name in ELEMENT_BITS}

    def infer(model: Any) -> dict[str, Any]:
        return _infer(model, bits)

    between = [deepcopy(value) for graph in _graphs(model.graph) for value in graph.value_info]
    results = [deepcopy(value) for graph in _graphs(model.graph) for value in graph.output]
    _drop_shapes(model.graph)
    found = infer(model)
    while settled := settle_loops(model, found, infer):
        model.graph.value_info.extend(settled.values())
        found = {**settled, **infer(model)}
    for declared in (between, results):
        given = {x.name: x for x in declared if x.name not in found and _type_of(x, bits)}
        if given:
            model.graph.value_info.extend(given.values())
            found = {**found, **given, **infer(model)}
    kinds = {name: _type_of(value, bits) for name, value in found.items()}
    return {**{name: kind for name, kind in kinds.items() if kind}, **known}


def _infer(model: Any, bits: Mapping[int, int]) -> dict[str, Any]:
    """Return the values whose types inference knows, by name."""
    from onnx.shape_inference import infer_shapes

    try:
        inferred = infer_shapes(model, check_type=False, strict_mode=False, data_prop=True)
    except Exception as error:  # whatever a hostile model raises inside of onnx
        raise FormatError(f"cannot infer shapes: {first_line(error)}") from None
    found: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for value in _values(inferred.graph):
        kind = _type_of(value, bits)
        # The two branches of an If may use one name for different values: the larger counts.
        if kind and kind.size >= sizes.get(value.name, 0):
            found[value.name], sizes[value.name] = value, kind.size
    return found


def _type_of(value: Any, bits: Mapping[int, int]) -> TensorType | None:
    """Return the type of a value; None if it is not a tensor or has an open dimension."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape") or tensor.elem_type not in bits:
        return None
    shape = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim)
    return None if min(shape, default=0) < 0 else TensorType(bits[tensor.elem_type], shape)


def _graphs(graph: Any) -> Iterator[Any]:
    """Return a graph and its subgraphs, at any depth."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _graphs(inner)


def _values(graph: Any) -> Iterator[Any]:
    for each in _graphs(graph):
        yield from (*each.value_info, *each.input, *each.output)


def _open_dimensions(values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Return name and dimension if it is not a positive number: -1, 0, '?', a name, nothing."""
    for value in values:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value > 0:
                continue
            given = dim.dim_param.strip()
            yield (given if given not in ("", "?", "-1") else f"{value.name}.{axis}"), dim


def _drop_shapes(graph: Any) -> None:
    """Forget the shapes of all values but graph inputs."""
    for each in _graphs(graph):
        del each.value_info[:]
        for value in each.output:
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
