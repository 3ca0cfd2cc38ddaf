"""Graphs of training steps: the planned peak is what PyTorch holds when it runs them op by op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from tests.fuzz.fx_steps import AS_HELD, TRACED, check_step  # noqa: E402
from tests.support.random_steps import RandomStep  # noqa: E402
from tests.support.steps import STEPS  # noqa: E402

SAMPLE = ("attention_grouped", "nested_checkpoint", "meta_learning", "script_language", "regions")


@pytest.mark.parametrize("name", SAMPLE)
def test_steps_hold_the_planned_bytes(name: str) -> None:
    assert set(check_step(STEPS[name])) == {AS_HELD}


@pytest.mark.parametrize("seed", [0, 3])
def test_random_steps_hold_the_planned_bytes(seed: int) -> None:
    assert set(check_step(RandomStep(seed).make)) == {AS_HELD}


def test_sizes_that_pytorch_traces_otherwise_are_named() -> None:
    """The means of a layer norm of half precision are traced as such, and are not."""
    forward, backward = check_step(STEPS["half_precision"])
    assert forward.startswith(TRACED)
    assert forward.endswith("getitem_1 +96, getitem_2 +96")
    assert backward == AS_HELD


def test_a_saved_view_of_a_weight_is_not_freed() -> None:
    """Transposed weights are saved, as is the input; only what the forward graph made goes."""
    graphs: list[Any] = []

    def make() -> Callable[[], object]:
        x, w = torch.randn(8, 16), torch.randn(16, 32, requires_grad=True)
        compiled = torch.compile(lambda x: ((x @ w).tanh() @ w.t()).tanh())
        return lambda: compiled(x.requires_grad_()).sum().backward()

    assert check_step(make, graphs=graphs) == [AS_HELD, AS_HELD]
    policies = {b.name: b.input for b in graphs[1].buffers if b.input is not None}
    freed = {name for name, policy in policies.items() if policy == "freed"}
    assert "tanh" in freed
    assert not any(name.startswith("t_") for name in freed)
    assert any(name.startswith("t_") for name in policies)


def test_a_scattered_view_copies_the_whole_storage() -> None:
    def make() -> Callable[[], object]:
        def run(x: Any) -> Any:
            rows = x.clone()
            rows[2:5, 1:3].mul_(2)
            return rows

        compiled, x = torch.compile(run), torch.randn(64, 8, requires_grad=True)
        return lambda: compiled(x).sum().backward()

    assert check_step(make) == [AS_HELD, AS_HELD]
