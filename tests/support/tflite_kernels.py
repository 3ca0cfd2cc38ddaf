"""Models of one operator each, one for each kernel of TFLite Micro and type that it computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.support.tflite_builder import FLOAT32, INT8, INT16, INT32, INT64, OPS, OpDraft, TfliteNet

BOOL = 6
TYPES = {"float": FLOAT32, "int8": INT8, "int16": INT16}

IMAGE = (1, 4, 4, 3)


@dataclass(frozen=True)
class Given:
    """An operand: an input of the model, weights of its type, a bias, or constant integers."""

    shape: Sequence[int] = IMAGE
    type: int | None = None
    role: str = "input"
    values: Sequence[int] = ()


def weights(*shape: int) -> Given:
    return Given(shape, role="weights")


def bias(size: int) -> Given:
    return Given((size,), role="bias")


def integers(*values: int, shape: Sequence[int] = ()) -> Given:
    return Given(shape or (len(values),), INT32, "constant", values)


X = Given()


@dataclass(frozen=True)
class Case:
    """An operator with operands and results; `types` are those that the kernel computes."""

    kind: str
    operands: Sequence[Given] = (X,)
    result: Sequence[int] = IMAGE
    types: Sequence[str] = ("float", "int8", "int16")
    options: Any = field(default_factory=dict)
    result_type: int | None = None
    results: int = 1
    name: str = ""


def _windows() -> Iterator[Case]:
    strides = {"stride_w": 1, "stride_h": 1, "dilation_w": 1, "dilation_h": 1}
    yield Case("CONV_2D", (X, weights(5, 3, 3, 3), bias(5)), (1, 4, 4, 5), options=strides)
    options = {**strides, "multiplier": 1}
    yield Case("DEPTHWISE_CONV_2D", (X, weights(1, 3, 3, 3), bias(3)), options=options)
    yield Case("FULLY_CONNECTED", (Given((1, 12)), weights(7, 12), bias(7)), (1, 7))
    made, twice = (1, 8, 8, 5), {"stride_w": 2, "stride_h": 2}
    operands = (integers(*made), weights(5, 3, 3, 3), X)
    yield Case("TRANSPOSE_CONV", operands, made, options=twice)
    yield Case("TRANSPOSE_CONV", (*operands, bias(5)), made, options=twice, name="with_bias")
    halves = {**twice, "width": 2, "height": 2}
    for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        yield Case(kind, result=(1, 2, 2, 3), options=halves)
    yield Case("L2_POOL_2D", (X,), (1, 2, 2, 3), ("float",), halves)


def _elementwise() -> Iterator[Case]:
    all_types = "ABS COS FLOOR LOG NEG SIN SQRT SQUARE RSQRT RELU RELU6 ELU HARD_SWISH LEAKY_RELU"
    for kind in (*all_types.split(), "LOGISTIC", "TANH", "ZEROS_LIKE"):
        yield Case(kind)
    for kind in ("CEIL", "EXP", "ROUND"):
        yield Case(kind, types=("float",))
    for kind in ("LOG_SOFTMAX", "SOFTMAX"):
        yield Case(kind, options={"beta": 1.0} if kind == "SOFTMAX" else {})
    yield Case("L2_NORMALIZATION", types=("float", "int8"))
    two = "ADD SUB MUL DIV MAXIMUM MINIMUM SQUARED_DIFFERENCE FLOOR_DIV FLOOR_MOD"
    for kind in two.split():
        yield Case(kind, (X, X))
        yield Case(kind, (X, Given((1, 1, 1, 3))), name="broadcast")
    for kind in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"):
        yield Case(kind, (X, X), result_type=BOOL)
    yield Case("PRELU", (X, weights(1, 1, 3)), types=("float", "int8"))
    yield Case("ADD_N", (X, X, X), types=("float", "int8"))
    yield Case("CAST", result_type=INT32)
    yield Case("QUANTIZE", result_type=INT8)
    yield Case("DEQUANTIZE", types=("int8", "int16"), result_type=FLOAT32)
    truth = Given(type=BOOL)
    yield Case("SELECT_V2", (truth, X, X))
    for kind in ("LOGICAL_AND", "LOGICAL_OR"):
        yield Case(kind, (truth, truth), types=("float",), result_type=BOOL)
    yield Case("LOGICAL_NOT", (truth,), types=("float",), result_type=BOOL)


def _shapes() -> Iterator[Case]:
    axes = integers(1, 2)
    for kind in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"):
        yield Case(kind, (X, axes), (1, 3))
    yield Case("CONCATENATION", (X, X), (1, 4, 4, 6), options={"axis": 3})
    pads = integers(0, 0, 1, 1, 1, 1, 0, 0, shape=(4, 2))
    for kind in ("PAD", "MIRROR_PAD"):
        yield Case(kind, (X, pads), (1, 6, 6, 3))
    yield Case("PADV2", (X, pads, weights(1)), (1, 6, 6, 3), ("float",))
    yield Case("RESHAPE", (X, integers(1, 48)), (1, 48))
    yield Case("RESIZE_BILINEAR", (X, integers(8, 8)), (1, 8, 8, 3), ("float", "int8"))
    yield Case("RESIZE_NEAREST_NEIGHBOR", (X, integers(8, 8)), (1, 8, 8, 3))
    begin, end, ones = integers(0, 1, 0, 0), integers(1, 3, 4, 3), integers(1, 1, 1, 1)
    yield Case("STRIDED_SLICE", (X, begin, end, ones), (1, 2, 4, 3))
    yield Case("SLICE", (X, begin, integers(1, 2, 4, 3)), (1, 2, 4, 3))
    yield Case("TRANSPOSE", (X, integers(0, 2, 1, 3)))
    deep = Given((1, 4, 4, 4))
    two = ("float", "int8")
    yield Case("DEPTH_TO_SPACE", (deep,), (1, 8, 8, 1), two, {"block": 2})
    yield Case("SPACE_TO_DEPTH", (X,), (1, 2, 2, 12), two, {"block": 2})
    square, none = integers(2, 2), integers(0, 0, 0, 0, shape=(2, 2))
    yield Case("BATCH_TO_SPACE_ND", (Given((4, 2, 2, 3)), square, none))
    yield Case("SPACE_TO_BATCH_ND", (X, square, none), (4, 2, 2, 3))
    yield Case("SPLIT", (integers(3), deep), (1, 4, 4, 2), options={"num": 2}, results=2)
    yield Case("PACK", (X, X), (2, *IMAGE), options={"count": 2, "axis": 0})
    yield Case("UNPACK", (Given((2, 4, 4)),), (4, 4), options={"num": 2, "axis": 0}, results=2)
    yield Case("SQUEEZE", (X,), (4, 4, 3))
    yield Case("EXPAND_DIMS", (X, integers(0)), (1, *IMAGE))
    yield Case("GATHER", (X, integers(0, 2)), (1, 2, 4, 3), two, {"axis": 1})
    yield Case("GATHER_ND", (X, integers(0, 1, shape=(1, 2))), (1, 4, 3), two)
    for kind in ("ARG_MAX", "ARG_MIN"):
        yield Case(kind, (X, integers(3)), (1, 4, 4), options={"out": 2}, result_type=INT32)
    left, right = Given((1, 4, 6)), Given((1, 6, 5))
    yield Case("BATCH_MATMUL", (left, right), (1, 4, 5))
    options = {"turned": True}
    yield Case("BATCH_MATMUL", (Given((1, 6, 4)), right), (1, 4, 5), options=options, name="turned")
    yield Case("CUMSUM", (X, integers(3)), types=two)
    yield Case("BROADCAST_TO", (Given((1, 1, 1, 3)), integers(*IMAGE)))
    yield Case("SHAPE", result=(4,), options={"out": 2}, result_type=INT32)
    yield Case("FILL", (integers(2, 3), Given(())), (2, 3))
    yield Case("REVERSE_V2", (X, integers(1)))
    yield Case("DYNAMIC_UPDATE_SLICE", (X, Given((1, 2, 2, 3)), integers(0, 0, 0, 0)))
    rows = Given((2,), INT32)
    yield Case("EMBEDDING_LOOKUP", (rows, weights(5, 3)), (2, 3), two, result_type=FLOAT32)


# name: (options in the schema's union, slots)
_OPTIONS: dict[str, tuple[str, dict[str, tuple[int, str]]]] = {
    "ARG_MAX": ("ArgMaxOptions", {"out": (0, "Int8")}),
    "ARG_MIN": ("ArgMinOptions", {"out": (0, "Int8")}),
    "BATCH_MATMUL": ("BatchMatMulOptions", {"turned": (0, "Bool")}),
    "CAST": ("CastOptions", {}),
    "CUMSUM": ("CumsumOptions", {}),
    "DEPTH_TO_SPACE": ("DepthToSpaceOptions", {"block": (0, "Int32")}),
    "GATHER": ("GatherOptions", {"axis": (0, "Int32")}),
    "L2_POOL_2D": ("Pool2DOptions", OPS["MAX_POOL_2D"][2]),
    "PACK": ("PackOptions", {"count": (0, "Int32"), "axis": (1, "Int32")}),
    "SHAPE": ("ShapeOptions", {"out": (0, "Int8")}),
    "SPACE_TO_DEPTH": ("SpaceToDepthOptions", {"block": (0, "Int32")}),
    "SPLIT": ("SplitOptions", {"num": (0, "Int32")}),
    "UNPACK": ("UnpackOptions", {"num": (0, "Int32"), "axis": (1, "Int32")}),
}


def register(kind: str) -> None:
    """Make a kind of operator known to the builder; without options unless they are listed."""
    import tflite

    if kind not in OPS:
        union, slots = _OPTIONS.get(kind, ("NONE", {}))
        codes = (getattr(tflite.BuiltinOperator, kind), getattr(tflite.BuiltinOptions, union))
        OPS[kind] = (*codes, slots)


def cases() -> dict[str, tuple[Case, str]]:
    """Return the cases by name, with the name of a type."""
    found = (*_windows(), *_elementwise(), *_shapes())
    return {
        "-".join(filter(None, (case.kind, case.name, type))): (case, type)
        for case in found
        for type in case.types
    }


def model_of(case: Case, type: str) -> TfliteNet:
    """Return the model of a case whose tensors have this type."""
    register(case.kind)
    net = TfliteNet(1, TYPES[type])
    operands = [_operand(net, given, case.kind) for given in case.operands]
    net.outputs = [net.tensor(*case.result, type=case.result_type) for _ in range(case.results)]
    net.ops.append(OpDraft(case.kind, operands, net.outputs, case.options))
    _set_scale(net, case.kind, type)
    return net


def _operand(net: TfliteNet, given: Given, kind: str) -> int:
    if given.role == "constant":
        values = np.array(given.values, "<i4").tobytes()
        return net.tensor(*given.shape, type=INT32, data=values)
    if given.role == "bias":
        if net.type != INT16:
            return net.bias(given.shape[0])
        zeros = bytes(8 * given.shape[0])
        return net.tensor(*given.shape, type=INT64, data=zeros, scale=(0.0005,))
    if given.role == "weights":
        return net.weights(*given.shape, type=INT8 if net.type == INT16 else None)
    return net.input(*given.shape, type=given.type)


def _set_scale(net: TfliteNet, kind: str, type: str) -> None:
    """Give the result the scale that a kernel requires."""
    scales = {
        ("SOFTMAX", "int8"): (1 / 256, -128),
        ("LOGISTIC", "int8"): (1 / 256, -128),
        ("TANH", "int8"): (1 / 128, 0),
        ("L2_NORMALIZATION", "int8"): (1 / 128, 0),
        ("LOG_SOFTMAX", "int8"): (16 / 256, 127),
        ("SOFTMAX", "int16"): (1 / 32768, 0),
        ("LOGISTIC", "int16"): (1 / 32768, 0),
        ("TANH", "int16"): (1 / 32768, 0),
    }
    if (kind, type) in scales:
        tensor = net.tensors[net.outputs[0]]
        scale, tensor.zero = scales[kind, type]
        tensor.scale = (scale,)
