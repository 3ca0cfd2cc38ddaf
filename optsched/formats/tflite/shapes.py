"""Dimensions of a TFLite model's tensors if the caller gives the open ones.

With other input sizes, a runtime recomputes the outputs of each operator. Here, sizes are given for
tensors, so they are compared with the result of each operator on its operands, and a size that the
file does not have is that of the result. An operator without a rule in this module is rejected if
one of its sizes differs from the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from optsched.errors import FormatError
from optsched.formats.fields import unknown_dimension
from optsched.formats.tflite.model import Model, Operator, Tensor

Shape = Sequence[int]
Rule = Callable[[Sequence[Shape], Sequence[Shape], Shape], "Shape | None"]
"""From the shapes of the operands, those in the file, and the result's shape in the file to the
shape of the result; None where they make none."""


def shapes_of(model: Model, dims: Mapping[str, int]) -> list[list[int]]:
    """Return the dimensions of all tensors, the open ones as given or as the file has them.

    It raises `FormatError` where a size is unknown, or where an operator would not make the sizes
    that are given, and `UsageError` if `dims` names a dimension that is not open.
    """
    used: set[str] = set()
    shapes = [_shape(tensor, dims, used) for tensor in model.tensors]
    if unknown := sorted(dims.keys() - used):
        raise unknown_dimension(unknown[0], _open_dims(model))
    # Without given sizes the file is taken as it is.
    if used:
        _infer_unknown(model, shapes)
        _check_followed(model, shapes)
    for tensor, shape in zip(model.tensors, shapes, strict=True):
        _require_known(tensor, shape)
    return shapes


def _shape(tensor: Tensor, dims: Mapping[str, int], used: set[str]) -> list[int]:
    shape = list(tensor.shape)
    for axis in _open_axes(tensor):
        # The name of a tensor and its axis, or an axis of all tensors.
        keys = (f"{tensor.name}:{axis}", str(axis))
        if key := next((key for key in keys if key in dims), None):
            used.add(key)
            shape[axis] = dims[key]
    return shape


def _require_known(tensor: Tensor, shape: Shape) -> None:
    for axis, size in enumerate(shape):
        if size < 0:
            raise FormatError(
                f"tensor {tensor.name!r}: dimension {axis} is unknown ({size}); "
                f"give its size: --dim {f'{tensor.name}:{axis}=N'!r}"
            )


def _open_axes(tensor: Tensor) -> list[int]:
    """Return the axes that the signature leaves open, or the shape itself, as in older files."""
    pairs = zip(tensor.shape, tensor.signature or tensor.shape, strict=True)
    return [axis for axis, sizes in enumerate(pairs) if min(sizes) < 0]


def _open_dims(model: Model) -> list[str]:
    return [f"{tensor.name}:{axis}" for tensor in model.tensors for axis in _open_axes(tensor)]


def _infer_unknown(model: Model, shapes: list[list[int]]) -> None:
    """Fill in the shapes that are not given by file or caller, where an operator has a rule.

    An operator that comes before the one that makes its operand leaves its result unknown.
    """
    for op in model.operators:
        inputs, outputs = ([t for t in row if t >= 0] for row in (op.inputs, op.outputs))
        rule = _RULES.get(op.kind)
        known = bool(inputs) and not any(size < 0 for t in inputs for size in shapes[t])
        if (
            rule is None
            or not known
            or len(outputs) != 1
            or min(shapes[outputs[0]], default=0) >= 0
        ):
            continue
        made = _result(model, shapes, rule, inputs, outputs[0])
        # A size that is given stays, and is compared with the result.
        if made is not None and len(made) == len(shapes[outputs[0]]):
            pairs = zip(shapes[outputs[0]], made, strict=True)
            shapes[outputs[0]] = [size if own < 0 else own for own, size in pairs]


def _result(
    model: Model, shapes: Sequence[Shape], rule: Rule, read: Sequence[int], made: int
) -> Shape | None:
    in_file = [model.tensors[t].shape for t in read]
    return rule([shapes[t] for t in read], in_file, model.tensors[made].shape)


def _check_followed(model: Model, shapes: Sequence[Shape]) -> None:
    """Check that each operator makes the shapes that its results are given."""
    for op in model.operators:
        inputs, outputs = ([t for t in row if t >= 0] for row in (op.inputs, op.outputs))
        # An operator whose shapes are as in the file needs no rule.
        changed = [t for t in (*inputs, *outputs) if _differs(model.tensors[t], shapes)]
        if not changed:
            continue
        rule = _RULES.get(op.kind)
        if rule is None or len(outputs) != 1 or not inputs:
            shown = _shown(model, shapes, changed[0])
            raise FormatError(
                f"op {op.name!r}: it is not known what it makes of {shown}; "
                "give the model the shapes that it is to run with, without --dim"
            )
        _check_result(model, shapes, op, rule)


def _check_result(model: Model, shapes: Sequence[Shape], op: Operator, rule: Rule) -> None:
    read = [t for t in op.inputs if t >= 0]
    (made,) = (t for t in op.outputs if t >= 0)
    expected = _result(model, shapes, rule, read, made)
    if expected is None or list(expected) != list(shapes[made]):
        makes = "nothing" if expected is None else _product(expected)
        raise FormatError(
            f"op {op.name!r} makes {makes} of {_shown(model, shapes, read[0])}, "
            f"not {_shown(model, shapes, made)}: {_hint(model.tensors[made])}"
        )


def _hint(made: Tensor) -> str:
    """Return advice: how a result gets the size that its operator computes."""
    if _open_axes(made):
        return "give the sizes of all tensors with --dim AXIS=N"
    return "that size is fixed in the file, so give the model the shapes that it is to run with"


def _differs(tensor: Tensor, shapes: Sequence[Shape]) -> bool:
    return list(tensor.shape) != list(shapes[tensor.number])


def _shown(model: Model, shapes: Sequence[Shape], number: int) -> str:
    return f"tensor {model.tensors[number].name!r} of {_product(shapes[number])}"


def _product(shape: Shape) -> str:
    return " x ".join(map(str, shape)) or "one element"


def _same(read: Sequence[Shape], _: Sequence[Shape], __: Shape) -> Shape:
    return read[0]


def _broadcast(read: Sequence[Shape], _: Sequence[Shape], __: Shape) -> Shape | None:
    try:
        return np.broadcast_shapes(*map(tuple, read))
    except ValueError:
        return None


def _dense(read: Sequence[Shape], _: Sequence[Shape], made: Shape) -> Shape | None:
    """Return the shape of a dense layer's result: rows and units, or the input's axes and units."""
    if len(read) < 2 or len(read[1]) != 2:
        return None
    units, width = read[1]
    elements = math.prod(read[0])
    if not width or elements % width:
        return None
    if len(made) == 2:
        return (elements // width, units)
    return (*read[0][:-1], units) if len(made) == len(read[0]) and read[0][-1] == width else None


def _batched(read: Sequence[Shape], in_file: Sequence[Shape], made: Shape) -> Shape | None:
    """Return the result's shape in the file, with the first dimension that the operand has now."""
    first, was = read[0], in_file[0]
    # Only the first dimension may change.
    if not first or not made or list(first[1:]) != list(was[1:]) or was[0] != made[0]:
        return None
    return (first[0], *made[1:])


def _joined(read: Sequence[Shape], in_file: Sequence[Shape], made: Shape) -> Shape | None:
    """Return the shape that :func:`_batched` gives for all operands; None if they differ."""
    found = {tuple(_batched([x], [was], made) or ()) for x, was in zip(read, in_file, strict=True)}
    return found.pop() if len(found) == 1 else None


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU", "ELU", "GELU"), _same),
    **dict.fromkeys(("LOGISTIC", "TANH", "HARD_SWISH", "SOFTMAX", "LOG_SOFTMAX"), _same),
    **dict.fromkeys(("ABS", "NEG", "EXP", "LOG", "SQRT", "RSQRT", "SQUARE", "SIN", "COS"), _same),
    **dict.fromkeys(("CEIL", "FLOOR", "ROUND", "CAST", "QUANTIZE", "DEQUANTIZE"), _same),
    **dict.fromkeys(("L2_NORMALIZATION", "LOGICAL_NOT", "ZEROS_LIKE"), _same),
    **dict.fromkeys(("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "ADD_N"), _broadcast),
    **dict.fromkeys(("SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD", "POW"), _broadcast),
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D"), _batched),
    **dict.fromkeys(("MAX_POOL_2D", "L2_POOL_2D", "RESIZE_BILINEAR"), _batched),
    **dict.fromkeys(("RESIZE_NEAREST_NEIGHBOR", "DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), _batched),
    "CONCATENATION": _joined,
    "FULLY_CONNECTED": _dense,
}
