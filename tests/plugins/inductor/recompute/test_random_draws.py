"""Random numbers are drawn once: splits of PyTorch's that draw them again are not taken."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch import nn  # noqa: E402
from torch._inductor import config  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from optsched.plugins.inductor import enabled  # noqa: E402
from optsched.plugins.inductor.recompute import joint_step, models  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, no_kernels  # noqa: E402


class Noisy(nn.Module):
    """Noise is added between two wide layers, as in a variational autoencoder."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.mix, self.down = nn.Linear(32, 128), nn.Linear(128, 64), nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        mean, spread = self.mix(torch.tanh(self.up(x))).chunk(2, -1)
        return self.down(mean + torch.randn_like(mean) * torch.exp(spread))


class Dropping(nn.Module):
    """Layers with dropout, the first of them checkpointed by the program."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 128), nn.Dropout(0.3), nn.Tanh(), nn.Linear(128, 32))
            for _ in range(3)
        )

    def forward(self, x: Any) -> Any:
        first, *others = self.layers
        x = x + checkpoint(first, x, use_reentrant=False)
        for layer in others:
            x = x + layer(x)
        return x


def splits(kind: type[nn.Module], monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], list[Any]]:
    """Return PyTorch's splits of a step at all budgets, and those that a plan may take."""
    whole, part, made = list[Any](), models._partition, list[Any]()
    monkeypatch.setattr(models, "_partition", lambda *args: whole.append(part(*args)) or whole[-1])

    class Noted(models.TorchSplits):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(joint_step, "TorchSplits", Noted)
    torch._dynamo.reset()
    with no_kernels(), config.patch(NO_CACHE), enabled(peak="100MiB", time_limit=1):
        compiled: Any = torch.compile(kind())
        compiled(torch.randn(256, 32)).square().mean().backward()
    (found,) = made
    return whole, [split.modules for split in found.all]


def draws_again(modules: Any) -> bool:
    """Return True if the backward graph draws seeds."""
    calls = modules[1].graph.find_nodes(
        op="call_function", target=torch.ops.prims.inductor_seeds.default
    )
    return bool(calls)


@pytest.mark.parametrize("kind", [Noisy, Dropping])
def test_no_split_draws_again(kind: type[nn.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's own splits at small budgets do: their gradients are those of other noise."""
    whole, taken = splits(kind, monkeypatch)
    assert any(map(draws_again, whole))
    assert taken
    assert not any(map(draws_again, taken))
