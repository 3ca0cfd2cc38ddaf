"""TorchScript's text as PyTorch prints it, and what its ops share, asked of PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from optsched.check.replay import replay_plan
from optsched.formats.torchscript import PERHAPS_VIEWS, VIEWS, read_torchscript
from optsched.model.memory_model import MemoryModel
from optsched.reports.results import describe
from optsched.solver.pipeline import solve

torch = pytest.importorskip("torch", reason="traces modules")

CALLS: dict[str, Callable[[Any], Any]] = {
    "alias": torch.ops.aten.alias,
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2)),
    "chunk": lambda x: x.chunk(2),
    "detach": lambda x: x.detach(),
    "diagonal": lambda x: x.diagonal(),
    "expand": lambda x: x[:1].expand(3, 4),
    "expand_as": lambda x: x[:1].expand_as(x),
    "hsplit": lambda x: x.hsplit(2),
    "movedim": lambda x: x.movedim(0, 1),
    "narrow": lambda x: x.narrow(0, 1, 2),
    "numpy_T": lambda x: x.T,
    "permute": lambda x: x.permute(1, 0),
    "select": lambda x: x.select(0, 1),
    "slice": lambda x: x[1:3],
    "split": lambda x: x.split(2),
    "split_with_sizes": lambda x: x.split([1, 3]),
    "squeeze": lambda x: x[:1].squeeze(0),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "swapdims": lambda x: x.swapdims(0, 1),
    "t": lambda x: x.t(),
    "tensor_split": lambda x: x.tensor_split(2),
    "transpose": lambda x: x.transpose(0, 1),
    "unbind": lambda x: x.unbind(),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "view": lambda x: x.view(16),
    "view_as": lambda x: x.view_as(x),
    "vsplit": lambda x: x.vsplit(2),
}


def test_every_view_that_is_known_by_name_shares_bytes() -> None:
    assert set(CALLS) == VIEWS
    for name, call in CALLS.items():
        x = torch.arange(16.0).reshape(4, 4)
        found = call(x)
        for part in found if isinstance(found, tuple | list) else [found]:
            assert part.untyped_storage().data_ptr() == x.untyped_storage().data_ptr(), name


def test_what_may_be_a_copy_is_sometimes_one() -> None:
    x = torch.arange(16.0).reshape(4, 4)
    for same, other in ((x.contiguous(), x.t().contiguous()), (x.reshape(16), x.t().reshape(16))):
        assert same.data_ptr() == x.data_ptr() != other.data_ptr()
    assert {"contiguous", "reshape", "to", "flatten"} <= PERHAPS_VIEWS


class Attention(torch.nn.Module):
    """Views of all kinds, a write in place, an unknown size and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)

    def forward(self, x: Any) -> tuple[Any, Any]:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        weights = torch.softmax(q @ k.transpose(-1, -2), -1)
        y = self.out((weights @ v).contiguous().view(-1, 16)).add_(1.0)
        return torch.relu(y), torch.nonzero(weights.sum(-1) > 1)


def test_a_traced_module_is_read_solved_and_executed() -> None:
    traced = torch.jit.trace(Attention().eval(), torch.randn(2, 8, 16))
    graph = read_torchscript(str(traced.inlined_graph), name="attention")
    assert len(describe(graph)["unmanaged"]) >= 2
    model = MemoryModel(align=64).apply(graph)
    result = solve(model)
    assert result.status == "optimal"
    assert result.plan is not None
    replay_plan(model, result.plan)
    # 2 x 8 x 48 floats of `qkv` are live beside the 2 x 8 x 8 products.
    assert result.peak is not None
    assert result.peak >= 4 * (2 * 8 * 48 + 2 * 8 * 8)


def test_frozen_graphs_lose_their_shapes_and_all_is_unmanaged() -> None:
    traced = torch.jit.trace(Attention().eval(), torch.randn(2, 8, 16))
    graph = read_torchscript(str(torch.jit.freeze(traced).graph))
    assert all(b.external or not b.size for b in graph.buffers)
    assert len(describe(graph)["unmanaged"]) > 5
