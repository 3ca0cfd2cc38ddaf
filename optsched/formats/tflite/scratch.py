"""Scratch bytes that the kernels of TFLite Micro request while an operator runs.

No file shows them. They follow from types and shapes, differently for every build of a kernel;
these are the reference kernels' (`tensorflow/lite/micro/kernels` and `signal/micro/kernels`, commit
90b983c of August 2026, on a machine of 64 bits). TFLite Micro places scratch itself, into what a
plan leaves free, so a build that requests other sizes still runs right; only its arena may then
differ from the slab.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from optsched.errors import FormatError
from optsched.formats.tflite.model import Operator, Tensor, damage_named, options_of

_POINTER = 8
_INT = 4
_CELL = {"FLOAT32": 4, "INT16": 2}
"""Bytes of an element of an LSTM's cell state."""

Shapes = Sequence[Sequence[int]]


def scratch_sizes(op: Operator, tensors: Sequence[Tensor], shapes: Shapes) -> list[int]:
    """Return the bytes of each scratch buffer that the kernel of an operator requests.

    `tensors` and `shapes` are all of its subgraph, with all open dimensions filled in.
    """
    rule = _RULES.get(op.kind)
    return [] if rule is None else rule(Operands(op, tensors, shapes))


class Operands:
    """An operator with the tensors and shapes of its subgraph; absent operands are scalars."""

    def __init__(self, op: Operator, tensors: Sequence[Tensor], shapes: Shapes) -> None:
        self.op, self.tensors, self.shapes = op, tensors, shapes

    def operand(self, i: int) -> Tensor | None:
        """Return an input; None for one that the operator does not have."""
        number = self.op.inputs[i] if i < len(self.op.inputs) else -1
        return None if number < 0 else self.tensors[number]

    def type(self, i: int) -> str:
        """Return the type of an input's elements."""
        return tensor.type if (tensor := self.operand(i)) else ""

    def shape(self, i: int) -> Sequence[int]:
        """Return the shape of an input."""
        return self.shapes[tensor.number] if (tensor := self.operand(i)) else ()

    def elements(self, i: int) -> int:
        """Return the number of an input's elements."""
        return math.prod(self.shape(i))

    @property
    def output(self) -> Tensor | None:
        """The first output."""
        return self.tensors[self.op.outputs[0]] if self.op.outputs else None

    @property
    def output_elements(self) -> int:
        """Number of the first output's elements."""
        return math.prod(self.shapes[self.output.number]) if self.output else 0


def _add_n(x: Operands) -> list[int]:
    adds = x.output is not None and x.output.type in ("FLOAT32", "INT8")
    return [_POINTER * len(x.op.inputs)] if adds else []


def _packed_filter(x: Operands) -> list[int]:
    # A filter of four-bit weights is unpacked, one weight a byte.
    return [x.elements(1)] if x.type(1) == "INT4" else []


def _mirror_pad(x: Operands) -> list[int]:
    return [_INT * len(x.shape(0))] * 2


def _reduce(x: Operands) -> list[int]:
    return [_INT * len(x.shape(0)), _INT * x.elements(1)]


def _mean_or_sum(x: Operands) -> list[int]:
    # Sums of integers are kept in 32 bits.
    sums = [_INT * x.output_elements] if x.type(0) in ("INT8", "INT16") else []
    return sums + _reduce(x)


def _svdf(x: Operands) -> list[int]:
    batch = x.shape(0)[0] if x.shape(0) else 1
    filters = x.shape(1)[0] if x.shape(1) else 1
    if x.type(1) == "FLOAT32":
        return [4 * batch * filters]
    return [4 * batch * filters, 4 * batch * (filters // max(1, _svdf_rank(x.op)))]


def _svdf_rank(op: Operator) -> int:
    import tflite

    options = options_of(op, tflite.SVDFOptions)
    return 1 if options is None else int(options.Rank())


def _transpose_conv(x: Operands) -> list[int]:
    kind = x.type(2)
    if kind == "INT8":
        return [4 * x.output_elements]
    if kind != "INT16":
        return []
    bias = [8 * x.elements(3)] if x.type(3) == "INT16" else []
    return [*bias, 8 * x.output_elements]


_LSTM_INPUT, _LSTM_HIDDEN, _LSTM_CELL = 0, 18, 19
"""Operands of UNIDIRECTIONAL_SEQUENCE_LSTM."""


def _lstm(x: Operands) -> list[int]:
    hidden = x.shape(_LSTM_HIDDEN)
    size = _CELL.get(x.type(_LSTM_CELL), 0)
    # Four gates.
    return [math.prod(hidden[:2]) * size] * 4


def _detection_postprocess(x: Operands) -> list[int]:
    most, classes = (_custom_option(x.op, key) for key in ("max_detections", "num_classes"))
    boxes = x.shape(0)[1] if len(x.shape(0)) > 1 else 0
    scores = math.prod(x.shape(1)[1:3])
    # Bytes of each array of the kernel, in its own sequence.
    each = [4 * 4, 1 * 4, 1 * 4, most * 4, most * 4, 4, most * 4]
    each += [max(classes, most) * 4, min(boxes, most) * 4]
    return [boxes, 4 * scores, *(boxes * size for size in each)]


def _real_fft(x: Operands) -> list[int]:
    size = {"INT16": 2, "INT32": 4, "FLOAT32": 4}.get(x.type(0), 0)
    return [size * _custom_option(x.op, "fft_length")]


def _custom_option(op: Operator, key: str) -> int:
    """Return an integer among the options of a custom operator; one that is not there is 0."""
    from flatbuffers import flexbuffers

    with damage_named():
        try:
            found = int(flexbuffers.GetRoot(op.custom).AsMap[key].AsInt)
        except KeyError:
            found = 0
    if not 0 <= found < 2**31:
        raise FormatError(f"op {op.name!r}: option {key!r} is {found}")
    return found


_RULES: dict[str, Callable[[Operands], list[int]]] = {
    "ADD_N": _add_n,
    "TFLite_Detection_PostProcess": _detection_postprocess,
    "SignalRfft": _real_fft,
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"), _packed_filter),
    "MIRROR_PAD": _mirror_pad,
    **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN", "REDUCE_ALL"), _reduce),
    **dict.fromkeys(("MEAN", "SUM"), _mean_or_sum),
    "SVDF": _svdf,
    "TRANSPOSE_CONV": _transpose_conv,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
}
