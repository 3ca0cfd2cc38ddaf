"""Open dimensions of an ONNX model: which they are, and sizes to try first.

Many models leave sizes open, such as `batch` or the length of a sequence. A plan is for one choice
of sizes, so a reader needs all of them. An error therefore names all open dimensions at once, and
suggests sizes that such models usually take, as a line to paste::

    2 dimensions are open: batch, sequence; try --dim batch=1 --dim sequence=128
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from optsched.errors import UsageError
from optsched.formats.fields import show, unknown_dimension
from optsched.formats.onnx.model import initializers, sizes_of, values_in

IMAGE: Final = 320
"""Usual height and width of an image, in pixels."""
_SUGGESTED: Final = (
    (re.compile(r"batch|^n$|^b$|num_(samples|images)"), 1),
    (re.compile(r"height|width|^h$|^w$"), IMAGE),
    (re.compile(r"past|cache"), 128),
    (re.compile(r"seq|len|time|frame|token|text|word"), 128),
)
"""Usual sizes by what a dimension's name contains."""
_IMAGE_RANK: Final = 4
_STATE_RANK: Final = 3
"""Dimensions of a recurrent state: layers, batch, numbers."""
_WAVE_RANK: Final = 2
"""Dimensions of a batch of sampled signals; a text is a batch of integers."""
_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class OpenDimension:
    """A dimension of a graph input without a size.

    `input` is the first input with it, and `name` its name in the file, or `INPUT.AXIS` if it has
    none; `rank` is the number of dimensions of the input. It is `alone` if the input's other
    dimensions have sizes. Exporters may write 0 for a size that they do not know; `is_zero` marks
    these.
    """

    input: str
    name: str
    axis: int
    rank: int
    is_named: bool
    is_float: bool
    alone: bool
    is_zero: bool = False

    @property
    def suggested(self) -> int:
        """A size that such a dimension usually has."""
        # A batch of waves: 512 samples are a common window.
        if self.rank == _WAVE_RANK and self.is_float and self.axis == 1:
            return 512
        for pattern, size in _SUGGESTED if self.is_named else ():
            if pattern.search(self.name.lower()):
                return size
        # The first axis of an input is mostly the batch.
        if self.axis == 0 or (self.alone and self.axis == 1 and self.rank == _STATE_RANK):
            return 1
        return IMAGE if self.rank == _IMAGE_RANK else 128


def set_dimensions(model: Any, dims: Mapping[str, int]) -> None:
    """Put numbers in the place of dimensions that a ModelProto, changed in place, leaves open.

    They go by the dimension's name in the file, or by `INPUT.AXIS` where it has none. The name of
    an integer input with one element gives its value, which may decide between branches.
    `UsageError` is raised if no dimension has one of these names, or a number is below 1.
    """
    known, inputs = settable(model.graph), _shown_inputs(model.graph)
    for name in dims:
        if name not in known:
            raise unknown_dimension(name, known, inputs)
    # Numbers of integer inputs are values, not sizes.
    dims = _set_values(model, dims)
    open_dims = [
        (name, dim) for value in values_in(model.graph) for name, _, dim in _open_axes(value)
    ]
    for name, number in dims.items():
        if number < 1:
            raise UsageError(f"dimension {show(name)} must be at least 1, got {number}")
    for name, dim in open_dims:
        if name in dims:
            dim.dim_value = dims[name]


def settable(graph: Any) -> list[str]:
    """Return all names that sizes can be given by: of open dimensions, and of integer inputs."""
    names = [name for value in values_in(graph) for name, _, _ in _open_axes(value)]
    return list(dict.fromkeys([*names, *integer_inputs(graph)]))


def integer_inputs(graph: Any) -> list[str]:
    """Return the inputs with one integer, whose value a size gives."""
    constants = set(initializers(graph))
    return [value.name for value in graph.input if _is_integer(value, constants)]


def _is_integer(value: Any, constants: Collection[str]) -> bool:
    """Return True for an integer input with one element that is not a weight."""
    tensor = value.type.tensor_type
    shape = sizes_of(value.type)
    # One element, as a scalar or as a list of one.
    return value.name not in constants and tensor.elem_type in _INTEGERS and shape in ([], [1])


def _shown_inputs(graph: Any) -> str:
    """Return names and shapes of the inputs, for a message."""
    weights = set(initializers(graph))
    shown = []
    for value in graph.input:
        dims = value.type.tensor_type.shape.dim
        shape = ", ".join(str(d.dim_value) if d.HasField("dim_value") else "?" for d in dims)
        if value.name not in weights:
            shown.append(f"{show(value.name)[1:-1]} [{shape}]")
    return ", ".join(shown[:_SHOWN]) + (", ..." if len(shown) > _SHOWN else "")


def _set_values(model: Any, dims: Mapping[str, int]) -> dict[str, int]:
    """Make constants of the integer inputs whose values are given; return the other sizes."""
    from onnx import helper

    left = dict(dims)
    for value in list(model.graph.input):
        if value.name in left and _is_integer(value, set(initializers(model.graph))):
            tensor, number = value.type.tensor_type, left.pop(value.name)
            shape = sizes_of(value.type)
            made = helper.make_tensor(value.name, tensor.elem_type, shape, [number])
            model.graph.initializer.append(made)
    return left


def open_dimensions(graph: Any, constants: Collection[str]) -> list[OpenDimension]:
    """Return the open dimensions of the graph inputs, each name once."""
    found: dict[str, OpenDimension] = {}
    for value in graph.input:
        if value.name in constants:
            continue
        tensor, axes = value.type.tensor_type, list(_open_axes(value))
        rank, is_float = len(tensor.shape.dim), tensor.elem_type in _FLOATS
        for name, axis, dim in axes:
            is_zero = dim.HasField("dim_value") and dim.dim_value == 0
            kind = (rank, _given_name(dim) != "", is_float, len(axes) == 1, is_zero)
            # The first input with a name decides: all others with it have the same size.
            found.setdefault(name, OpenDimension(value.name, name, axis, *kind))
    return list(found.values())


_INTEGERS: Final = (6, 7)
"""`INT32` and `INT64` in `TensorProto.DataType`."""
_FLOATS: Final = (1, 10, 11, 16)
"""`FLOAT`, `FLOAT16`, `DOUBLE` and `BFLOAT16` in `TensorProto.DataType`."""


def _open_axes(value: Any) -> Iterator[tuple[str, int, Any]]:
    """Return name, axis and dimension if it is not a positive number: -1, 0, '?', a name."""
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        # Exporters write an unknown size in all these ways.
        if not (dim.HasField("dim_value") and dim.dim_value > 0):
            yield _given_name(dim) or f"{value.name}.{axis}", axis, dim


def _given_name(dim: Any) -> str:
    given = str(dim.dim_param).strip()
    return "" if given in ("?", "-1") else given
