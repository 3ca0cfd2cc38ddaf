"""Random networks of row-local operators, and random stages of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from optsched.errors import GraphError
from optsched.model.rows import Rows
from optsched.model.stages import check_stage
from optsched.model.tiled import Stage, Tiling
from optsched.model.tiling import tiled_graph
from tests.support.tflite_builder import FLOAT32, INT8, INT16, INT32, INT64, OpDraft, TfliteNet
from tests.support.tflite_kernels import register

for kind in (
    *("PAD", "PADV2", "MUL", "SUB", "MAXIMUM", "PRELU", "LEAKY_RELU", "HARD_SWISH", "LOGISTIC"),
    *("TANH", "RELU6", "ABS", "QUANTIZE", "DEQUANTIZE", "DEPTH_TO_SPACE", "SPACE_TO_DEPTH"),
    *("RESIZE_NEAREST_NEIGHBOR", "L2_NORMALIZATION"),
):
    register(kind)


@dataclass
class RandomNetwork:
    """A network in the making; each layer takes a tensor of four dimensions and returns one."""

    rng: np.random.Generator
    type: int = FLOAT32
    net: TfliteNet = field(init=False)

    def __post_init__(self) -> None:
        self.net = TfliteNet(int(self.rng.integers(2**31)), self.type)

    def _draw(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def _weights(self, *shape: int) -> int:
        return self.net.weights(*shape, type=INT8 if self.type == INT16 else None)

    def _bias(self, size: int) -> int:
        if self.type != INT16:
            return self.net.bias(size)
        values = self.rng.integers(-50, 50, size).astype("<i8").tobytes()
        return self.net.tensor(size, type=INT64, data=values, scale=(0.0005,))

    def _windowed(self, x: int, kind: str, channels: int, largest: int = 7) -> int | None:
        """Add a convolution or pooling of random window, stride, dilation and padding."""
        net, (n, h, w, c) = self.net, self.net.shape(x)
        high, wide = self._draw(1, largest), self._draw(1, 3)
        stride, across = self._draw(1, 3), self._draw(1, 2)
        pools = kind.endswith("POOL_2D")
        dilation = 1 if pools or stride > 1 else self._draw(1, 2)
        size, padding = (high - 1) * dilation + 1, self._draw(0, 1)
        if padding and (size > h or wide > w):
            return None
        to = [
            -(-extent // step) if not padding else (extent - window + step) // step
            for extent, step, window in ((h, stride, size), (w, across, wide))
        ]
        options = {"padding": padding, "stride_h": stride, "stride_w": across}
        if pools:
            options |= {"height": high, "width": wide}
            return net.op(kind, [x], n, *to, c, **options)
        options |= {"dilation_h": dilation, "dilation_w": 1, "activation": self._draw(0, 1)}
        if kind == "DEPTHWISE_CONV_2D":
            inputs = [x, self._weights(1, high, wide, c), self._bias(c)]
            return net.op(kind, inputs, n, *to, c, multiplier=1, **options)
        inputs = [x, self._weights(channels, high, wide, c), self._bias(channels)]
        return net.op(kind, inputs, n, *to, channels, **options)

    def _elementwise(self, x: int) -> int:
        net, shape = self.net, self.net.shape(x)
        kind = str(self.rng.choice(["RELU", "RELU6", "LEAKY_RELU", "HARD_SWISH", "PRELU", "MUL"]))
        if kind == "PRELU" and self.type != INT16:
            return net.op(kind, [x, net.weights(1, 1, shape[3])], *shape)
        if kind in ("MUL", "PRELU"):
            # A constant per channel, or per column and channel.
            lead = (shape[2],) if self.rng.random() < 0.5 else ()
            return net.op("MUL", [x, net.weights(*lead, shape[3])], *shape)
        if kind in ("HARD_SWISH", "LEAKY_RELU") and self.type == INT16:
            kind = "RELU"
        return net.op(kind, [x], *shape)

    def _padded(self, x: int) -> int:
        n, h, w, c = self.net.shape(x)
        top, bottom, left, right = (self._draw(0, 3) for _ in range(4))
        values = np.array([0, 0, top, bottom, left, right, 0, 0], "<i4").tobytes()
        pads = self.net.tensor(4, 2, type=INT32, data=values)
        return self.net.op("PAD", [x, pads], n, h + top + bottom, w + left + right, c)

    def _enlarged(self, x: int) -> int | None:
        n, h, w, c = self.net.shape(x)
        if h * w > 400:
            return None
        way = self._draw(0, 3)
        if way == 0 and self.type != INT16:
            times = int(self.rng.choice([2, 4]))
            size = self.net.integers(times * h, 2 * w)
            half = bool(self._draw(0, 1))
            to = (n, times * h, 2 * w, c)
            return self.net.op("RESIZE_BILINEAR", [x, size], *to, half_pixel=half)
        if way == 1:
            times = self._draw(2, 3)
            size = self.net.integers(times * h, w)
            return self.net.op("RESIZE_NEAREST_NEIGHBOR", [x, size], n, times * h, w, c)
        if way == 2 and self.type != INT16 and c % 4 == 0:
            return self.net.op("DEPTH_TO_SPACE", [x], n, 2 * h, 2 * w, c // 4, block=2)
        return self._transposed(x)

    def _transposed(self, x: int) -> int | None:
        n, h, w, c = self.net.shape(x)
        high, stride, channels = self._draw(1, 5), self._draw(1, 3), self._draw(1, 6)
        padding = self._draw(0, 1)
        made = (h * stride, w) if not padding else (max(1, (h - 1) * stride + high), w)
        if padding and high < stride:
            return None
        size = self.net.integers(n, *made, channels)
        inputs = [size, self._weights(channels, high, 1, c), x, self._bias(channels)]
        options = {"padding": padding, "stride_h": stride, "stride_w": 1}
        return self.net.op("TRANSPOSE_CONV", inputs, n, *made, channels, **options)

    def _layer(self, x: int) -> int | None:
        c = self.net.shape(x)[3]
        pool = str(self.rng.choice(["AVERAGE_POOL_2D", "MAX_POOL_2D"]))
        layers = (
            *[lambda: self._windowed(x, "CONV_2D", self._draw(1, 8))] * 3,
            *[lambda: self._windowed(x, "DEPTHWISE_CONV_2D", c)] * 2,
            lambda: self._windowed(x, pool, c, 3),
            *[lambda: self._elementwise(x)] * 2,
            lambda: self._padded(x),
            lambda: self._enlarged(x),
            lambda: self._deepened(x),
            lambda: self._softmax(x),
        )
        return layers[int(self.rng.integers(len(layers)))]()

    def _deepened(self, x: int) -> int | None:
        n, h, w, c = self.net.shape(x)
        if h % 2 or w % 2 or self.type == INT16:
            return None
        return self.net.op("SPACE_TO_DEPTH", [x], n, h // 2, w // 2, 4 * c, block=2)

    def _softmax(self, x: int) -> int | None:
        if self.type != FLOAT32:
            return None
        return self.net.op("SOFTMAX", [x], *self.net.shape(x), beta=1.0)

    def _joined(self, made: list[int]) -> int | None:
        """Add up or join two tensors of equal rows and columns, if there are such."""
        net, x = self.net, made[int(self.rng.integers(len(made)))]
        same = [y for y in made if y != x and net.shape(y)[:3] == net.shape(x)[:3]]
        if not same:
            return None
        y = same[int(self.rng.integers(len(same)))]
        if net.shape(x) == net.shape(y):
            kind = str(self.rng.choice(["ADD", "MUL", "SUB", "MAXIMUM"]))
            return net.op(kind, [x, y], *net.shape(x))
        return net.concat([x, y])

    def make(self, layers: int = 10) -> TfliteNet:
        """Return a network of about `layers` layers, with branches and several results."""
        net = self.net
        shape = (self._draw(5, 40), self._draw(3, 9), self._draw(1, 4))
        made = [net.input(1, *shape)]
        if self.rng.random() < 0.3:
            made.append(net.input(1, *shape))
        while len(net.ops) < layers:
            near = made[-3:] if self.rng.random() < 0.8 else made
            x = near[int(self.rng.integers(len(near)))]
            y = self._joined(made) if self.rng.random() < 0.25 else self._layer(x)
            if y is not None and np.prod(net.shape(y)) < 6000:
                made.append(y)
            elif y is not None:
                net.ops.pop()
        used = {x for op in net.ops for x in op.inputs}
        net.outputs = [x for x in made if x not in used]
        if self.rng.random() < 0.3 and self.type == INT8:
            net.outputs.append(self._whole(net.outputs[-1]))
        return net

    def _whole(self, x: int) -> int:
        """Add a conversion of a result to floats."""
        out = self.net.tensor(*self.net.shape(x), type=FLOAT32)
        self.net.ops.append(OpDraft("DEQUANTIZE", [x], [out]))
        return out


def random_network(rng: np.random.Generator, layers: int = 10) -> TfliteNet:
    """Return a network of a random type."""
    type = (FLOAT32, INT8, INT16)[int(rng.integers(3))]
    return RandomNetwork(rng, type).make(layers)


def random_tiling(rng: np.random.Generator, rows: Rows) -> Tiling:
    """Return disjoint stages of neighboring ops, with bands and directions drawn at random."""
    stages: list[Stage] = []
    v, count = 0, len(rows.ops)
    while v < count:
        length = int(rng.integers(1, 7))
        stage = _stage(rng, rows, tuple(range(v, min(count, v + length))))
        if stage is None or rng.random() < 0.2:
            v += 1
            continue
        stages.append(stage)
        v = stage.ops[-1] + 1
    return Tiling(tuple(stages))


def _stage(rng: np.random.Generator, rows: Rows, ops: tuple[int, ...]) -> Stage | None:
    """Return a stage of these ops, or of the first of them; None if there is none."""
    upwards = bool(rng.integers(2))
    while ops:
        last = rows.ops[ops[-1]]
        if not isinstance(last, str) and rows.heights[last.output] > 1:
            bands = int(rng.integers(2, min(24, rows.heights[last.output]) + 1))
            stage = Stage(ops, bands, upwards)
            try:
                check_stage(rows, stage)
                tiled_graph(rows, Tiling((stage,)))
            except GraphError:
                pass
            else:
                return stage
        ops = ops[:-1]
    return None
