"""Bytes of the values of an ONNX model: shape inference, given dimensions, a profile's shapes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from optsched.errors import FormatError
from optsched.formats.onnx.fold import Folder, run_graphs
from optsched.formats.onnx.learned import learned_results
from optsched.formats.onnx.loops import renamed, settle_loops
from optsched.formats.onnx.model import first_line, graphs_in, sizes_of, subgraphs, values_in
from optsched.formats.onnx.sequences import sequence_bytes

PROFILE: Final = "give --profile with a profile that ONNX Runtime wrote of a run"
HOW: Final = f"give --dim NAME=N for each dimension, or {PROFILE.removeprefix('give ')}"
ELEMENT_BITS: Final[dict[str, int]] = {
    **dict.fromkeys(("BOOL", "INT8", "UINT8", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2"), 8),
    **dict.fromkeys(("FLOAT8E5M2FNUZ", "FLOAT8E8M0"), 8),
    **dict.fromkeys(("INT16", "UINT16", "FLOAT16", "BFLOAT16"), 16),
    **dict.fromkeys(("INT32", "UINT32", "FLOAT"), 32),
    **dict.fromkeys(("INT64", "UINT64", "DOUBLE", "COMPLEX64"), 64),
    "COMPLEX128": 128,
    **dict.fromkeys(("INT4", "UINT4", "FLOAT4E2M1"), 4),
    **dict.fromkeys(("INT2", "UINT2"), 2),
    "STRING": 256,
}
"""Bits of an element by the name of its type in `TensorProto.DataType`. A string has those of
`std::string`; longer texts lie outside of the tensor."""

Shape = tuple[int | str, ...]
"""Sizes, and names of open dimensions, which ONNX Runtime compares like sizes."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element width in bits and shape of a tensor all of whose dimensions are known."""

    bits: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes; elements of less than 8 bits lie side by side, and the last byte is filled up."""
        return -(-self.bits * prod(self.shape) // 8)


@dataclass(frozen=True, slots=True)
class Types:
    """Types of the values of a model by name, and the branches that its Ifs always run.

    `branches` has the name of the branch's attribute by the name of the first result of an If,
    `loaded` has the shapes that ONNX Runtime knows when it loads the model. Values with a dimension
    without size and name are not among them: mostly results of loops, of an If whose branches
    differ in size, and what is made of these. `values` has the names of values whose numbers are
    known, and `halves` those of half floats.
    """

    by_name: Mapping[str, TensorType]
    branches: Mapping[str, str]
    loaded: Mapping[str, Shape]
    values: Collection[str] = ()
    halves: Collection[str] = ()

    @property
    def sized(self) -> set[str]:
        """Values all of whose dimensions ONNX Runtime knows as numbers when it loads the model."""
        return {name for name, shape in self.loaded.items() if not any(map(_is_name, shape))}


def infer_types(model: Any, known: Mapping[str, TensorType], loaded: Any = None) -> Types:
    """Return the types of all values of a model and of its subgraphs that can be worked out.

    Shapes that the file itself gives to values between ops, or to its outputs, may be stale: they
    are dropped from the ModelProto and inferred again. Where that leaves a value without a shape,
    because an op is unknown to the onnx package or a loop might change it, the file is believed
    after all. `known` is known better than the file does, from a profile. `loaded` is the model
    that is run if that has open dimensions.
    """
    from onnx import TensorProto

    numbers = TensorProto.DataType.items()
    bits = {number: ELEMENT_BITS[name] for name, number in numbers if name in ELEMENT_BITS}

    def infer(model: Any) -> dict[str, Any]:
        return _infer(model, bits)

    # Kept before they are dropped: the file is asked again where inference fails.
    between = [deepcopy(value) for graph in graphs_in(model.graph) for value in graph.value_info]
    results = [deepcopy(value) for graph in graphs_in(model.graph) for value in graph.output]
    open_shapes = None if loaded is None else _open_shapes(loaded, bits)
    _drop_shapes(model.graph)
    shapes = _Shapes(model, infer)
    shapes.settle(loops=False)
    before = shapes.with_declared([x for x in (*between, *results) if _type_of(x, bits)])
    shapes.settle()
    profiled = [x for x in _inferred(model, follow=False) if x.name in known] if known else []
    set_shapes(profiled, known)
    # Shapes between ops before those of outputs, which are stale more often.
    for declared in (profiled, between, results):
        given = {x.name: x for x in declared if x.name not in shapes.found and _type_of(x, bits)}
        if given:
            _declare(model.graph, given)
            shapes.found = {**shapes.found, **given, **infer(model)}
            shapes.settle()
    kinds = {name: _type_of(value, bits) for name, value in shapes.found.items()}
    types = {name: kind for name, kind in kinds.items() if kind}
    types = {**_weight_types(model.graph, bits), **types}
    bytes_ = sequence_bytes(model.graph, {name: kind.size for name, kind in types.items()})
    types = {**{name: TensorType(8, (size,)) for name, size in bytes_.items()}, **types}
    # The profile is the last word, then inference, then guesses from branches.
    larger = _larger_results(model, types)
    every = {**larger, **types, **known}
    half = TensorProto.FLOAT16
    halves = {x for x, v in shapes.found.items() if v.type.tensor_type.elem_type == half}
    made = {x for node in model.graph.node for x in node.output}
    late = (larger.keys() - types.keys()) | (made - before)
    closed = {name: kind.shape for name, kind in every.items() if name not in late}
    at_load = closed if open_shapes is None else open_shapes
    return Types(every, shapes.branches, at_load, shapes.folder.values.keys(), halves)


class _Shapes:
    """Shapes of a model's values, completed until nothing new is found.

    `found` are the values of known shape by name; `branches` the attribute with the branch that an
    If always runs, by the name of its first result.
    """

    def __init__(self, model: Any, infer: Callable[[Any], dict[str, Any]]) -> None:
        self.model, self.infer, self.folder = model, infer, Folder(model)
        self.found, self.branches = infer(model), dict[str, str]()

    def settle(self, *, loops: bool = True) -> None:
        """Fold constants, choose branches and settle loops, and infer shapes again."""
        # Until nothing new is found: a folded value makes shapes known, and these make values
        # known.
        while True:
            folded = self.folder.fold(
                {name: tuple(sizes_of(x.type)) for name, x in self.found.items()}
            )
            settled = self._branch_results()
            if loops:
                settled |= settle_loops(self.model, self.found, self.folder.values, self._inside)
            settled |= learned_results(self.model.graph, self.found)
            if not (folded or settled):
                return
            _declare(self.model.graph, settled)
            self.found = {**self.found, **settled, **self.infer(self.model)}

    def with_declared(self, declared: Iterable[Any]) -> set[str]:
        """Return the values that are known without loops, with shapes that the file gives."""
        given = {x.name: x for x in declared if x.name not in self.found}
        if not given:
            return {*self.found}
        # A copy, because the file may be wrong where the loops tell more.
        shapes = _Shapes(deepcopy(self.model), self.infer)
        _declare(shapes.model.graph, given)
        shapes.found = {**shapes.found, **given, **self.infer(shapes.model)}
        shapes.settle(loops=False)
        return {*shapes.found}

    def _inside(self, body: Any) -> dict[str, Any]:
        """Return the values of known shape of a loop's body, and note its branches."""
        shapes = _Shapes(body, self.infer)
        shapes.settle()
        self.branches.update(shapes.branches)
        return shapes.found

    def _branch_results(self) -> dict[str, Any]:
        """Return the new results of each If whose branch is known."""
        new: dict[str, Any] = {}
        for graph in run_graphs(self.model.graph):
            for node in graph.node:
                chosen = self.folder.branch_of(node) if node.op_type == "If" else ""
                if not chosen or not node.output:
                    continue
                self.branches[node.output[0]] = chosen
                for name, value in zip(node.output, branch_of(node, chosen).output, strict=False):
                    if name not in self.found and value.name in self.found:
                        new[name] = renamed(self.found[value.name], name)
        return new


def _larger_results(model: Any, types: Mapping[str, TensorType]) -> dict[str, TensorType]:
    """Return the larger result of each If with branches of different known sizes."""
    found: dict[str, TensorType] = {}
    for graph in run_graphs(model.graph):
        for node in graph.node:
            if node.op_type != "If":
                continue
            for position, name in enumerate(node.output):
                # Both branches must be known, or the smaller one might be the one that runs.
                made = [
                    types.get(b.output[position].name) if position < len(b.output) else None
                    for b in subgraphs(node)
                ]
                kinds = [kind for kind in made if kind is not None]
                if name not in types and len(kinds) == len(made) > 0:
                    found[name] = max(kinds, key=lambda kind: kind.size)
    return found


def branch_of(node: Any, name: str) -> Any:
    """Return the branch of an If with this attribute's name."""
    return next(x.g for x in node.attribute if x.name == name)


def _infer(model: Any, bits: Mapping[int, int], *, follow: bool = True) -> dict[str, Any]:
    """Return the values whose types inference knows, by name; `follow` numbers of shapes."""
    found: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for value in _inferred(model, follow=follow):
        kind = _type_of(value, bits)
        # The two branches of an If may use one name for different values: the larger counts.
        if kind and kind.size >= sizes.get(value.name, 0):
            found[value.name], sizes[value.name] = value, kind.size
    return found


def _inferred(model: Any, *, follow: bool) -> Iterator[Any]:
    from onnx.shape_inference import infer_shapes

    try:
        # Without type checks: quantized models break them, and shapes are all that is wanted.
        made = infer_shapes(model, check_type=False, strict_mode=False, data_prop=follow)
    except Exception as error:  # whatever a hostile model raises inside of onnx
        raise FormatError(f"cannot infer shapes: {first_line(error)}") from None
    return values_in(made.graph)


def _open_shapes(model: Any, bits: Mapping[int, int]) -> dict[str, Shape]:
    """Return the shapes that ONNX Runtime knows of a model with open dimensions; it is changed.

    Unlike the onnx package, the runtime follows no part of a shape through other ops, and makes up
    no names.
    """
    _repeat_inputs(model.graph)
    shapes = _Shapes(model, lambda model: _infer(model, bits, follow=False))
    shapes.settle(loops=False)
    given = {
        dim.dim_param
        for value in values_in(model.graph)
        for dim in value.type.tensor_type.shape.dim
    }
    found: dict[str, Shape | None] = {}
    for value in _inferred(model, follow=False):
        shape = _shape_at_load(value, given - {""})
        # A name with two meanings, such as one in both branches of an If, has two shapes.
        found[value.name] = shape if found.get(value.name, shape) == shape else None
    for name, kind in _weight_types(model.graph, bits).items():
        found.setdefault(name, kind.shape)
    return {name: shape for name, shape in found.items() if shape is not None}


def _shape_at_load(value: Any, names: Collection[str]) -> Shape | None:
    """Return sizes and names of a value's dimensions; None if one has neither."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    dims = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in tensor.shape.dim]
    return tuple(dims) if all(d in names if _is_name(d) else d >= 0 for d in dims) else None


def _is_name(dim: int | str) -> bool:
    return isinstance(dim, str)


def set_shapes(values: Iterable[Any], types: Mapping[str, TensorType]) -> None:
    """Give values, each a ValueInfoProto that is changed, their shapes in `types`."""
    for value in values:
        # Outputs may be without a type, or sequences.
        if value.name in types and value.type.HasField("tensor_type"):
            shape = value.type.tensor_type.shape
            del shape.dim[:]
            for size in types[value.name].shape:
                shape.dim.add().dim_value = size


def _type_of(value: Any, bits: Mapping[int, int]) -> TensorType | None:
    """Return the type of a value; None if it is not a tensor or has an open dimension."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape") or tensor.elem_type not in bits:
        # Every element type has a size; a type without one stays unknown.
        return None
    shape = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim)
    return None if min(shape, default=0) < 0 else TensorType(bits[tensor.elem_type], shape)


def _weight_types(graph: Any, bits: Mapping[int, int]) -> dict[str, TensorType]:
    """Return the types of the initializers of a graph and its subgraphs, by name."""
    return {
        tensor.name: TensorType(bits[tensor.data_type], tuple(tensor.dims))
        for each in graphs_in(graph)
        for tensor in each.initializer
        if tensor.data_type in bits and min(tensor.dims, default=0) >= 0
    }


def _declare(graph: Any, values: Mapping[str, Any]) -> None:
    """State the types of values; inference reads those of outputs at their own place."""
    outputs = {value.name: value for value in graph.output}
    for name, value in values.items():
        if name in outputs:
            outputs[name].type.CopyFrom(value.type)
        else:
            graph.value_info.append(value)


def _drop_shapes(graph: Any) -> None:
    """Forget the shapes of all values but graph inputs."""
    for each in graphs_in(graph):
        del each.value_info[:]
        for value in each.output:
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
    _repeat_inputs(graph)


def _repeat_inputs(graph: Any) -> None:
    """Give outputs that are inputs of a graph the inputs' types."""
    for each in graphs_in(graph):
        given = {value.name: value for value in each.input}
        for value in each.output:
            if value.name in given:
                value.type.CopyFrom(given[value.name].type)
