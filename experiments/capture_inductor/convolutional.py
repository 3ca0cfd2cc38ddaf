"""Convolutional networks as in their papers; each maker takes a batch size and gives a `Build`."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from optsched.plugins.inductor.capture import Build, Built


class Classifier(nn.Module):
    """A network with its loss: a scalar in training, the scores otherwise."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Score a batch, or weigh its scores against the labels."""
        scores = self.network(images)
        return F.cross_entropy(scores, labels) if self.training else scores


def on_images(
    make_network: Callable[[], nn.Module], batch: int, side: int = 224, classes: int = 1000
) -> Build:
    """Build a classifier of RGB images and one batch for it."""

    def build() -> Built:
        images = torch.randn(batch, 3, side, side)
        labels = torch.randint(0, classes, (batch,))
        return Classifier(make_network()), (images, labels), {}

    return build


def conv_norm(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """Convolution without bias that keeps the side length, then batch norm."""
    padding = kernel // 2
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs)]


def relu() -> nn.Module:
    return nn.ReLU(inplace=True)


def alexnet() -> nn.Module:
    features = [
        *(nn.Conv2d(3, 64, 11, stride=4, padding=2), relu(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(64, 192, 5, padding=2), relu(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(192, 384, 3, padding=1), relu()),
        *(nn.Conv2d(384, 256, 3, padding=1), relu()),
        *(nn.Conv2d(256, 256, 3, padding=1), relu(), nn.MaxPool2d(3, 2)),
    ]
    head = [
        *(nn.Dropout(), nn.Linear(256 * 6 * 6, 4096), relu()),
        *(nn.Dropout(), nn.Linear(4096, 4096), relu()),
        nn.Linear(4096, 1000),
    ]
    return nn.Sequential(*features, nn.AdaptiveAvgPool2d(6), nn.Flatten(), *head)


def vgg16() -> nn.Module:
    features: list[nn.Module] = []
    width = 3
    for outputs, repeats in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(repeats):
            features += [nn.Conv2d(width, outputs, 3, padding=1), relu()]
            width = outputs
        features.append(nn.MaxPool2d(2, 2))
    head = [
        *(nn.Linear(512 * 7 * 7, 4096), relu(), nn.Dropout()),
        *(nn.Linear(4096, 4096), relu(), nn.Dropout()),
        nn.Linear(4096, 1000),
    ]
    return nn.Sequential(*features, nn.AdaptiveAvgPool2d(7), nn.Flatten(), *head)


class Bottleneck(nn.Module):
    """Residual block of ResNet-50: narrow, filter, widen fourfold."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.main = nn.Sequential(
            *(*conv_norm(inputs, width, 1), relu()),
            *(*conv_norm(width, width, 3, stride), relu()),
            *conv_norm(width, outputs, 1),
        )
        changes_shape = stride != 1 or inputs != outputs
        shortcut = conv_norm(inputs, outputs, 1, stride) if changes_shape else []
        self.shortcut = nn.Sequential(*shortcut)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the shortcut to the block."""
        return F.relu(self.main(x) + self.shortcut(x), inplace=True)


def resnet50() -> nn.Module:
    blocks: list[nn.Module] = []
    inputs = 64
    for stage, repeats in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for i in range(repeats):
            blocks.append(Bottleneck(inputs, width, 2 if stage and i == 0 else 1))
            inputs = 4 * width
    stem = [*conv_norm(3, 64, 7, 2), relu(), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)]
    return nn.Sequential(*stem, *blocks, *head)


class InvertedResidual(nn.Module):
    """Block of MobileNetV2: widen, filter per channel, narrow."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = inputs * expansion
        widen = [*conv_norm(inputs, width, 1), nn.ReLU6(True)] if expansion != 1 else []
        self.is_residual = stride == 1 and inputs == outputs
        self.main = nn.Sequential(
            *widen,
            *(*conv_norm(width, width, 3, stride, groups=width), nn.ReLU6(True)),
            *conv_norm(width, outputs, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block, around it if the shape is kept."""
        return x + self.main(x) if self.is_residual else self.main(x)


def mobilenet_v2() -> nn.Module:
    layers: list[nn.Module] = [*conv_norm(3, 32, 3, 2), nn.ReLU6(True)]
    inputs = 32
    for expansion, outputs, repeats, first_stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for i in range(repeats):
            stride = first_stride if i == 0 else 1
            layers.append(InvertedResidual(inputs, outputs, stride, expansion))
            inputs = outputs
    layers += [*conv_norm(inputs, 1280, 1), nn.ReLU6(True)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers, *head)


class Inception(nn.Module):
    """Block of GoogLeNet: four branches side by side, joined along the channels."""

    def __init__(
        self, inputs: int, one: int, three: tuple[int, int], five: tuple[int, int], pool: int
    ):
        super().__init__()

        def unit(a: int, b: int, kernel: int) -> list[nn.Module]:
            return [*conv_norm(a, b, kernel), relu()]

        self.branches = nn.ModuleList(
            [
                nn.Sequential(*unit(inputs, one, 1)),
                nn.Sequential(*unit(inputs, three[0], 1), *unit(*three, 3)),
                nn.Sequential(*unit(inputs, five[0], 1), *unit(*five, 3)),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), *unit(inputs, pool, 1)),
            ]
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Join the branches."""
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def googlenet() -> nn.Module:
    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    return nn.Sequential(
        *(*conv_norm(3, 64, 7, 2), relu(), pool()),
        *(*conv_norm(64, 64, 1), relu(), *conv_norm(64, 192, 3), relu(), pool()),
        Inception(192, 64, (96, 128), (16, 32), 32),
        *(Inception(256, 128, (128, 192), (32, 96), 64), pool()),
        Inception(480, 192, (96, 208), (16, 48), 64),
        Inception(512, 160, (112, 224), (24, 64), 64),
        Inception(512, 128, (128, 256), (24, 64), 64),
        Inception(512, 112, (144, 288), (32, 64), 64),
        *(Inception(528, 256, (160, 320), (32, 128), 128), pool()),
        Inception(832, 256, (160, 320), (32, 128), 128),
        Inception(832, 384, (192, 384), (48, 128), 128),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1024, 1000)),
    )


class UNet(nn.Module):
    """U-Net with batch norm and padded convolutions: long skips from the way down to the way up."""

    def __init__(self, width: int = 64, depth: int = 4, classes: int = 2) -> None:
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(map(self._block, [3, *widths[:-1]], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[:-1])
        self.merge = nn.ModuleList(self._block(2 * w, w) for w in widths[:-1])
        self.head = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _block(inputs: int, outputs: int) -> nn.Module:
        first = [*conv_norm(inputs, outputs, 3), relu()]
        return nn.Sequential(*first, *conv_norm(outputs, outputs, 3), relu())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Go down, then up again along the skips."""
        x = self.down[0](x)
        skips = []
        for block in self.down[1:]:
            skips.append(x)
            x = block(F.max_pool2d(x, 2))
        for level in reversed(range(len(skips))):
            x = self.merge[level](torch.cat([skips[level], self.up[level](x)], dim=1))
        return self.head(x)


def unet(batch: int, side: int = 256) -> Build:
    def build() -> Built:
        images = torch.randn(batch, 3, side, side)
        masks = torch.randint(0, 2, (batch, side, side))
        return Classifier(UNet()), (images, masks), {}

    return build
