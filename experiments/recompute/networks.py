"""Networks whose training steps are studied; torch is imported when one is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Made = tuple[nn.Module, tuple[Any, ...]]
"""A module whose output is a loss, and its arguments."""


class Block(nn.Module):
    """A layer of a transformer; attention is written out, as graphs of the study have it."""

    def __init__(self, width: int, heads: int, drop: float = 0.0) -> None:
        super().__init__()
        self.heads, self.drop = heads, drop
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        """Return the output."""
        batch, length, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        scores = (query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5).softmax(-1)
        mixed = (functional.dropout(scores, self.drop) @ value).transpose(1, 2)
        x = x + functional.dropout(self.out(mixed.reshape(batch, length, width)), self.drop)
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """Decoder without mask; the loss is the cross entropy of its own input."""

    def __init__(self, layers: int, width: int, heads: int, words: int, drop: float = 0.0) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Block(width, heads, drop) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, words: Any) -> Any:
        """Return the output."""
        x = self.embed(words)
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), words.flatten())


class Llama(nn.Module):
    """Layers as in pytorch 197838: fused attention, and a gated network in each."""

    def __init__(self, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        sizes = {"qkv": (width, 3 * width), "out": (width, width), "gate": (width, 4 * width)}
        sizes |= {"up": (width, 4 * width), "down": (4 * width, width)}
        self.layers = nn.ModuleList(
            nn.ModuleDict({name: nn.Linear(a, b, bias=False) for name, (a, b) in sizes.items()})
            for _ in range(layers)
        )

    def forward(self, x: Any) -> Any:
        """Return the output."""
        batch, length, width = x.shape
        for layer in self.layers:
            qkv = layer["qkv"](functional.rms_norm(x, (width,))).view(
                batch, length, 3, self.heads, width // self.heads
            )
            mixed = functional.scaled_dot_product_attention(
                *qkv.permute(2, 0, 3, 1, 4), is_causal=True
            )
            x = x + layer["out"](mixed.transpose(1, 2).reshape(batch, length, width))
            y = functional.rms_norm(x, (width,))
            x = x + layer["down"](functional.silu(layer["gate"](y)) * layer["up"](y))
        return x


class Loss(nn.Module):
    """Mean square of a module's output."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any) -> Any:
        """Return the output."""
        return self.inner(*args).square().mean()


class Residual(nn.Module):
    """Block of a ResNet: two or three convolutions with batch norm beside a shortcut."""

    def __init__(self, given: int, width: int, stride: int, deep: bool) -> None:
        super().__init__()
        out = 4 * width if deep else width

        def unit(a: int, b: int, kernel: int, step: int = 1) -> nn.Module:
            conv = nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False)
            return nn.Sequential(conv, nn.BatchNorm2d(b))

        if deep:
            kernels = [(given, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)]
        else:
            kernels = [(given, width, 3, stride), (width, out, 3, 1)]
        self.units = nn.ModuleList(unit(*kernel) for kernel in kernels)
        same = stride == 1 and given == out
        self.shortcut = nn.Identity() if same else unit(given, out, 1, stride)

    def forward(self, x: Any) -> Any:
        """Return the output."""
        y = x
        for i, unit in enumerate(self.units):
            y = unit(y)
            y = y + self.shortcut(x) if i + 1 == len(self.units) else y
            y = functional.relu(y)
        return y


def resnet(depths: tuple[int, ...], deep: bool, width: int = 64) -> nn.Module:
    """Return a ResNet with batch norm."""
    parts: list[nn.Module] = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)]
    parts += [nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    given = width
    for stage, depth in enumerate(depths):
        for i in range(depth):
            inner = width << stage
            parts.append(Residual(given, inner, 2 if stage and not i else 1, deep))
            given = 4 * inner if deep else inner
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(given, 1000)]
    return nn.Sequential(*parts)


class DoubleConv(nn.Sequential):
    """Two convolutions with group norm."""

    def __init__(self, a: int, b: int) -> None:
        convs = nn.Conv2d(a, b, 3, 1, 1), nn.Conv2d(b, b, 3, 1, 1)
        norms = nn.GroupNorm(8, b), nn.GroupNorm(8, b)
        super().__init__(convs[0], norms[0], nn.SiLU(), convs[1], norms[1], nn.SiLU())


class UNet(nn.Module):
    """U-Net of three scales."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.into = nn.ModuleList(
            [DoubleConv(3, c), DoubleConv(c, 2 * c), DoubleConv(2 * c, 4 * c)]
        )
        self.middle = DoubleConv(4 * c, 8 * c)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * k, k, 2, 2) for k in (4 * c, 2 * c, c))
        self.out = nn.ModuleList(DoubleConv(2 * k, k) for k in (4 * c, 2 * c, c))
        self.last = nn.Conv2d(c, 1, 1)

    def forward(self, x: Any) -> Any:
        """Return the output."""
        kept = []
        for layer in self.into:
            x = layer(x)
            kept.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.middle(x)
        for up, out in zip(self.up, self.out, strict=True):
            x = out(torch.cat([up(x), kept.pop()], 1))
        return self.last(x)


class Dense(nn.Module):
    """DenseNet block: each layer reads all before it."""

    def __init__(self, layers: int = 12, growth: int = 32) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 2 * growth, 3, 1, 1)
        widths = [(2 + i) * growth for i in range(layers)]
        self.norms = nn.ModuleList(nn.BatchNorm2d(w) for w in widths)
        self.convs = nn.ModuleList(nn.Conv2d(w, growth, 3, 1, 1, bias=False) for w in widths)

    def forward(self, x: Any) -> Any:
        """Return the output."""
        found = [self.first(x)]
        for norm, conv in zip(self.norms, self.convs, strict=True):
            found.append(conv(functional.relu(norm(torch.cat(found, 1)))))
        return torch.cat(found, 1)


class Experts(nn.Module):
    """Mixture of experts: soft weights, so that every expert runs."""

    def __init__(self, layers: int, width: int, experts: int) -> None:
        super().__init__()
        self.gates = nn.ModuleList(nn.Linear(width, experts) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers * experts))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(layers * experts))

    def forward(self, x: Any) -> Any:
        """Return the output."""
        count = len(self.up) // len(self.gates)
        for i, gate in enumerate(self.gates):
            weights, mixed = gate(x).softmax(-1), 0
            for k in range(count):
                up, down = self.up[i * count + k], self.down[i * count + k]
                mixed = mixed + weights[..., k : k + 1] * down(functional.gelu(up(x)))
            x = x + mixed
        return x


class Gated(nn.Module):
    """Residual layers with a gate."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x: Any) -> Any:
        """Return the output."""
        for layer in self.layers:
            x = x + functional.silu(layer(x)) * torch.sigmoid(x)
        return x


def _words(batch: int, length: int, words: int) -> tuple[Any, ...]:
    return (torch.randint(0, words, (batch, length)),)


JOINT: dict[str, Callable[[], Made]] = {
    "gpt4l": lambda: (Gpt(4, 512, 8, 8192), _words(8, 256, 8192)),
    "gpt12l": lambda: (Gpt(12, 512, 8, 8192), _words(8, 256, 8192)),
    "resnet18": lambda: (Loss(resnet((2, 2, 2, 2), False)), (torch.randn(16, 3, 224, 224),)),
    "resnet50": lambda: (Loss(resnet((3, 4, 6, 3), True)), (torch.randn(8, 3, 224, 224),)),
    "unet": lambda: (Loss(UNet(32)), (torch.randn(2, 3, 256, 256),)),
    "densenet": lambda: (Loss(Dense()), (torch.randn(8, 3, 64, 64),)),
    "moe": lambda: (Loss(Experts(2, 256, 4)), (torch.randn(16, 256, 256),)),
}
"""The seven networks whose joint graphs are planned at the level of ATen."""

LARGE: dict[str, Callable[[], Made]] = {
    "gpt21l": lambda: (Gpt(21, 512, 8, 8192), _words(8, 256, 8192)),
    "llama32l": lambda: (Loss(Llama(32, 256, 4)), (torch.randn(1, 2048, 256),)),
}
"""More than 2,500 ops, and the depth at which PyTorch's peaks are not monotone (197838)."""

STEPS: dict[str, Callable[[], Made]] = {
    "gpt": lambda: (Gpt(4, 256, 4, 2048), _words(8, 128, 2048)),
    "dropout": lambda: (Gpt(3, 256, 4, 1024, 0.1), _words(8, 128, 1024)),
    "unet": lambda: (Loss(UNet(16)), (torch.randn(2, 3, 96, 96),)),
    "resnet": lambda: (Loss(resnet((1, 1, 1, 1), False, 32)), (torch.randn(8, 3, 96, 96),)),
    "mlp": lambda: (Loss(Gated(12, 256)), (torch.randn(2048, 256),)),
    "moe": lambda: (Loss(Experts(2, 128, 4)), (torch.randn(8, 128, 128),)),
}
"""The training steps that are compiled and run."""
