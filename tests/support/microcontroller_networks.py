"""Networks as people run them on microcontrollers, with weights drawn from a fixed seed.

Shapes are those of MobileNetV1, V2 and V3 (small), of the four tasks of MLPerf Tiny, and of common
detectors, decoders and keyword spotters; all are int8 unless a type is given.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.support.tflite_builder import FLOAT32, INT8, TfliteNet
from tests.support.tflite_kernels import register

register("HARD_SWISH")
register("MUL")
register("RESIZE_NEAREST_NEIGHBOR")


def _channels(base: int, alpha: float) -> int:
    return max(8, int(base * alpha + 4) // 8 * 8)


class Network(TfliteNet):
    """Layers that the builder does not have."""

    def windowed(
        self,
        x: int,
        kind: str,
        channels: int,
        high: int,
        wide: int,
        stride: tuple[int, int] = (1, 1),
    ) -> int:
        """Add a convolution with a window of any shape, padded to the same size."""
        n, h, w, c = self.shape(x)
        options = {"stride_h": stride[0], "stride_w": stride[1], "activation": 1}
        options |= {"dilation_w": 1, "dilation_h": 1}
        shape = (n, -(-h // stride[0]), -(-w // stride[1]))
        if kind == "DEPTHWISE_CONV_2D":
            inputs = [x, self.weights(1, high, wide, c), self.bias(c)]
            return self.op(kind, inputs, *shape, c, multiplier=1, **options)
        inputs = [x, self.weights(channels, high, wide, c), self.bias(channels)]
        return self.op(kind, inputs, *shape, channels, **options)

    def strided(self, x: int, stride: int = 1, size: int = 3) -> int:
        return self.windowed(x, "DEPTHWISE_CONV_2D", 0, size, size, (stride, stride))

    def averaged(self, x: int) -> int:
        _, h, w, c = self.shape(x)
        options = {"padding": 1, "stride_w": 1, "stride_h": 1, "width": w, "height": h}
        return self.op("AVERAGE_POOL_2D", [x], 1, 1, 1, c, **options)

    def classified(self, x: int, classes: int) -> Network:
        """Add the average over all pixels and a dense layer, the end of a classifier."""
        x = self.averaged(x)
        flat = self.op("RESHAPE", [x, self.integers(1, self.shape(x)[3])], 1, self.shape(x)[3])
        self.outputs = [self.dense(flat, classes)]
        return self

    def enlarged(self, x: int) -> int:
        n, h, w, c = self.shape(x)
        size = self.integers(2 * h, 2 * w)
        return self.op("RESIZE_NEAREST_NEIGHBOR", [x, size], n, 2 * h, 2 * w, c)


def mobilenet1(size: int = 96, alpha: float = 0.25, colors: int = 3, type: int = INT8) -> Network:
    """Return MobileNetV1: depthwise and pointwise convolutions in turn (MLPerf Tiny: VWW)."""
    net = Network(1, type)
    x = net.conv(net.input(1, size, size, colors), _channels(32, alpha), 3, 2)
    blocks = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
    for channels, stride in (*blocks, *[(512, 1)] * 5, (1024, 2), (1024, 1)):
        x = net.conv(net.strided(x, stride), _channels(channels, alpha), 1)
    return net.classified(x, 2)


def mobilenet2(size: int = 160, alpha: float = 0.35, type: int = INT8) -> Network:
    """Return MobileNetV2: inverted residuals with wide inner tensors."""
    net = Network(2, type)
    x = net.conv(net.input(1, size, size, 3), _channels(32, alpha), 3, 2)
    x = net.conv(net.strided(x), _channels(16, alpha), 1, relu=False)
    table = [(24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)]
    for channels, count, stride in table:
        for i in range(count):
            y = net.conv(x, net.shape(x)[3] * 6, 1)
            y = net.strided(y, stride if i == 0 else 1)
            y = net.conv(y, _channels(channels, alpha), 1, relu=False)
            x = net.add(x, y) if i else y
    return net.classified(x, 10)


def mobilenet3(size: int = 128, type: int = INT8) -> Network:
    """Return the first blocks of MobileNetV3 small: hard swish, and gates from averages."""
    net = Network(3, type)
    x = net.conv(net.input(1, size, size, 3), 16, 3, 2, relu=False)
    x = net.op("HARD_SWISH", [x], *net.shape(x))
    table = [(16, 16, 3, 2, 1), (72, 24, 3, 2, 0), (88, 24, 3, 1, 0), (96, 40, 5, 2, 1)]
    for inner, channels, window, stride, gated in (*table, *[(240, 40, 5, 1, 1)] * 2):
        y = net.strided(net.conv(x, inner, 1), stride, window)
        if gated:
            gate = net.conv(net.conv(net.averaged(y), max(8, inner // 4), 1), inner, 1)
            y = net.op("MUL", [y, gate], *net.shape(y))
        y = net.conv(y, channels, 1, relu=False)
        x = net.add(x, y) if net.shape(x) == net.shape(y) else y
    return net.classified(x, 10)


def resnet8() -> Network:
    """Return the image classifier of MLPerf Tiny: residual blocks on 32 x 32 pixels."""
    net = Network(4, INT8)
    x = net.conv(net.input(1, 32, 32, 3), 16)
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        y = net.conv(net.conv(x, channels, 3, stride), channels, relu=False)
        side = net.conv(x, channels, 1, stride, relu=False) if stride > 1 else x
        x = net.add(side, y)
        x = net.op("RELU", [x], *net.shape(x))
    return net.classified(x, 10)


def ds_cnn() -> Network:
    """Return the keyword spotter of MLPerf Tiny: 49 frames of 10 coefficients."""
    net = Network(5, INT8)
    x = net.windowed(net.input(1, 49, 10, 1), "CONV_2D", 64, 10, 4, (2, 2))
    for _ in range(4):
        x = net.conv(net.strided(x), 64, 1)
    return net.classified(x, 12)


def spectrogram(type: int = FLOAT32) -> Network:
    """Return a classifier of sounds: tall windows on a spectrogram of 96 frames."""
    net = Network(6, type)
    x = net.input(1, 96, 64, 1)
    for channels in (16, 24, 32):
        x = net.windowed(x, "CONV_2D", channels, 5, 3)
        x = net.pool(x)
    return net.classified(x, 20)


def detector(size: int = 96) -> Network:
    """Return a face detector: two results of different resolution."""
    net = Network(7, INT8)
    x = net.conv(net.input(1, size, size, 3), 16, 5, 2)
    found = []
    for channels, stride in ((24, 1), (24, 2), (48, 1), (48, 2), (64, 1)):
        y = net.conv(net.strided(x, stride, 5), channels, 1, relu=False)
        x = net.add(x, y) if net.shape(x) == net.shape(y) else y
        if channels in (48, 64) and stride == 1:
            found.append(net.conv(x, 18, 1, relu=False))
    net.outputs = found
    return net


def unet(size: int = 64, type: int = INT8) -> Network:
    """Return a segmentation network: three levels down and up again, with skip connections."""
    net = Network(8, type)
    x = net.conv(net.input(1, size, size, 3), 8)
    skips = []
    for level in range(3):
        skips.append(x)
        x = net.conv(net.conv(x, 12 << level, 3, 2), 12 << level)
    for level in (2, 1, 0):
        x = net.conv(net.enlarged(x), net.shape(skips[level])[3], 1)
        x = net.conv(net.concat([x, skips[level]]), net.shape(x)[3])
    net.outputs = [net.conv(x, 2, 1, relu=False)]
    return net


def decoder(size: int = 8) -> Network:
    """Return an upscaling decoder of floats with transposed convolutions."""
    net = Network(9, FLOAT32)
    x = net.input(1, size, size, 32)
    for channels in (32, 24, 16):
        n, h, w, c = net.shape(x)
        shape = net.integers(n, 2 * h, 2 * w, channels)
        inputs = [shape, net.weights(channels, 4, 4, c), x, net.bias(channels)]
        x = net.op("TRANSPOSE_CONV", inputs, n, 2 * h, 2 * w, channels, stride_w=2, stride_h=2)
        x = net.conv(x, channels)
    net.outputs = [net.conv(x, 3, relu=False)]
    return net


def inception(size: int = 48) -> Network:
    """Return blocks of four branches that are joined over channels."""
    net = Network(10, INT8)
    x = net.conv(net.input(1, size, size, 3), 16, 3, 2)
    for _ in range(2):
        branches = [net.conv(x, 12, 1), net.conv(net.conv(x, 8, 1), 12)]
        branches.append(net.conv(net.conv(net.conv(x, 8, 1), 12), 12))
        x = net.pool(net.concat(branches))
    return net.classified(x, 10)


NETWORKS: dict[str, Callable[[], TfliteNet]] = {
    "mobilenet1": mobilenet1,
    "mobilenet1_float": lambda: mobilenet1(64, 0.25, type=FLOAT32),
    "mobilenet2": mobilenet2,
    "mobilenet2_96": lambda: mobilenet2(96),
    "mobilenet3": mobilenet3,
    "resnet8": resnet8,
    "ds_cnn": ds_cnn,
    "spectrogram": spectrogram,
    "spectrogram_int8": lambda: spectrogram(INT8),
    "detector": detector,
    "unet": unet,
    "unet_float": lambda: unet(48, FLOAT32),
    "decoder": decoder,
    "inception": inception,
}
"""The networks by name."""
