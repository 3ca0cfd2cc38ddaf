"""Peaks that the bytes of every split make impossible: convolutions of large weights."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest

from optsched import plugins

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch._inductor import config  # noqa: E402
from torch._inductor.custom_graph_pass import CustomPartitionerFn  # noqa: E402

from optsched.plugins.inductor import enabled  # noqa: E402
from optsched.plugins.inductor.recompute.certain_bytes import blocker, certain_graph  # noqa: E402
from optsched.plugins.inductor.recompute.hidden_bytes import HiddenBytes  # noqa: E402
from optsched.plugins.inductor.recompute.joint_step import JointStep, PeakSettings  # noqa: E402
from optsched.plugins.inductor.recompute.recipe import Recipe  # noqa: E402
from optsched.runtime.clock import Clock  # noqa: E402
from optsched.runtime.limits import Limits  # noqa: E402
from optsched.solver.recompute.solve import Planner  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, no_kernels  # noqa: E402

WEIGHT = 4 * 3 * 3 * 64 * 64
LAYERS = 4


def network() -> Any:
    """Return layers of large weights, small results and normalizations."""
    torch.manual_seed(0)
    layers = [
        layer
        for _ in range(LAYERS)
        for layer in (torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.BatchNorm2d(64))
    ]
    return torch.nn.Sequential(*layers, torch.nn.ReLU())


class Kept(CustomPartitionerFn):  # type: ignore[misc]
    """Partitioner that keeps the joint graph, with PyTorch's splits simulated."""

    def __init__(self) -> None:
        self.step: JointStep | None = None
        self.peaks: list[int] = []

    def __deepcopy__(self, _: Any) -> Kept:
        return self

    def uuid(self) -> str:
        return "kept"

    def __call__(self, gm: Any, joint_inputs: Sequence[Any], **how: Any) -> Any:
        settings = PeakSettings(1 << 50, 1.0, split="peak")
        self.step = JointStep(settings, "joint", copy.deepcopy(gm), joint_inputs, how)
        for split in self.step.splits:
            memory = self.step.memory(split.modules, closely=True)
            assert memory is not None
            self.peaks.append(memory.peak)
        return Recipe(1.0).split(gm, joint_inputs, how)


@pytest.fixture(scope="module")
def kept() -> Kept:
    torch._dynamo.reset()
    found = Kept()
    with no_kernels(), config.patch({**NO_CACHE, "custom_partitioner_fn": found}):
        torch.compile(network())(torch.randn(2, 64, 4, 4)).square().mean().backward()
    return found


def words(kept: Kept, peak: int, hidden: HiddenBytes | None = None) -> str:
    step = kept.step
    assert step is not None
    known = hidden or step.simulated[step.default].hidden
    return blocker(step.joint, step.outputs, known, peak, Clock.of(Limits(seconds=10)))


def test_copies_or_gradients_of_all_layers_are_live(kept: Kept) -> None:
    peak = min(kept.peaks)
    assert not any(words(kept, x) for x in kept.peaks)
    # Nearly all of the least step is certain: a copy or a gradient of each layer, and one of both.
    assert "copy' (147,456 bytes)" in words(kept, peak * 9 // 10)
    assert peak * 9 // 10 > (LAYERS + 1) * WEIGHT
    # Without what the lowered split has shown, gradients alone are certain.
    nothing = HiddenBytes({}, {})
    assert not words(kept, peak * 9 // 10, nothing)
    assert words(kept, LAYERS * WEIGHT - 1, nothing)


def test_a_peak_is_impossible_only_if_no_order_has_it(kept: Kept) -> None:
    step = kept.step
    assert step is not None
    graph = certain_graph(step.joint, step.outputs, step.simulated[step.default].hidden)
    # No op of the graph makes another one cheaper by running again, so orders tell all.
    planner = Planner(graph, ("end of the forward graph",))
    least = planner.find_base(Clock.of(Limits(seconds=5))).peak
    assert not words(kept, least)
    assert words(kept, least * 97 // 100)


def answer_without_plans(peak: int) -> str:
    """Return the answer for the network's step."""
    torch._dynamo.reset()
    plugins.forget()
    with (
        mock.patch.object(Planner, "plan", side_effect=AssertionError("a plan was made")),
        no_kernels(),
        config.patch(NO_CACHE),
        enabled(peak=peak, time_limit=60),
    ):
        torch.compile(network())(torch.randn(2, 64, 4, 4)).square().mean().backward()
    (record,) = (r for r in plugins.records() if "joint" in r.name)
    return record.answer


def test_a_step_is_refused_before_any_plan_is_made() -> None:
    peak = (LAYERS + 1) * WEIGHT
    answer = answer_without_plans(peak)
    assert answer.startswith(
        f"no step fits {peak:,} bytes, if convolutions take what they do in PyTorch's split: "
        "op 'convolution_backward"
    )
    assert "more are held beside it in every schedule" in answer


def test_a_default_split_that_fits_and_runs_nothing_again_needs_no_plan(kept: Kept) -> None:
    assert kept.step is not None
    assert kept.step.default_split.extra == 0
    answer = answer_without_plans(kept.peaks[0])
    assert answer.startswith(f"fits {kept.peaks[0]:,} bytes: ")
    assert "for 0.00 % more compute (PyTorch's own split" in answer
