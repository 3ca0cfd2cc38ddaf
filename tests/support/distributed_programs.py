"""Small distributed programs: sharded weights, parallel layers, experts, gathers of branches."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
import torch._dynamo.compiled_autograd
import torch.distributed._functional_collectives as collectives
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)


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

    def __init__(self, mesh: Any, count: int = 3, again: bool = False) -> None:
        super().__init__()
        self.again = again
        draws = [torch.randn(256, 32) / 8 for _ in range(2 * count)]
        self.shards = nn.ParameterList(
            nn.Parameter(distribute_tensor(w, mesh, [Shard(0)])) for w in draws
        )

    def whole(self, shard: Any) -> Any:
        gathered = shard.redistribute(placements=[Replicate()])
        return gathered.to_local(grad_placements=[Partial("avg")])

    def gather(self, shard: Any) -> Any:
        """Return a weight; with `again` it is gathered once more in the backward pass."""
        if not self.again:
            return self.whole(shard)
        policy = partial(create_selective_checkpoint_contexts, _gathered_again)
        return checkpoint(self.whole, shard, use_reentrant=False, context_fn=policy)

    def forward(self, x: Any) -> Any:
        whole = [self.gather(shard) for shard in self.shards]
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


class Prefetched(nn.Module):
    """Weights are gathered while wide branches are computed, without gradients."""

    def __init__(self, group: Any, size: int, count: int = 3) -> None:
        super().__init__()
        self.group, self.size = group.group_name, size
        self.shards = nn.ParameterList(torch.randn(32 // size, 32) / 8 for _ in range(count))
        self.branches = nn.ModuleList(Branches() for _ in range(count))

    def forward(self, x: Any) -> Any:
        ops = torch.ops._c10d_functional
        for shard, branches in zip(self.shards, self.branches, strict=True):
            weight = ops.all_gather_into_tensor(shard, self.size, self.group)
            parts = branches(x)
            x = x + parts @ ops.wait_tensor(weight)
        return x


class Exchanged(nn.Module):
    """Rows are exchanged for columns and back, as DTensor does it, without gradients."""

    def __init__(self, group: Any, size: int) -> None:
        super().__init__()
        self.group, self.size = group.group_name, size
        self.branches = nn.ModuleList(Branches() for _ in range(2))

    def forward(self, x: Any) -> Any:
        exchange = torch.ops._dtensor.shard_dim_alltoall
        for branches in self.branches:
            columns = exchange(x, 0, 1, self.group)
            x = x + branches(x) + exchange(columns.softmax(0), 1, 0, self.group)
        return x


def _gathered_again(context: Any, op: Any, *args: Any, **how: Any) -> CheckpointPolicy:
    ops = torch.ops._c10d_functional
    if op in (ops.all_gather_into_tensor.default, ops.wait_tensor.default):
        return CheckpointPolicy.MUST_RECOMPUTE
    return CheckpointPolicy.MUST_SAVE


class Attention(nn.Module):
    """A layer of a transformer: attention of eight heads, and two matrices with a gate."""

    def __init__(self, width: int = 32, wide: int = 128) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.gate, self.up, self.down = (
            nn.Linear(width, wide),
            nn.Linear(width, wide),
            nn.Linear(wide, width),
        )

    def forward(self, x: Any) -> Any:
        y, rows = self.norms[0](x), x.shape[0]
        q, k, v = (f(y).view(rows, -1, 4).transpose(0, 1) for f in (self.q, self.k, self.v))
        made = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(made.transpose(0, 1).reshape(rows, -1))
        y = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def _attention(mesh: Any) -> nn.Module:
    """Heads and columns of two layers are spread over the processes."""
    network = nn.Sequential(Attention(), Attention())
    ways = dict.fromkeys(("q", "k", "v", "gate", "up"), ColwiseParallel())
    for layer in network:
        parallelize_module(
            layer, mesh, {**ways, "out": RowwiseParallel(), "down": RowwiseParallel()}
        )
    return network


def _sequence(mesh: Any) -> nn.Module:
    """Rows are spread over the processes between layers, and columns inside of them."""
    network = nn.Sequential(nn.LayerNorm(32), Branches(), nn.LayerNorm(32), Branches())
    for norm, branches in ((network[0], network[1]), (network[2], network[3])):
        parallelize_module(norm, mesh, SequenceParallel(sequence_dim=0))
        out = RowwiseParallel(output_layouts=Replicate())
        into = ColwiseParallel(input_layouts=Replicate())
        parallelize_module(branches, mesh, {"up.*": into, "down.*": out})
    return nn.Sequential(Rows(mesh), network)


class Rows(nn.Module):
    """Rows of a matrix that all processes have, gathered from shards."""

    def __init__(self, mesh: Any) -> None:
        super().__init__()
        self.mesh, self.scale = mesh, nn.Parameter(torch.ones(32))

    def forward(self, x: Any) -> Any:
        group = self.mesh.get_group()
        own = collectives.reduce_scatter_tensor(x * self.scale.detach(), "sum", 0, group)
        whole = collectives.all_gather_tensor(own, 0, group) / self.mesh.size()
        return whole + x * self.scale


def _fully_sharded(mesh: Any) -> nn.Module:
    network = nn.Sequential(Branches(), nn.LayerNorm(32), Branches())
    for part in network:
        fully_shard(part, mesh=mesh)
    fully_shard(network, mesh=mesh)
    return network


def _replicated(mesh: Any) -> nn.Module:
    """DDP compiles a graph for each bucket of gradients, the first of them of 1 MiB."""
    network = nn.Sequential(Branches(wide=1024), nn.LayerNorm(32), Branches(wide=1024))
    return DistributedDataParallel(network, process_group=mesh.get_group(), bucket_cap_mb=1)


def _reduced(mesh: Any) -> nn.Module:
    """DDP in Python: with compiled autograd its reductions are part of the backward graph."""
    network = nn.Sequential(Branches(), nn.LayerNorm(32), Branches())
    with torch._dynamo.config.patch(**PYTHON_REDUCER):
        return DistributedDataParallel(network, process_group=mesh.get_group())


class Averaged(nn.Module):
    """Layers with wide results, which all ranks average."""

    def __init__(self, wide: int, layers: int = 3) -> None:
        super().__init__()
        self.up = nn.ModuleList(nn.Linear(32, wide) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(wide, 32) for _ in range(layers))
        self.group = torch.distributed.group.WORLD

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for up, down in zip(self.up, self.down, strict=True):
            y = down(torch.tanh(up(x)) * torch.sigmoid(up(x)))
            x = x + collectives.all_reduce(y.detach(), "sum", self.group) / 2 + y
        return x


def _parallel(mesh: Any) -> nn.Module:
    network = nn.Sequential(Branches(), nn.LayerNorm(32), Branches())
    for branches in (network[0], network[2]):
        parallelize_module(branches, mesh, {"up.*": ColwiseParallel(), "down.*": RowwiseParallel()})
    return network


PYTHON_REDUCER = {"optimize_ddp": "python_reducer"}
PROGRAMS: dict[str, Callable[[Any], nn.Module]] = {
    "sharded": Sharded,
    "parallel": _parallel,
    "experts": lambda mesh: Experts(mesh.get_group(), mesh.size()),
    "gathers": lambda mesh: Gathers(mesh.get_group()),
}
"""Makers of modules by name, of a mesh; each takes a matrix with 32 columns."""
STUDIED: dict[str, Callable[[Any], nn.Module]] = {
    **PROGRAMS,
    "gathered_again": lambda mesh: Sharded(mesh, again=True),
    "attention": _attention,
    "sequence": _sequence,
    "fully_sharded": _fully_sharded,
    "replicated": _replicated,
    "averaged": lambda mesh: Averaged(256),
    "reduced": _reduced,
    "prefetched": lambda mesh: Prefetched(mesh.get_group(), mesh.size()),
    "exchanged": lambda mesh: Exchanged(mesh.get_group(), mesh.size()),
}
"""These, and larger ones; FSDP2 and DDP run their collectives between the compiled graphs."""
BREAKS = ("fully_sharded", "replicated")
"""Programs of several graphs."""
REDUCED_OUTSIDE = ("replicated",)
"""Programs whose gradients a C++ hook reduces, which needs ranks that exist."""
REDUCED_INSIDE = ("reduced",)
"""Programs whose backward pass compiled autograd compiles, with the reductions in it."""
SAME_ROWS = ("parallel", "attention", "sequence")
"""Programs that are given the same rows on every process."""
WITHOUT_GRADIENTS = ("gathers", "prefetched", "exchanged")
"""Programs whose collectives have no gradient."""


def run(name: str, module: Any, x: Any) -> list[torch.Tensor]:
    """Run a program, with its backward pass if it has one; return result and gradients."""
    if name in WITHOUT_GRADIENTS:
        with torch.no_grad():
            return [module(x).clone()]
    with ExitStack() as stack:
        if name in REDUCED_INSIDE:
            stack.enter_context(torch._dynamo.config.patch(**PYTHON_REDUCER))
            compiler = torch.compile(fullgraph=True)
            stack.enter_context(torch._dynamo.compiled_autograd._enable(compiler))
        out = module(x)
        out.square().mean().backward()
    found = [p.grad for p in module.parameters() if p.grad is not None]
    local = [grad.to_local() if hasattr(grad, "to_local") else grad for grad in found]
    return [out.detach().clone(), *(grad.detach().clone() for grad in local)]


CALL = re.compile(r"^ +(?:(\w+) = )?([\w.]+)\((.*)\)", re.MULTILINE)


def windows(code: str) -> list[tuple[str, int]]:
    """Return the collectives of a wrapper in sequence, each with the calls before its wait."""
    hidden, begun, found = 0, dict[str, int](), list[tuple[str, int]]()
    body = code[code.index("def call(") :]
    for result, name, arguments in CALL.findall(body):
        operand = arguments.partition(",")[0]
        if name.endswith("wait_tensor.default"):
            if operand in begun:
                at = begun[operand]
                found[at] = (found[at][0], hidden - found[at][1])
        elif "_dtensor." in name:
            # It is done at its end.
            found.append((name, 0))
        elif "_c10d_functional" in name:
            # One that works in place is waited for by its operand.
            begun[operand if name.endswith("_.default") else result] = len(found)
            found.append((name, hidden))
        elif "fused" in name or name.startswith("extern_kernels"):
            hidden += 1
    return found
