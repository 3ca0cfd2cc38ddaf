"""Checkpoint tags of the program: a split of PyTorch's that fits is taken, which keeps to them."""

from __future__ import annotations

from typing import Any

import pytest

from optsched import plugins

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch import nn  # noqa: E402
from torch._functorch.partitioners import has_recomputable_ops  # noqa: E402
from torch._inductor import config  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from optsched.plugins.inductor import enabled  # noqa: E402
from optsched.plugins.inductor.recompute import calibrate, joint_step  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, no_kernels  # noqa: E402


class Layer(nn.Module):
    """A wide layer between two narrow ones."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(32, 256), nn.Linear(256, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.sigmoid(self.up(x)) * x.sum(1, keepdim=True))


class Tagged(nn.Module):
    """Layers; the first one is checkpointed by the program."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, *others = self.layers
        x = x + checkpoint(first, x, use_reentrant=False)
        for layer in others:
            x = x + layer(x)
        return x


def test_a_split_of_pytorchs_that_fits_is_taken_and_runs_again_what_is_tagged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tagged, taken = list[str](), list[Any]()
    made = joint_step.JointStep.models

    def models(self: Any) -> Any:
        assert has_recomputable_ops(self.joint)
        nodes = self.joint.graph.find_nodes(
            op="call_function", target=torch.ops.aten.sigmoid.default
        )
        tagged.extend(node.name for node in nodes if node.meta.get("recompute") is not None)
        return made(self)

    monkeypatch.setattr(joint_step.JointStep, "models", models)
    simulate = calibrate.simulate_step
    monkeypatch.setattr(
        joint_step, "simulate_step", lambda x, *a, **k: taken.append(x) or simulate(x, *a, **k)
    )
    torch._dynamo.reset()
    plugins.forget()
    with no_kernels(), config.patch(NO_CACHE), enabled(peak=1_150_000, time_limit=2):
        compiled: Any = torch.compile(Tagged())
        compiled(torch.randn(256, 32)).square().mean().backward()
    (record,) = (r for r in plugins.records() if "joint" in r.name)
    assert "PyTorch's own split" in record.answer, record
    assert record.answer.startswith("fits 1,150,000 bytes"), record
    # In every split that was tried the tagged op is in both graphs.
    (name,) = tagged
    assert len(taken) > 1
    for forward, backward in taken:
        for module in (forward, backward):
            calls = [node.name for node in module.graph.nodes if node.op == "call_function"]
            assert name in calls


def test_where_none_fits_the_smallest_of_them_runs_and_is_named() -> None:
    torch._dynamo.reset()
    plugins.forget()
    with no_kernels(), config.patch(NO_CACHE), enabled(peak=700_000, time_limit=2):
        compiled: Any = torch.compile(Tagged())
        compiled(torch.randn(256, 32)).square().mean().backward()
    (record,) = (r for r in plugins.records() if "joint" in r.name)
    assert record.before is not None
    assert record.after is not None
    assert 700_000 < record.after < record.before
    assert record.answer.startswith(
        "does not fit 700,000 bytes: no smaller step was found than the split that runs, which "
        f"needs {record.after:,} at op "
    )
