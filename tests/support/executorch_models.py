"""Small models in which the order of ops matters, or has to be kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import max_pool2d, relu


class WideBranches(nn.Module):
    """Branches whose wide halves are all written before a narrow one."""

    def __init__(self, narrow: int = 64, wide: int = 512, branches: int = 6) -> None:
        super().__init__()
        self.up = nn.ModuleList(nn.Linear(narrow, wide) for _ in range(branches))
        self.down = nn.ModuleList(nn.Linear(wide, narrow) for _ in range(branches))
        self.head = nn.Linear(narrow, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sum up all branches."""
        wide = [relu(layer(x)) for layer in self.up]
        return self.head(sum(layer(y) for layer, y in zip(self.down, wide, strict=True)))


class Inception(nn.Module):
    """Cells with four convolutions side by side."""

    def __init__(self, channels: int = 16, cells: int = 2) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.first = nn.ModuleList(
            nn.ModuleList(nn.Conv2d(channels, 2 * channels, 1) for _ in range(4))
            for _ in range(cells)
        )
        self.second = nn.ModuleList(
            nn.ModuleList(nn.Conv2d(2 * channels, channels // 4, k, padding=k // 2) for k in sizes)
            for sizes in [(1, 3, 5, 1)] * cells
        )
        self.head = nn.Linear(channels, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the cells one after the other."""
        x = relu(self.stem(x))
        for first, second in zip(self.first, self.second, strict=True):
            heads = [relu(layer(x)) for layer in first]
            heads[3] = max_pool2d(heads[3], 3, 1, 1)
            x = torch.cat([layer(y) for layer, y in zip(second, heads, strict=True)], 1)
        return self.head(x.mean((2, 3)))


class Transformer(nn.Module):
    """Two encoder layers."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2, tokens: int = 100) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, 4 * width, 0.0, batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(width, tokens)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layers one after the other."""
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Counter(nn.Module):
    """Reads the old value of a buffer after the new one is ready: `copy_` must not overtake."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.register_buffer("cache", torch.ones(width, width))
        self.layer = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the old value gives."""
        y = self.layer(x)
        new = self.cache + y
        old = relu(self.cache) * 3.0
        self.cache.copy_(new)
        return old.sum(0), y.sum(0)


class Views(nn.Module):
    """Views of one result, used early and late; a part of a result; two results of one op."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Use reshapes of one result beside wide results."""
        a, b, c, d, e = self.layers
        y = a(x)
        flat = y.view(-1)
        wide = torch.cat([b(x), c(x), d(x)], 1)
        values, places = torch.topk(wide, 4, dim=1)
        narrow = wide.sum(1, keepdim=True) + values.sum(1, keepdim=True) + places.sum()
        return e(flat.view(x.shape) * narrow) + flat[0]


def _images() -> tuple[Any, ...]:
    return (torch.randn(1, 3, 32, 32),)


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {
    "wide branches": lambda: (WideBranches(), (torch.randn(32, 64),)),
    "inception": lambda: (Inception(), _images()),
    "transformer": lambda: (Transformer(), (torch.randint(0, 100, (1, 32)),)),
    "counter": lambda: (Counter(), (torch.randn(64, 64),)),
    "views": lambda: (Views(), (torch.randn(32, 32),)),
}
"""Each gives a module in evaluation mode's arguments."""


class Branching(nn.Module):
    """Control flow: its order is left alone."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Take one of two branches."""
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, (x,)) + x


class Mixed(nn.Module):
    """A random net: linear layers, sums, reshapes, slices, and buffers that are changed in between.

    `seed`: of all choices.
    """

    def __init__(self, seed: int, ops: int = 14, width: int = 16) -> None:
        super().__init__()
        self.random = torch.Generator().manual_seed(seed)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.register_buffer("first", torch.ones(width, width))
        self.register_buffer("second", torch.zeros(width, width))
        kinds = ["linear", "add", "relu", "view", "double", "read", "change"]
        self.steps = [
            (kinds[self._pick(len(kinds))], self._pick(i + 1), self._pick(i + 1), self._pick(3))
            for i in range(ops)
        ]

    def _pick(self, count: int) -> int:
        return int(torch.randint(count, (1,), generator=self.random))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Do all steps on results of earlier ones, and return the last three."""
        values = [x]
        for kind, first, second, number in self.steps:
            a, b = values[first], values[second]
            buffer = (self.first, self.second)[number % 2]
            if kind == "linear":
                values.append(self.layers[number](a))
            elif kind == "add":
                values.append(a + b)
            elif kind == "relu":
                values.append(relu(a))
            elif kind == "view":
                values.append(a.reshape(-1).reshape(a.shape) * 0.5)
            elif kind == "double":
                values.append(torch.cat([a, b], 0).view(2, *a.shape).sum(0))
            elif kind == "read":
                values.append(buffer - a)
            else:
                buffer.copy_(a * 0.25)
                values.append(a)
        return tuple(value + number for number, value in enumerate(values[-3:]))
