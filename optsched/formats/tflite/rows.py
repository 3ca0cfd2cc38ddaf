"""Row maps of TFLite operators: which rows of its inputs an operator needs for rows of its output.

Tensors are stored as batch, rows, columns, channels. With a batch of one the rows lie one after
another, so rows of a tensor are a part of its bytes. An operator has a map if a kernel that is
given some rows computes the same bits as on the whole tensor; all others run whole, with a reason.

References
----------
`tensorflow/lite/kernels/internal/reference` and `tensorflow/lite/kernels/padding.h` of
https://github.com/tensorflow/tflite-micro
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from optsched.errors import FormatError
from optsched.formats.format import Source
from optsched.formats.tflite.calls import called
from optsched.formats.tflite.graph import (
    ALIGNMENT,
    ELEMENT_BYTES,
    TfliteGraph,
    holds_subgraphs,
    read_tflite,
)
from optsched.formats.tflite.model import Operator, Tensor, integers_of, options_of
from optsched.formats.tflite.scratch import scratch_sizes
from optsched.model.rows import RowMap, RowOp, RowRule, Rows

_ROWS, _COLUMNS = 1, 2
"""Axes of a tensor; its batch is axis 0."""

_SAME = 0
"""Value of the option `padding` for as many results as strides fit; 1 is `VALID`."""

RESHAPED = {"PAD": 1, "PADV2": 1, "TRANSPOSE_CONV": 0}
RESHAPED |= dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), 1)
"""Operand that says how many rows an operator makes, by kind."""

_COPIED = ("FLOAT32", "INT8", "INT16", "INT32", "BOOL")
"""Types of elements whose rows the kernels of TFLite Micro slice and join."""

_UNPADDED = (1, 1, 0)
"""Window, stride and pad of an operator that computes each row from the same row."""


def read_rows(source: Source, dims: Mapping[str, int] | None = None) -> Rows:
    """Return the row maps of a file's graph.

    Raise `FormatError` if sizes differ from those in the file, or are open, or other subgraphs hold
    tensors.
    """
    if dims:
        raise FormatError("only a model with the sizes stored in it is tiled: leave out --dim")
    return rows_of(read_tflite(source.data, source.name), source.data)


def rows_of(made: TfliteGraph, data: bytes) -> Rows:
    """Return the row maps of a model that was read from `data`."""
    if holds_subgraphs(made.model):
        if any(called(made.model, op) for op in made.model.operators):
            why = "operators run other subgraphs: TFLite Micro takes no offsets for them"
        else:
            why = "TFLite Micro gives offsets of tensors to those of other subgraphs as well: "
            why += "leave out the subgraphs that nothing runs"
        raise FormatError(why)
    for tensor in (made.model.tensors[t] for t in made.model.inputs):
        # An open batch is that in the file: TFLite Micro resizes nothing, and LiteRT does not run a
        # tiled model with another one.
        if -1 in tensor.signature[1:]:
            shape = ", ".join(map(str, tensor.signature))
            raise FormatError(f"input {tensor.name!r} has open sizes ({shape}): give it a shape")
    return _Maps(made, data).make()


class _Maps:
    """Row maps of one model."""

    def __init__(self, made: TfliteGraph, data: bytes) -> None:
        self.made, self.data = made, data
        self.tensors = made.model.tensors
        ids = made.graph.buffer_ids
        # Tensors that no operator uses are not buffers.
        self.buffers = {number: ids[x] for x, number in made.tensors.items() if x in ids}

    def make(self) -> Rows:
        graph = self.made.graph
        heights, row_bytes = [0] * len(graph.buffers), [0] * len(graph.buffers)
        for number, b in self.buffers.items():
            if self.has_rows(number):
                heights[b] = self.tensors[number].shape[_ROWS]
                row_bytes[b] = self._row_bytes(self.tensors[number])
        return Rows(
            graph,
            tuple(self._op(op) for op in self.made.operators),
            tuple(heights),
            tuple(row_bytes),
            rounding=ALIGNMENT,
        )

    def has_rows(self, number: int) -> bool:
        """Return True if rows of a tensor lie one after another in the arena."""
        tensor = self.tensors[number]
        return (
            number in self.buffers
            and 3 <= len(tensor.shape) <= 4
            and tensor.shape[0] == 1
            and 0 not in tensor.shape
            and tensor.type in _COPIED
        )

    def shape(self, number: int) -> tuple[int, ...]:
        return self.tensors[number].shape

    def values(self, number: int) -> np.ndarray[Any, Any] | None:
        """Return the integers of a constant; None for another tensor."""
        return integers_of(self.data, self.tensors[number])

    def _row_bytes(self, tensor: Tensor) -> int:
        return math.prod(tensor.shape[_COLUMNS:]) * ELEMENT_BYTES[tensor.type]

    def _op(self, op: Operator | None) -> RowOp | str:
        try:
            return self._mapped(op)
        except _RunsWholeError as reason:
            return str(reason)
        except IndexError:
            return "operands are missing"

    def _mapped(self, op: Operator | None) -> RowOp:
        if op is None:
            raise _RunsWholeError("not an operator of the file")
        if op.kind not in _RULES:
            raise _RunsWholeError(f"no row map is known for {op.kind}")
        if len(op.outputs) != 1:
            raise _RunsWholeError("not row-local: several results")
        if not self.has_rows(op.outputs[0]):
            raise _RunsWholeError(self._without_rows(op.outputs[0]))
        return _RULES[op.kind](self, op)

    def _without_rows(self, number: int) -> str:
        tensor = self.tensors[number]
        if tensor.variable:
            return f"variable {tensor.name!r} keeps its bytes from run to run"
        if tensor.type not in _COPIED:
            return f"TFLite Micro does not slice {tensor.type}"
        if tensor.shape and tensor.shape[0] > 1:
            return f"batch of {tensor.shape[0]}"
        return "not row-local: its result has no rows"

    def row_op(
        self,
        op: Operator,
        maps: Mapping[int, Sequence[int]],
        rule: RowRule = RowRule.EXACT,
        up: int = 1,
        more: int = 0,
        cost: int = 0,
    ) -> RowOp:
        """Return an operator's maps: window, stride and pad by the number of the input."""
        for number in maps:
            if self.tensors[number].constant:
                raise _RunsWholeError(
                    f"constant {self.tensors[number].name!r} differs from row to row"
                )
            if not self.has_rows(number):
                raise _RunsWholeError(self._without_rows(number))
        output = self.buffers[op.outputs[0]]
        found = tuple(
            RowMap(self.buffers[number], window=window, stride=stride, pad=pad, up=up)
            for number, (window, stride, pad) in maps.items()
        )
        if not found:
            raise _RunsWholeError("not row-local: no input has its rows")
        if scratch_sizes(op, self.tensors, [tensor.shape for tensor in self.tensors]):
            # It would lie beside the bytes of tensors whose rows have died, and at odd addresses.
            raise _RunsWholeError("its kernel takes scratch, which TFLite Micro places itself")
        return RowOp(output, found, rule=rule, more=more, cost=cost)


class _RunsWholeError(Exception):
    """Reason why an operator runs whole."""


def _elementwise(maps: _Maps, op: Operator) -> RowOp:
    """Each element of the output depends on those elements that are broadcast to its place."""
    height, found = maps.shape(op.outputs[0])[_ROWS], {}
    rank = len(maps.shape(op.outputs[0]))
    for t in op.inputs:
        # The axis of rows, counted from the last one, may be missing or broadcast.
        shape = (1,) * rank + maps.shape(t) if t >= 0 else ()
        if t >= 0 and (shape[_ROWS - rank] != 1 or (height == 1 and maps.has_rows(t))):
            found[t] = _UNPADDED
    return maps.row_op(op, found)


def _channels(maps: _Maps, op: Operator) -> RowOp:
    """Elements of a row depend on others of the same row: softmax over channels."""
    return maps.row_op(op, {op.inputs[0]: _UNPADDED})


def _window(
    maps: _Maps, op: Operator, size: int, stride: int, padding: int
) -> tuple[tuple[int, int, int], RowRule]:
    """Return window, stride and pad of an operator that moves a window over the rows."""
    height, made = maps.shape(op.inputs[0])[_ROWS], maps.shape(op.outputs[0])[_ROWS]
    added = max((made - 1) * stride + size - height, 0) if padding == _SAME else 0
    counted = -(-height // stride) if padding == _SAME else (height - size + stride) // stride
    if made != counted:
        raise _RunsWholeError(f"{made} rows are not what its options make of {height}")
    # A window that pads nothing, and that is not larger than the stride, never pads.
    rule = RowRule.SAME if added or (padding == _SAME and size > stride) else RowRule.EXACT
    return (size, stride, added // 2), rule


def _convolution(maps: _Maps, op: Operator) -> RowOp:
    import tflite

    depthwise = op.kind == "DEPTHWISE_CONV_2D"
    options = options_of(op, tflite.DepthwiseConv2DOptions if depthwise else tflite.Conv2DOptions)
    if options is None or len(maps.shape(op.inputs[1])) != 4:
        raise _RunsWholeError("options or filter are missing")
    filters = maps.shape(op.inputs[1])
    size = (filters[1] - 1) * options.DilationHFactor() + 1
    window, rule = _window(maps, op, size, options.StrideH(), options.Padding())
    columns = maps.shape(op.outputs[0])[_COLUMNS]
    return maps.row_op(op, {op.inputs[0]: window}, rule, cost=columns * math.prod(filters))


def _pooling(maps: _Maps, op: Operator) -> RowOp:
    import tflite

    options = options_of(op, tflite.Pool2DOptions)
    if options is None:
        raise _RunsWholeError("options are missing")
    window, rule = _window(maps, op, options.FilterHeight(), options.StrideH(), options.Padding())
    return maps.row_op(op, {op.inputs[0]: window}, rule)


def _pad(maps: _Maps, op: Operator) -> RowOp:
    pads = maps.values(op.inputs[1])
    if pads is None or len(pads) != 2 * len(maps.shape(op.outputs[0])):
        raise _RunsWholeError("paddings are not constant")
    return maps.row_op(op, {op.inputs[0]: (1, 1, int(pads[2 * _ROWS]))})


def _concatenation(maps: _Maps, op: Operator) -> RowOp:
    import tflite

    options = options_of(op, tflite.ConcatenationOptions)
    axis = 0 if options is None else options.Axis()
    if axis % len(maps.shape(op.outputs[0])) <= _ROWS:
        raise _RunsWholeError("not row-local: joins rows")
    return maps.row_op(op, dict.fromkeys(op.inputs, _UNPADDED))


def _resized(maps: _Maps, op: Operator, schema: type) -> tuple[int, bool]:
    """Return how often a resizing repeats a row, and True if it takes the centers of pixels."""
    options = options_of(op, schema)
    if options is not None and options.AlignCorners():
        raise _RunsWholeError("not row-local: it aligns corners")
    return _enlarged(maps, op), options is not None and options.HalfPixelCenters()


def _enlarged(maps: _Maps, op: Operator) -> int:
    """Return how often a resizing repeats a row; refuse other factors."""
    height, made = maps.shape(op.inputs[0])[_ROWS], maps.shape(op.outputs[0])[_ROWS]
    if made % height:
        raise _RunsWholeError(f"not row-local: {height} rows are resized to {made}")
    return made // height


def _nearest(maps: _Maps, op: Operator) -> RowOp:
    import tflite

    times, centers = _resized(maps, op, tflite.ResizeNearestNeighborOptions)
    half = np.float32(0.5 if centers else 0)
    rows = np.arange(maps.shape(op.outputs[0])[_ROWS])
    scale = np.float32(1) / np.float32(times)
    # The kernel rounds a product of floats, which is not always the row that is repeated.
    if (np.floor((rows.astype(np.float32) + half) * scale).astype(int) != rows // times).any():
        raise _RunsWholeError("not row-local: the kernel's floats round to other rows")
    return maps.row_op(op, {op.inputs[0]: _UNPADDED}, RowRule.SCALED, up=times)


def _bilinear(maps: _Maps, op: Operator) -> RowOp:
    import tflite

    times, centers = _resized(maps, op, tflite.ResizeBilinearOptions)
    if times & (times - 1) or times > 512:
        # Only then are the weights of rows the same bits wherever a band begins.
        raise _RunsWholeError(f"factor {times} is not a power of two")
    window = (times + 1, 1, times // 2) if times > 1 and centers else (times, 1, 0)
    return maps.row_op(op, {op.inputs[0]: window}, RowRule.SCALED, up=times)


def _transposed(maps: _Maps, op: Operator) -> RowOp:
    import tflite

    options = options_of(op, tflite.TransposeConvOptions)
    if options is None or len(op.inputs) < 3 or maps.values(op.inputs[0]) is None:
        raise _RunsWholeError("options or shape of the result are missing")
    filters, x = maps.shape(op.inputs[1]), op.inputs[2]
    height, made = maps.shape(x)[_ROWS], maps.shape(op.outputs[0])[_ROWS]
    size, stride = filters[1], options.StrideH()
    # As in `padding.h`: the padding of the convolution whose gradient this is.
    same = options.Padding() == _SAME
    inner = -(-made // stride) if same else (made - size + stride) // stride
    pad = max((inner - 1) * stride + size - made, 0) // 2
    more = made - height * stride
    if inner != height:
        raise _RunsWholeError(f"{made} rows are not what its options make of {height}")
    window = (max(1, size - stride + 1), 1, size - stride - pad)
    columns = maps.shape(x)[_COLUMNS]
    cost = height * columns * math.prod(filters) // made
    return maps.row_op(op, {x: window}, RowRule.SCALED, stride, more, cost)


def _space_to_depth(maps: _Maps, op: Operator) -> RowOp:
    block = maps.shape(op.inputs[0])[_ROWS] // maps.shape(op.outputs[0])[_ROWS]
    return maps.row_op(op, {op.inputs[0]: (block, block, 0)})


def _depth_to_space(maps: _Maps, op: Operator) -> RowOp:
    return maps.row_op(op, {op.inputs[0]: _UNPADDED}, RowRule.SCALED, up=_enlarged(maps, op))


_Rule = Callable[[_Maps, Operator], RowOp]

_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("ABS", "CAST", "CEIL", "COS", "ELU", "EXP", "FLOOR", "GELU"), _elementwise),
    **dict.fromkeys(("HARD_SWISH", "LEAKY_RELU", "LOG", "LOGICAL_NOT", "LOGISTIC"), _elementwise),
    **dict.fromkeys(("NEG", "RELU", "RELU6", "RELU_N1_TO_1", "ROUND", "RSQRT"), _elementwise),
    **dict.fromkeys(("SIN", "SQRT", "SQUARE", "TANH", "ZEROS_LIKE"), _elementwise),
    **dict.fromkeys(("DEQUANTIZE", "PRELU", "QUANTIZE", "SELECT_V2"), _elementwise),
    **dict.fromkeys(("ADD", "ADD_N", "DIV", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM"), _elementwise),
    **dict.fromkeys(("MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB"), _elementwise),
    **dict.fromkeys(("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"), _elementwise),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR", "NOT_EQUAL"), _elementwise),
    **dict.fromkeys(("L2_NORMALIZATION", "LOG_SOFTMAX", "SOFTMAX"), _channels),
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), _convolution),
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), _pooling),
    **dict.fromkeys(("PAD", "PADV2"), _pad),
    "CONCATENATION": _concatenation,
    "DEPTH_TO_SPACE": _depth_to_space,
    "RESIZE_BILINEAR": _bilinear,
    "RESIZE_NEAREST_NEIGHBOR": _nearest,
    "SPACE_TO_DEPTH": _space_to_depth,
    "TRANSPOSE_CONV": _transposed,
}
