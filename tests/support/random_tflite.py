"""Random TFLite models that TFLite Micro runs: odd shapes, dead ops, states, several subgraphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.support import tflite_kernels
from tests.support.tflite_builder import FLOAT32, INT8, INT16, INT32, RESOURCE, OpDraft, TfliteNet

BOOL = 6
UNUSED = "nobody's"
"""Name of the tensor without users, the last one of a model that has it."""
_SAME = ("RELU", "RELU6", "NEG", "LEAKY_RELU", "HARD_SWISH", "SQUARE", "ABS", "ZEROS_LIKE", "ELU")
_PAIRS = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE")
_STRIDES = {"stride_w": 1, "stride_h": 1, "dilation_w": 1, "dilation_h": 1}


class RandomNet(TfliteNet):
    """A net that grows by random layers; `made` are the tensors that a layer may read."""

    def __init__(self, seed: Sequence[int], type: int) -> None:
        super().__init__(0, type)
        self.draw = np.random.default_rng(list(seed))
        self.made: list[int] = []

    def chance(self, share: float) -> bool:
        return bool(self.draw.random() < share)

    def pick(self, values: Sequence[Any]) -> Any:
        return values[int(self.draw.integers(len(values)))]

    def size(self, most: int) -> int:
        return int(self.draw.integers(1, most + 1))

    def add_input(self, *shape: int, **fields: Any) -> int:
        x = self.input(*shape, **fields)
        self.made.append(x)
        return x

    def layer(self) -> None:
        """Add a layer that reads a random tensor; one that does not suit its shape adds nothing."""
        x = self.pick(self.made)
        rank = len(self.shape(x))
        if not rank:
            _flatten(self, x)
            return
        names = [*(_IMAGES if rank == 4 else ()), *(_ROWS if rank == 2 else ()), *_ANY]
        LAYERS[self.pick(names)](self, x)

    def result(self, kind: str, inputs: Sequence[int], *shape: int, **options: Any) -> int:
        """Add an operator with one result, which later layers may read."""
        return self.results(kind, inputs, [shape], **options)[0]

    def results(
        self, kind: str, inputs: Sequence[int], shapes: Sequence[Sequence[int]], **options: Any
    ) -> list[int]:
        tflite_kernels.register(kind)
        outputs = [self.tensor(*shape) for shape in shapes]
        self.ops.append(OpDraft(kind, inputs, outputs, options))
        self.made += outputs
        return outputs


Layer = Callable[[RandomNet, int], object]


def _same(net: RandomNet, x: int) -> None:
    net.result(net.pick(_SAME if net.type == FLOAT32 else _SAME[:4]), [x], *net.shape(x))


def _pair(net: RandomNet, x: int) -> None:
    shape = net.shape(x)
    alike = [y for y in net.made if tuple(net.shape(y)) == tuple(shape)]
    other = net.pick(alike)
    if net.chance(0.2) and len(shape) == 4:
        other = net.weights(1, 1, 1, shape[-1])
    net.result(net.pick(_PAIRS if net.type == FLOAT32 else _PAIRS[:1]), [x, other], *shape)


def _conv(net: RandomNet, x: int) -> None:
    n, h, w, c = net.shape(x)
    size, stride, channels = net.pick((1, 3)), net.pick((1, 1, 2)), net.size(9)
    options = {**_STRIDES, "stride_w": stride, "stride_h": stride}
    inputs = [x, net.weights(channels, size, size, c), net.bias(channels)]
    if net.type == FLOAT32 and net.chance(0.3):
        inputs[2] = -1
    net.result("CONV_2D", inputs, n, -(-h // stride), -(-w // stride), channels, **options)


def _depthwise(net: RandomNet, x: int) -> None:
    n, h, w, c = net.shape(x)
    times = net.pick((1, 1, 2))
    inputs = [x, net.weights(1, 3, 3, c * times), net.bias(c * times)]
    net.result("DEPTHWISE_CONV_2D", inputs, n, h, w, c * times, **_STRIDES, multiplier=times)


def _transposed(net: RandomNet, x: int) -> None:
    n, h, w, c = net.shape(x)
    channels = net.size(4)
    shape = (n, 2 * h, 2 * w, channels)
    inputs = [net.integers(*shape), net.weights(channels, 3, 3, c), x, net.bias(channels)]
    net.result("TRANSPOSE_CONV", inputs, *shape, stride_w=2, stride_h=2)


def _pool(net: RandomNet, x: int) -> None:
    n, h, w, c = net.shape(x)
    options = {"stride_w": 2, "stride_h": 2, "width": 2, "height": 2}
    kind = net.pick(("AVERAGE_POOL_2D", "MAX_POOL_2D"))
    net.result(kind, [x], n, -(-h // 2), -(-w // 2), c, **options)


def _reduce(net: RandomNet, x: int) -> None:
    n, _, _, c = net.shape(x)
    kind = net.pick(("MEAN", "SUM", "REDUCE_MAX"))
    keep = net.chance(0.5)
    shape = (n, 1, 1, c) if keep else (n, c)
    net.result(kind, [x, net.integers(1, 2)], *shape, keep_dims=keep)


def _pad(net: RandomNet, x: int) -> None:
    n, h, w, c = net.shape(x)
    if min(h, w) < 2:
        return
    values = np.array([0, 0, 1, 1, 0, 1, 0, 0], "<i4").tobytes()
    pads = net.tensor(4, 2, type=INT32, data=values)
    net.result(net.pick(("PAD", "MIRROR_PAD")), [x, pads], n, h + 2, w + 1, c)


def _resize(net: RandomNet, x: int) -> None:
    n, h, w, c = net.shape(x)
    to = net.size(2 * h), net.size(2 * w)
    net.result("RESIZE_NEAREST_NEIGHBOR", [x, net.integers(*to)], n, *to, c)


def _flatten(net: RandomNet, x: int) -> None:
    shape = (1, math.prod(net.shape(x)))
    # The new shape is an operand as a rule.
    net.result("RESHAPE", [x, net.integers(*shape)] if net.chance(0.7) else [x], *shape)


def _turn(net: RandomNet, x: int) -> None:
    shape = net.shape(x)
    order = net.draw.permutation(len(shape)).tolist()
    net.result("TRANSPOSE", [x, net.integers(*order)], *(shape[i] for i in order))


def _slice(net: RandomNet, x: int) -> None:
    shape = net.shape(x)
    begin = [int(net.draw.integers(size)) for size in shape]
    sizes = [size - at for size, at in zip(shape, begin, strict=True)]
    net.result("SLICE", [x, net.integers(*begin), net.integers(*sizes)], *sizes)


def _strided(net: RandomNet, x: int) -> None:
    shape = net.shape(x)
    begin, ones = net.integers(*[0] * len(shape)), net.integers(*[1] * len(shape))
    end = [net.size(size) for size in shape]
    net.result("STRIDED_SLICE", [x, begin, net.integers(*end), ones], *end)


def _split(net: RandomNet, x: int) -> None:
    *lead, last = net.shape(x)
    parts = next((n for n in (3, 2) if last % n == 0), 1)
    axis = net.integers(len(lead))
    net.tensors[axis].shape = ()
    net.results("SPLIT", [axis, x], [(*lead, last // parts)] * parts, num=parts)


def _unpack(net: RandomNet, x: int) -> None:
    first, *rest = net.shape(x)
    if first <= 3 and len(rest):
        net.results("UNPACK", [x], [rest] * first, num=first, axis=0)


def _pack(net: RandomNet, x: int) -> None:
    shape = net.shape(x)
    if len(shape) < 4:
        alike = [y for y in net.made if tuple(net.shape(y)) == tuple(shape)]
        inputs = [x, *(net.pick(alike) for _ in range(net.size(2)))]
        net.result("PACK", inputs, len(inputs), *shape, count=len(inputs), axis=0)


def _join(net: RandomNet, x: int) -> None:
    *lead, _ = net.shape(x)
    alike = [y for y in net.made if list(net.shape(y))[:-1] == lead and len(net.shape(y))]
    if lead:
        inputs = [x, *(net.pick(alike) for _ in range(net.size(3)))]
        channels = sum(net.shape(y)[-1] for y in inputs)
        net.result("CONCATENATION", inputs, *lead, channels, axis=len(lead))


def _sum(net: RandomNet, x: int) -> None:
    alike = [y for y in net.made if tuple(net.shape(y)) == tuple(net.shape(x))]
    inputs = [x, *(net.pick(alike) for _ in range(net.size(4)))]
    net.result("ADD_N", inputs, *net.shape(x))


def _dense(net: RandomNet, x: int) -> None:
    n, width = net.shape(x)
    size = net.size(40)
    net.result("FULLY_CONNECTED", [x, net.weights(size, width), net.bias(size)], n, size)


def _softmax(net: RandomNet, x: int) -> None:
    y = net.result("SOFTMAX", [x], *net.shape(x), beta=1.0)
    if net.type == INT8:
        net.tensors[y].scale, net.tensors[y].zero = (1 / 256,), -128
        # Other layers would refuse its scale.
        net.made.remove(y)


def _svdf(net: RandomNet, x: int) -> None:
    n, width = net.shape(x)
    if net.type != FLOAT32:
        return
    units, rank, steps = net.size(8), net.size(2), net.size(5)
    state = net.tensor(n, units * rank * steps, variable=True)
    filters = units * rank
    inputs = [x, net.weights(filters, width), net.weights(filters, steps), net.bias(units), state]
    net.result("SVDF", inputs, n, units, rank=rank, activation=1)


def _squeeze(net: RandomNet, x: int) -> None:
    shape = net.shape(x)
    net.result("SQUEEZE", [x], *(size for size in shape if size != 1))


def _expand(net: RandomNet, x: int) -> None:
    if len(net.shape(x)) < 4:
        net.result("EXPAND_DIMS", [x, net.integers(0)], 1, *net.shape(x))


def _gather(net: RandomNet, x: int) -> None:
    shape = net.shape(x)
    rows = [int(net.draw.integers(shape[0])) for _ in range(net.size(4))]
    net.result("GATHER", [x, net.integers(*rows)], len(rows), *shape[1:], axis=0)


LAYERS: dict[str, Layer] = {
    layer.__name__.strip("_"): layer
    for layer in (
        *(_same, _pair, _conv, _depthwise, _pool, _transposed, _reduce, _pad, _resize, _flatten),
        *(_turn, _slice, _strided, _split, _unpack, _pack, _join, _sum, _dense, _softmax, _svdf),
        *(_squeeze, _expand, _gather),
    )
}
"""Ways to add a layer."""
_IMAGES = ("conv", "conv", "depthwise", "pool", "transposed", "reduce", "pad", "resize")
_ROWS = ("dense", "dense", "softmax", "svdf")
_ANY = tuple(name for name in LAYERS if name not in (*_IMAGES, *_ROWS))


def random_model(seed: int) -> tuple[TfliteNet, tuple[str, ...]]:
    """Return a random model and the names of its features."""
    net = RandomNet([seed, 1], (FLOAT32, FLOAT32, INT8)[seed % 3])
    features = [{FLOAT32: "float", INT8: "int8", INT16: "int16"}[net.type]]
    for _ in range(net.size(3)):
        image = (1, net.size(9), net.size(9), net.size(6))
        net.add_input(*(image if net.chance(0.7) else (net.size(2), net.size(30))))
    if net.chance(0.3):
        features += _add_called(net, seed)
    if net.chance(0.15):
        features += _add_variable(net)
    for _ in range(net.size(14)):
        net.layer()
    if not net.ops:
        net.result("RELU", [net.inputs[0]], *net.shape(net.inputs[0]))
    features += _choose_outputs(net)
    return net, tuple(features)


def _choose_outputs(net: RandomNet) -> list[str]:
    """Choose results, with some that are odd: an input, a weight, a result twice."""
    features = []
    written = [t for op in net.ops for t in op.outputs if net.tensors[t].type != RESOURCE]
    read = {t for op in net.ops for t in op.inputs}
    ends = [t for t in written if t not in read]
    net.outputs = [t for t in ends or written[-1:] if net.chance(0.7)] or written[-1:]
    if net.chance(0.15):
        net.outputs.append(net.pick(net.inputs))
        features.append("an input is an output")
    if net.chance(0.1):
        weights = [t for t, x in enumerate(net.tensors) if x.data and x.type == net.type]
        net.outputs += weights[:1]
        features += ["a constant is an output"] * bool(weights)
    if net.chance(0.1):
        net.outputs.append(net.pick(written))
        features.append("an output that is read, or twice")
    if not set(ends) <= set(net.outputs):
        features.append("unread results")
    if not set(net.inputs) <= read | set(net.outputs):
        features.append("unread inputs")
    if net.chance(0.1):
        net.tensor(1, 50, name=UNUSED)
        features.append("a tensor without users")
    return features


def _block(seed: Sequence[int], type: int, shapes: Sequence[Sequence[int]]) -> RandomNet:
    """Return a subgraph with inputs of these shapes, and as many results of them."""
    inner = RandomNet(seed, type)
    for shape in shapes:
        inner.add_input(*shape)
    for _ in range(inner.size(5)):
        inner.layer()
    for x in inner.inputs:
        alike = [t for t in inner.made if tuple(inner.shape(t)) == tuple(inner.shape(x))]
        # A result that is an input is legal in TFLite, but copies go wrong in loops of Micro.
        fresh = [t for t in alike if t not in (*inner.inputs, *inner.outputs)]
        if not fresh:
            fresh = [inner.result("NEG" if type == FLOAT32 else "RELU", [x], *inner.shape(x))]
        inner.outputs.append(inner.pick(fresh))
    return inner


def _add_called(net: RandomNet, seed: int) -> list[str]:
    """Add an IF or a WHILE with random subgraphs."""
    xs = [net.pick(net.made) for _ in range(net.size(2))]
    shapes = [net.shape(x) for x in xs]
    number = len(net.more_subgraphs) + 1
    if net.chance(0.5):
        flag = net.input(1, type=BOOL)
        net.more_subgraphs += [_block([seed, 2, i], net.type, shapes) for i in range(2)]
        net.results("IF", [flag, *xs], shapes, then=number, otherwise=number + 1)
        return ["IF"]
    start = net.input(1, type=INT32)
    cond, body = TfliteNet(), _block([seed, 3], net.type, shapes)
    cond.type = net.type
    count, *_ = cond.input(1, type=INT32), *(cond.input(*shape) for shape in shapes)
    cond.outputs = [cond.tensor(1, type=BOOL)]
    cond.ops.append(OpDraft("LESS", [count, cond.integers(3)], cond.outputs))
    count, more = body.tensor(1, type=INT32), body.tensor(1, type=INT32)
    body.inputs.insert(0, count)
    body.ops.append(OpDraft("ADD", [count, body.integers(1)], [more]))
    body.outputs.insert(0, more)
    net.more_subgraphs += [cond, body]
    ends = [net.tensor(1, type=INT32), *(net.tensor(*shape) for shape in shapes)]
    net.made += ends[1:]
    net.ops.append(OpDraft("WHILE", [start, *xs], ends, {"cond": number, "body": number + 1}))
    return ["WHILE"]


def _add_variable(net: RandomNet) -> list[str]:
    """Add a resource that the model assigns and reads."""
    for kind in ("READ_VARIABLE", "ASSIGN_VARIABLE"):
        tflite_kernels.register(kind)
    x = net.pick(net.made)
    handle = net.tensor(1, type=RESOURCE)
    net.ops.append(OpDraft("VAR_HANDLE", [], [handle]))
    net.ops.append(OpDraft("ASSIGN_VARIABLE", [handle, x], []))
    net.result("READ_VARIABLE", [handle], *net.shape(x))
    return ["a variable"]
