"""Plans of repeats as checkpoints of modules: what PyTorch's eager mode then holds, to the byte."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from optsched import capture_step, peak_memory, recompute
from optsched.reports.front import recompute_record, recompute_text
from tests.support.small_step import small_step

torch = pytest.importorskip("torch")
dispatch = pytest.importorskip("torch.utils._python_dispatch")
TANGENT = 4
"""Bytes of the gradient of the loss, which our graphs have as an input of the caller."""


class Live(dispatch.TorchDispatchMode):  # type: ignore[misc, name-defined]
    """Counts the bytes of storages that ops make and that something still holds."""

    def __init__(self, known: Any) -> None:
        super().__init__()
        self.live = self.peak = 0
        self.known = {x.untyped_storage()._cdata for x in known}

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), named: Any = None) -> Any:
        out = op(*args, **(named or {}))
        for x in torch.utils._pytree.tree_leaves(out):
            if isinstance(x, torch.Tensor) and x.untyped_storage()._cdata not in self.known:
                storage = x.untyped_storage()
                self.known.add(storage._cdata)
                self.live += storage.nbytes()
                self.peak = max(self.peak, self.live)
                weakref.finalize(storage, self.free, storage._cdata, storage.nbytes())
        return out

    def free(self, key: int, count: int) -> None:
        self.known.discard(key)
        self.live -= count


class Block(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)
        self.gelu = torch.nn.GELU()

    def forward(self, x: Any) -> Any:
        return x + self.narrow(self.gelu(self.wide(x)))


def network() -> Any:
    return torch.nn.Sequential(*(Block() for _ in range(4)))


def loss(output: Any) -> Any:
    return output.square().mean()


def measured(net: Any, x: Any) -> int:
    with Live([x, *net.parameters()]) as count:
        loss(net(x)).backward()
    return int(count.peak)


def checkpointed(net: Any, modules: tuple[str, ...]) -> Any:
    def again(forward: Any) -> Any:
        return lambda *given: torch.utils.checkpoint.checkpoint(
            forward, *given, use_reentrant=False
        )

    for name in modules:
        module = net.get_submodule(name)
        module.forward = again(module.forward)
    return net


def test_checkpoints_need_what_eager_pytorch_holds() -> None:
    x = torch.randn(256, 64)
    step = capture_step(network(), x, loss)
    own = peak_memory(step, range(len(step.ops)))
    assert measured(network(), x) == own + TANGENT
    seen = set()
    for share in (0.9, 0.8, 0.6):
        result = recompute(step, int(share * own))
        found = result.checkpoints
        assert found is not None
        assert measured(checkpointed(network(), found.modules), x) == found.peak + TANGENT
        assert found.peak < own
        named = {op.name: op for op in step.ops}
        assert {*found.lost, *found.added} <= named.keys()
        assert not {*found.lost} & {*found.added}
        assert f"  as torch.utils.checkpoint of {found.modules[0]}" in recompute_text(result)
        assert recompute_record(result)["checkpoints"]["peak"] == found.peak
        seen.add(found.modules)
    assert len(seen) > 1


def test_ops_of_a_step_are_named_by_their_module() -> None:
    names = [op.name for op in capture_step(network(), torch.randn(8, 64), loss).ops]
    assert {"0.wide/addmm", "0.gelu/gelu", "0/add", "3.narrow/addmm_7", "mean"} <= {*names}
    assert len({*names}) == len(names)


def test_plans_without_modules_or_repeats_have_no_checkpoints() -> None:
    result = recompute(small_step(), 11)
    assert result.repeats or result.sequence is None
    assert result.checkpoints is None
    step = capture_step(network(), torch.randn(256, 64), loss)
    assert recompute(step, "1GiB").checkpoints is None
