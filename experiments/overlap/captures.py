"""Captures of the study: `python -m experiments.overlap.captures` makes the files again.

Backward graphs of a model whose weights are sharded over 8 processes of torch's fake process group:
with Inductor's order as it is, and with its overlap scheduler at four bucket sizes. The scheduler
gets the rates of :mod:`experiments.overlap.costs` for its estimates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from math import prod
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch._inductor import config
from torch._inductor.ir import ExternKernelOut
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)
from torch.utils.flop_counter import addmm_flop, mm_flop, sdpa_backward_flop

from experiments.overlap.costs import BANDWIDTH, BATCHES, BUCKETS, FOLDER, LINK, RATE, START
from optsched.plugins.inductor.capture import CapturedGraph, capture, write


class Weight(nn.Module):
    """A weight in shards, gathered where it is used, in the backward pass once more."""

    def __init__(self, rows: int, columns: int, mesh: Any) -> None:
        super().__init__()
        self.shard = nn.Parameter(distribute_tensor(torch.randn(rows, columns), mesh, [Shard(0)]))

    def forward(self) -> Any:
        """Return the weight."""
        again = partial(create_selective_checkpoint_contexts, _policy)
        return checkpoint(self.whole, use_reentrant=False, context_fn=again)

    def whole(self) -> Any:
        """Gather the shards."""
        gathered = self.shard.redistribute(placements=[Replicate()])
        return gathered.to_local(grad_placements=[Partial("avg")])


def _policy(context: Any, op: Any, *args: Any, **keywords: Any) -> CheckpointPolicy:
    ops = torch.ops._c10d_functional
    if op in (ops.all_gather_into_tensor.default, ops.wait_tensor.default):
        return CheckpointPolicy.MUST_RECOMPUTE
    return CheckpointPolicy.MUST_SAVE


class Transformer(nn.Module):
    """A causal language model: attention of 16 heads and two matrices per layer, 61 M weights."""

    def __init__(self, mesh: Any, width: int = 1024, layers: int = 4, words: int = 8000) -> None:
        super().__init__()
        self.width, self.layers = width, layers
        self.words, self.head = Weight(words, width, mesh), Weight(words, width, mesh)
        shapes = ((3 * width, width), (width, width), (4 * width, width), (width, 4 * width))
        self.weights = nn.ModuleList(Weight(*s, mesh) for _ in range(layers) for s in shapes)

    def forward(self, ids: Any) -> Any:
        """Return the loss of predicting words, shape `(batch, words)`, by themselves."""
        x = functional.embedding(ids, self.words())
        for layer in range(self.layers):
            into, out, up, down = self.weights[4 * layer : 4 * layer + 4]
            y = functional.linear(functional.rms_norm(x, (self.width,)), into())
            parts = y.view(*ids.shape, 3, 16, -1).permute(2, 0, 3, 1, 4).unbind(0)
            y = functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + functional.linear(y.transpose(1, 2).reshape(x.shape), out())
            x = x + functional.linear(
                functional.silu(functional.linear(functional.rms_norm(x, (self.width,)), up())),
                down(),
            )
        made = functional.linear(functional.rms_norm(x, (self.width,)), self.head())
        return functional.cross_entropy(made.flatten(0, 1), ids.flatten())


def _milliseconds(node: Any, size: int | None) -> float | None:
    """Return the time of a transfer or an op by the study's rates, for the overlap scheduler."""
    from torch._inductor.fx_passes.overlap_scheduling import estimate_roofline_runtime_ms

    if "_c10d_functional" not in str(node.target) or "wait" in str(node.target):
        return estimate_roofline_runtime_ms(node)
    sides = [x.meta["val"] for x in (node, *node.all_input_nodes)]
    count = max(x.numel() * x.element_size() for x in sides) if size is None else size
    return (START + count / LINK) / 1000


@contextmanager
def overlap_scheduler(bucket: int, edges: bool) -> Iterator[None]:
    """Turn on the overlap scheduler with buckets of at most `bucket` MB, and its defaults.

    By default it adds edges to keep its order, which also keep Inductor from fusing across them.
    """
    from torch.utils import _runtime_estimation

    options = {
        "enable_overlap_scheduling": True,
        "collective_bucketing": True,
        "insert_overlap_deps": edges,
        "compute_estimator": "analytical",
        "custom_runtime_estimation": _milliseconds,
        "pre_bucketing_fsdp_collectives_bucket_cap_mb": float(bucket),
    }
    # Torch takes 75 % of the rate as reached.
    answers = {
        "get_device_tflops": lambda *_: RATE / 0.75 / 1e6,
        "get_gpu_dram_gbps": lambda *_: BANDWIDTH / 1e3,
    }
    with ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch.object(_runtime_estimation, name, answer))
        named = {f"aten_distributed_optimizations.{key}": x for key, x in options.items()}
        stack.enter_context(config.patch(named))
        yield


def _work(nodes: Sequence[Any], *_: Any) -> dict[str, Any]:
    """Return the bytes that each node reads and writes, and its FLOPs, 0 where not known."""
    return {
        "traffic": [_traffic(node) for node in nodes],
        "flops": [_flops(node) for node in nodes],
    }


def _traffic(node: Any) -> int:
    if not isinstance(node.node, ExternKernelOut):
        return int(node.get_read_write_buffers_sizes())
    # An operand that is a part of a bucket counts as that part.
    sides = (node.node, *node.node.inputs)
    return sum(prod(map(int, x.get_size())) * x.get_dtype().itemsize for x in sides)


def _flops(node: Any) -> int:
    """Return the FLOPs of a matrix product or of attention's gradients, else 0."""
    kernel = str(getattr(node.node, "op_overload", ""))
    count = {"aten.mm.out": mm_flop, "aten.addmm.out": addmm_flop}.get(kernel)
    if kernel == "aten._scaled_dot_product_flash_attention_for_cpu_backward.default":
        count = sdpa_backward_flop
    return int(count(*(x.get_size() for x in node.node.inputs[:4]))) if count else 0


def capture_backward(batch: int, bucket: int, edges: bool, mesh: Any) -> CapturedGraph:
    """Return the backward graph of a batch; with a bucket of 0 MB without the overlap scheduler."""

    def build() -> Any:
        return Transformer(mesh), (torch.randint(0, 8000, (batch, 1024)),), {}

    name = f"batch{batch}_{bucket}{'' if edges else '_free'}"
    with overlap_scheduler(bucket, edges) if bucket else ExitStack():
        graphs = capture(build, phase="train", model=name, observe=_work)
    (backward,) = (graph for graph in graphs if graph.phase == "bwd")
    extra = backward.document["extra"]
    # Without edges the order of least peak undoes the overlap, so that the scheduler's is kept.
    extra["own"] = extra["chosen"] if edges else "baseline"
    return backward


def main() -> None:
    dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    mesh = init_device_mesh("cpu", (8,))
    ways = [(0, True), *product(BUCKETS, (True, False))]
    for batch, (bucket, edges) in product(BATCHES, ways):
        graph = capture_backward(batch, bucket, edges, mesh)
        write(FOLDER / graph.file_name, graph)
        extra = graph.document["extra"]
        print(graph.file_name, len(extra["kinds"]), extra["peaks"], flush=True)


if __name__ == "__main__":
    main()
