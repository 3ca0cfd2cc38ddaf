"""The networks whose graphs were recorded, written again, and graphs of a training step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from functorch.compile import aot_module, min_cut_rematerialization_partition, nop
from torch import Tensor, nn
from torch.nn import functional


def _twice(before: int, after: int) -> nn.Sequential:
    first, second = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU())


class UNet(nn.Module):
    """Four levels down, three up, with skip connections."""

    def __init__(self) -> None:
        super().__init__()
        widths = (32, 64, 128, 256)
        self.down = nn.ModuleList(map(_twice, (3, *widths), widths))
        wide = widths[::-1]
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairwise(wide))
        self.mix = nn.ModuleList(_twice(2 * b, b) for b in wide[1:])
        self.head = nn.Conv2d(32, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for level in self.down:
            x = level(functional.max_pool2d(x, 2) if kept else x)
            kept.append(x)
        for up, mix, skip in zip(self.up, self.mix, kept[-2::-1], strict=True):
            x = mix(torch.cat([up(x), skip], 1))
        return self.head(x)


class Experts(nn.Module):
    """A dense mixture of eight experts."""

    def __init__(self, width: int = 256, count: int = 8) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
            for _ in range(count)
        )
        self.head = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        share = self.gate(x).softmax(-1)
        mixed = sum(share[..., i : i + 1] * each(x) for i, each in enumerate(self.experts))
        return self.head(mixed)


class _Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample: nn.Sequential | None = None
        if stride > 1:
            shrink = nn.Conv2d(before, after, 1, stride, bias=False)
            self.downsample = nn.Sequential(shrink, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        made = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        made += x if self.downsample is None else self.downsample(x)
        return functional.relu(made)


class ResNet18(nn.Module):
    """As in torchvision."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        widths = (64, 64, 128, 256, 512)
        self.layers = nn.Sequential(
            *(
                _Block(before if i == 0 else after, after, 2 if i == 0 and after > 64 else 1)
                for before, after in pairwise(widths)
                for i in range(2)
            )
        )
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.bn1(self.conv1(x)))
        x = self.layers(functional.max_pool2d(x, 3, 2, 1))
        return self.fc(x.mean((-2, -1)))


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln1, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.proj, self.ln2 = nn.Linear(width, width), nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, steps, width = x.shape
        parts = self.qkv(self.ln1(x)).split(width, -1)
        q, k, v = (y.view(batch, steps, self.heads, -1).transpose(1, 2) for y in parts)
        scores = (q @ k.transpose(-2, -1)) * (width // self.heads) ** -0.5
        mask = torch.triu(torch.ones(steps, steps, dtype=torch.bool, device=x.device), 1)
        share = scores.masked_fill(mask, float("-inf")).softmax(-1)
        x = x + self.proj((share @ v).transpose(1, 2).reshape(batch, steps, width))
        return x + self.fc2(functional.gelu(self.fc1(self.ln2(x))))


class Gpt(nn.Module):
    """A small decoder."""

    def __init__(self, layers: int = 4, width: int = 256, vocabulary: int = 2048) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.zeros(128, width))
        self.token = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(*(_Layer(width, 4) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.layers(self.token(x) + self.position)))


class _VitLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, steps, _ = x.shape
        given = self.before(x)
        q, k, v = (
            part(given).view(batch, steps, self.heads, -1).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        mixed = self.o(mixed.view(q.shape).transpose(1, 2).view(x.shape))
        x = self.dropout(mixed) + x
        return self.dropout(self.fc2(functional.gelu(self.fc1(self.after(x))))) + x


class Vit(nn.Module):
    """Four layers over the 196 patches of an image, as in transformers, mask and all."""

    def __init__(self, width: int = 192, heads: int = 3) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.zeros(1, 197, width))
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.dropout = nn.Dropout(0.0)
        self.layers = nn.ModuleList(_VitLayer(width, heads) for _ in range(4))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.position
        x = self.dropout(x)
        rows = torch.arange(197, device=x.device) + 0
        mask = (rows[None, None, None] >= 0).expand(1, 1, 197, 197)
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class _Captured(Exception):  # noqa: N818
    """Ends a trace once its graphs are there, before anything is run."""


def joint_graph(build: Callable[[], tuple[nn.Module, Tensor]]) -> Any:
    """Return the graph of a training step, forward and backward, as AOTAutograd makes it."""
    return _captured(build, lambda joint, _, **__: joint)


def parted_graphs(build: Callable[[], tuple[nn.Module, Tensor]]) -> Any:
    """Return its forward and its backward graph, parted by the minimum cut."""
    return _captured(build, min_cut_rematerialization_partition)


def _captured(build: Callable[[], tuple[nn.Module, Tensor]], take: Callable[..., Any]) -> Any:
    found: list[Any] = []

    def partition(joint: Any, inputs: Any, **options: Any) -> Any:
        found.append(take(joint, inputs, **options))
        raise _Captured

    module, x = build()
    with contextlib.suppress(_Captured):
        aot_module(module, fw_compiler=nop, partition_fn=partition)(x)
    return found[0]


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "unet_train": lambda: (UNet(), torch.rand(1, 3, 256, 256)),
    "moe_mlp_train": lambda: (Experts(), torch.rand(2, 128, 256)),
    "resnet18_train": lambda: (ResNet18(), torch.rand(4, 3, 224, 224)),
    "gpt2like_4l_train": lambda: (Gpt(), torch.zeros(4, 128, dtype=torch.int64)),
}
