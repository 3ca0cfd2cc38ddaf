"""Small TFLite models in which order and offsets matter, made of a fixed seed each.

    python -m tests.support.tflm_models instances/tflite

writes them all; the same files each time.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.tflite_builder import FLOAT32, INT4, INT8, TfliteNet


def mlp() -> TfliteNet:
    """Six branches of dense layers from one input, all first halves before all second halves."""
    net = TfliteNet(1)
    x = net.input(1, 32)
    heads = [net.dense(x, 64) for _ in range(6)]
    tails = [net.dense(head, 8) for head in heads]
    net.outputs = [net.dense(net.concat(tails), 4)]
    return net


def inception() -> TfliteNet:
    """Blocks whose wide 1x1 heads all come before their 3x3 tails, as converters often write."""
    net = TfliteNet(2)
    x = net.conv(net.input(1, 16, 16, 3), 8)
    for _ in range(2):
        heads = [net.conv(x, 24, 1) for _ in range(4)]
        x = net.conv(net.concat([net.conv(head, 4) for head in heads]), 8, 1)
    net.outputs = [x]
    return net


def random_cells(seed: int, cells: int = 10) -> TfliteNet:
    """A random acyclic graph of separable convolutions, joined by concatenation."""
    rng, net = random.Random(seed), TfliteNet(seed)
    made = [net.conv(net.input(1, 16, 16, 3), 8)]
    for _ in range(cells):
        near = made[-6:]
        sources = rng.sample(near, min(len(near), rng.choice([1, 2, 2, 3])))
        joined = net.concat(sources) if len(sources) > 1 else sources[0]
        made.append(net.conv(net.depthwise(joined), rng.choice([4, 8, 8, 16]), 1))
    used = {x for op in net.ops for x in op.inputs}
    ends = [x for x in made if x not in used]
    net.outputs = [net.pool(net.concat(ends) if len(ends) > 1 else ends[0], 16, "AVERAGE_POOL_2D")]
    return net


def unet() -> TfliteNet:
    """Three levels down and up again, with skip connections."""
    net = TfliteNet(4)
    x = net.input(1, 24, 24, 3)
    skips = []
    for level in range(2):
        x = net.conv(net.conv(x, 4 << level), 4 << level)
        skips.append(x)
        x = net.pool(x)
    x = net.conv(x, 16)
    for level in (1, 0):
        n, h, w, c = net.shape(x)
        size = net.integers(2 * h, 2 * w)
        x = net.op("RESIZE_BILINEAR", [x, size], n, 2 * h, 2 * w, c, half_pixel=True)
        x = net.conv(net.concat([x, skips[level]]), 4 << level)
    net.outputs = [net.conv(x, 2, 1, relu=False)]
    return net


def int8_branches() -> TfliteNet:
    """Four int8 branches, each averaged: MEAN asks for scratch; the branches' heads come first."""
    net = TfliteNet(5, INT8)
    x = net.conv(net.input(1, 20, 20, 3), 8)
    heads = [net.conv(x, 16) for _ in range(4)]
    axes = net.integers(1, 2)
    means = [net.op("MEAN", [head, axes], 1, 16) for head in heads]
    y = net.dense(net.concat(means), 10)
    net.outputs = [net.op("SOFTMAX", [y], 1, 10, beta=1.0)]
    # What TFLite asks of a softmax of eight bits.
    net.tensors[net.outputs[0]].scale = (1 / 256,)
    net.tensors[net.outputs[0]].zero = -128
    return net


def keyword_spotting() -> TfliteNet:
    """Parallel SVDF filters of the same spectrum: each has scratch and a state of its own."""
    net = TfliteNet(6)
    x = net.input(1, 40)
    filters = []
    for units in (64, 48, 32):
        state = net.tensor(1, units * 2 * 8, variable=True)
        inputs = [x, net.weights(units * 2, 40), net.weights(units * 2, 8), net.bias(units), state]
        filters.append(net.op("SVDF", inputs, 1, units, rank=2, activation=1))
    y = net.concat([net.dense(h, 16) for h in filters])
    net.outputs = [net.op("SOFTMAX", [net.dense(y, 4)], 1, 4, beta=1.0)]
    return net


def lstm() -> TfliteNet:
    """Two LSTM layers beside a dense shortcut; each LSTM asks for four scratch buffers."""
    net = TfliteNet(7)
    steps, size, units = 12, 8, 16
    x = net.input(1, steps, size)
    outputs = []
    for seen in (size, size):
        inputs = [
            *(x, *(net.weights(units, seen) for _ in range(4))),
            *(*(net.weights(units, units) for _ in range(4)), -1, -1, -1),
            *(*(net.bias(units) for _ in range(4)), -1, -1),
            *(net.tensor(1, units, variable=True) for _ in range(2)),
            *(-1, -1, -1, -1),
        ]
        options = {"activation": 4, "time_major": False}
        outputs.append(net.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, 1, steps, units, **options))
    joined = net.concat(outputs)
    axes = net.integers(1)
    net.outputs = [net.dense(net.op("REDUCE_MAX", [joined, axes], 1, 2 * units), 4)]
    return net


def decoder() -> TfliteNet:
    """Two int8 transposed convolutions: each asks for four scratch bytes an output element."""
    net = TfliteNet(8, INT8)
    x = net.conv(net.input(1, 6, 6, 4), 8)
    for channels in (8, 4):
        n, h, w, c = net.shape(x)
        size = net.integers(n, 2 * h, 2 * w, channels)
        filters = net.weights(channels, 3, 3, c)
        options = {"stride_w": 2, "stride_h": 2}
        inputs = [size, filters, x, net.bias(channels)]
        y = net.op("TRANSPOSE_CONV", inputs, n, 2 * h, 2 * w, channels, **options)
        x = net.add(y, net.conv(y, channels))
    net.outputs = [x]
    return net


def four_bit_weights() -> TfliteNet:
    """Int8 convolutions with four-bit filters, which are unpacked into scratch; heads first."""
    net = TfliteNet(9, INT8)
    x = net.conv(net.input(1, 12, 12, 4), 8, weights=INT4)
    heads = [net.conv(x, 16, weights=INT4) for _ in range(3)]
    tails = [net.conv(head, 4, weights=INT4) for head in heads]
    net.outputs = [net.conv(net.concat(tails), 4, 1)]
    return net


def sums_and_pads() -> TfliteNet:
    """ADD_N, MIRROR_PAD and REDUCE_MAX with their small scratch, an input that nothing reads."""
    net = TfliteNet(10, FLOAT32)
    x = net.input(1, 8, 8, 4)
    net.input(1, 8, 8, 8)
    pads = net.tensor(4, 2, type=2, data=bytes([0, 0, 0, 0] * 2) + b"\1\0\0\0" * 4 + bytes(8))
    wide = [net.op("MIRROR_PAD", [net.conv(x, 4), pads], 1, 10, 10, 4) for _ in range(4)]
    total = net.op("ADD_N", wide, 1, 10, 10, 4)
    axes = net.integers(1, 2)
    net.outputs = [net.op("REDUCE_MAX", [total, axes], 1, 4), net.conv(total, 2, 1)]
    return net


MODELS: dict[str, Callable[[], TfliteNet]] = {
    "mlp": mlp,
    "inception": inception,
    "cells_a": lambda: random_cells(3),
    "cells_b": lambda: random_cells(5, 14),
    "unet": unet,
    "int8_branches": int8_branches,
    "keyword_spotting": keyword_spotting,
    "lstm": lstm,
    "decoder": decoder,
    "four_bit_weights": four_bit_weights,
    "sums_and_pads": sums_and_pads,
}
"""Every model by the name of its file."""


def main(folder: str) -> None:
    for name, make in MODELS.items():
        path = Path(folder, f"{name}.tflite")
        path.write_bytes(make().bytes())
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
