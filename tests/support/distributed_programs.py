"""Small distributed programs: sharded weights, parallel layers, experts, gathers of branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed._functional_collectives as collectives
from torch import nn
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Branches(nn.Module):
    """Wide branches that are summed: their order decides about the peak."""

    def __init__(self, width: int = 32, wide: int = 256, count: int = 4) -> None:
        super().__init__()
        self.up = nn.ModuleList(nn.Linear(width, wide) for _ in range(count))
        self.down = nn.ModuleList(nn.Linear(wide, width) for _ in range(count))

    def forward(self, x: Any) -> Any:
        parts = [up(x).tanh() for up in self.up]
        return sum(down(part) for down, part in zip(self.down, parts, strict=True))


class Sharded(nn.Module):
    """Branches whose weights are gathered where they are used, and their gradients scattered."""

    def __init__(self, mesh: Any, count: int = 3) -> None:
        super().__init__()
        draws = [torch.randn(256, 32) / 8 for _ in range(2 * count)]
        self.shards = nn.ParameterList(
            nn.Parameter(distribute_tensor(w, mesh, [Shard(0)])) for w in draws
        )

    def forward(self, x: Any) -> Any:
        whole = [
            shard.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial("avg")])
            for shard in self.shards
        ]
        parts = [(x @ up.t()).tanh() for up in whole[::2]]
        return sum(part @ down for part, down in zip(parts, whole[1::2], strict=True))


class Experts(nn.Module):
    """Tokens are sent to experts on other processes and back; a dense layer runs beside."""

    def __init__(self, group: Any, size: int) -> None:
        super().__init__()
        self.group, self.size = group, size
        self.expert, self.dense = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        for _ in range(2):
            share = [x.shape[0] // self.size] * self.size
            sent = collectives.all_to_all_single_autograd(x, share, share, self.group)
            made = self.expert(sent).relu()
            back = collectives.all_to_all_single_autograd(made, share, share, self.group)
            x = x + back + self.dense(x).relu()
        return x


class Gathers(nn.Module):
    """Results of branches are gathered, and their sum is reduced in place."""

    def __init__(self, group: Any) -> None:
        super().__init__()
        self.group = group
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: Any) -> Any:
        gathered = [collectives.all_gather_tensor(f(x), 0, self.group) for f in self.layers]
        total = sum(part.relu().sum(0) for part in gathered)
        return collectives.all_reduce(total, "sum", self.group)


def _parallel(mesh: Any) -> nn.Module:
    network = nn.Sequential(Branches(), nn.LayerNorm(32), Branches())
    for branches in (network[0], network[2]):
        parallelize_module(branches, mesh, {"up.*": ColwiseParallel(), "down.*": RowwiseParallel()})
    return network


PROGRAMS: dict[str, Callable[[Any], nn.Module]] = {
    "sharded": Sharded,
    "parallel": _parallel,
    "experts": lambda mesh: Experts(mesh.get_group(), mesh.size()),
    "gathers": lambda mesh: Gathers(mesh.get_group()),
}
"""Makers of modules by name, of a mesh; each takes a matrix with 32 columns."""
WITHOUT_GRADIENTS = ("gathers",)
"""Programs whose collectives have no gradient."""


def run(name: str, module: Any, x: Any) -> list[torch.Tensor]:
    """Run a program, with its backward pass if it has one; return result and gradients."""
    if name in WITHOUT_GRADIENTS:
        with torch.no_grad():
            return [module(x).clone()]
    out = module(x)
    out.square().mean().backward()
    found = [p.grad for p in module.parameters() if p.grad is not None]
    local = [grad.to_local() if hasattr(grad, "to_local") else grad for grad in found]
    return [out.detach().clone(), *(grad.detach().clone() for grad in local)]
