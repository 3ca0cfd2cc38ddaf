"""Small networks whose compiled graphs leave a choice of order, each with what is special in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

Step = Callable[[], Any]


class Recurrent(nn.Module):
    """A recurrent cell, unrolled: its backward graph may compute weight gradients late or early."""

    def __init__(self, width: int = 32, steps: int = 4) -> None:
        super().__init__()
        self.steps = steps
        self.gates = nn.Linear(2 * width, 4 * width)
        self.score = nn.Linear(width, 16)

    def forward(self, x: Any) -> Any:
        hidden = cell = torch.zeros_like(x[0])
        loss = x.new_zeros(())
        for t in range(self.steps):
            i, f, g, o = self.gates(torch.cat([x[t], hidden], 1)).chunk(4, 1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            loss = loss + self.score(hidden).logsumexp(1).sum()
        return loss


class Attention(nn.Module):
    """Attention blocks of shared weights, recomputed in the backward graph."""

    def __init__(self, width: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.heads, self.layers = heads, layers
        self.project = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def block(self, x: Any) -> Any:
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = (t.view(split).transpose(1, 2) for t in self.project(x).chunk(3, -1))
        weights = torch.softmax(q @ k.transpose(-1, -2) * 0.3, -1)
        x = self.norm(x + self.mix((weights @ v).transpose(1, 2).reshape(x.shape)))
        return self.norm(x + self.down(functional.gelu(self.up(x))))

    def forward(self, x: Any) -> Any:
        for _ in range(self.layers):
            x = checkpoint(self.block, x, use_reentrant=False)
        return x.square().sum()


class Pooled(nn.Module):
    """Overlapping pools: their gradients are scattered into buffers that are mutated.

    Stock torch 2.13.0 on the CPU runs this backward graph in an order that gives wrong gradients.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
            nn.Flatten(),
            nn.Linear(8 * 7 * 7, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def forward(self, x: Any) -> Any:
        return self.layers(x).logsumexp(1).sum()


class Broken(nn.Module):
    """A step that a graph break compiles as two graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        x = self.first(x).relu()
        torch._dynamo.graph_break()
        return self.second(x).sin().sum()


NETWORKS: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {
    "recurrent": lambda: (Recurrent(), (torch.randn(4, 8, 32),)),
    "attention": lambda: (Attention(), (torch.randn(2, 24, 32),)),
    "pooled": lambda: (Pooled(), (torch.randn(8, 3, 32, 32),)),
}


def training_step(network: nn.Module, inputs: tuple[Any, ...]) -> Step:
    """Return a step of `network` compiled by `torch.compile`: gradients, no update."""
    compiled = torch.compile(network)

    def step() -> Any:
        network.zero_grad(set_to_none=True)
        loss = compiled(*inputs)
        loss.backward()
        return loss.detach()

    return step


def gradients(network: nn.Module) -> dict[str, Any]:
    """Return copies of all gradients by name."""
    return {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
