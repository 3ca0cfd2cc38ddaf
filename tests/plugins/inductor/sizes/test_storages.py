"""Inputs of a graph that are not tensors have no bytes: device meshes and process groups."""

from __future__ import annotations

from typing import Any

import pytest

from optsched import plugins

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch import nn  # noqa: E402
from torch._inductor import config  # noqa: E402

from optsched.plugins.inductor import enabled  # noqa: E402
from optsched.plugins.inductor.capture import capture  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, no_kernels  # noqa: E402


def test_a_graph_of_distributed_tensors_without_collectives_is_planned(mesh: Any) -> None:
    from torch.distributed.tensor import Replicate, distribute_tensor

    x = distribute_tensor(torch.randn(64, 64), mesh, [Replicate()])
    with no_kernels(), config.patch(NO_CACHE), enabled(time_limit=1, measure=True):
        torch.compile(lambda x: [(x * k).tanh() @ x.t() for k in (1.0, 2.0, 3.0)])(x)
    (record,) = plugins.records()
    assert record.planned == record.measured == 4 * 64 * 64 * 4


class Gathered(nn.Module):
    """A layer whose weight is put together from its shards in each call."""

    def __init__(self, mesh: Any) -> None:
        super().__init__()
        from torch.distributed.tensor import Shard, distribute_tensor

        self.weight = nn.Parameter(distribute_tensor(torch.randn(512, 64), mesh, [Shard(0)]))

    def forward(self, x: Any) -> Any:
        from torch.distributed.tensor import Replicate

        return x @ self.weight.redistribute(placements=[Replicate()]).to_local().t()


def test_a_graph_with_a_process_group_is_captured(mesh: Any) -> None:
    found = capture(lambda: (Gathered(mesh), (torch.randn(32, 64),), {}), phase="train")
    assert [graph.file_name for graph in found] == ["Gathered.fwd.json.gz", "Gathered.bwd.json.gz"]
