"""Bytes that each call needs with every split: no split of random steps is simulated with fewer."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest

torch = pytest.importorskip("torch")

from torch._inductor import config  # noqa: E402
from torch._inductor.custom_graph_pass import CustomPartitionerFn  # noqa: E402

from optsched.plugins.inductor.reading.support import KeptOrderError  # noqa: E402
from optsched.plugins.inductor.recompute.certain_bytes import blocker  # noqa: E402
from optsched.plugins.inductor.recompute.joint_step import JointStep, PeakSettings  # noqa: E402
from optsched.plugins.inductor.recompute.recipe import Recipe  # noqa: E402
from optsched.runtime.clock import Clock  # noqa: E402
from optsched.runtime.limits import Limits  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, no_kernels  # noqa: E402
from tests.support.random_steps import RandomStep  # noqa: E402

SETTINGS = PeakSettings(1 << 50, 1.0, split="peak")


class Checked(CustomPartitionerFn):  # type: ignore[misc]
    """Partitioner that simulates PyTorch's splits of each joint graph, and takes its default."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, int]] = []

    def uuid(self) -> str:
        return "checked"

    def __call__(self, gm: Any, joint_inputs: Sequence[Any], **how: Any) -> Any:
        try:
            step = JointStep(SETTINGS, "joint", copy.deepcopy(gm), joint_inputs, how)
            for split in step.splits[::3]:
                memory = step.memory(split.modules, closely=True)
                assert memory is not None
                for least, peak in zip(step.least, memory.graphs, strict=True):
                    self.rows.append((least.words, least.size, peak))
                hidden, peak = step.simulated[step.default].hidden, max(memory.graphs)
                clock = Clock.of(Limits(seconds=10))
                words = blocker(step.joint, step.outputs, hidden, peak, clock)
                self.rows.append((words, peak + bool(words), peak))
        except KeptOrderError:
            # Effects and sizes without an upper end: such a graph has no plan.
            pass
        return Recipe(1.0).split(gm, joint_inputs, how)


@pytest.mark.parametrize("seed", [0, 2, 6, 7, 13, 14])
def test_no_split_needs_fewer_bytes(seed: int) -> None:
    torch._dynamo.reset()
    checked = Checked()
    how = {**NO_CACHE, "custom_partitioner_fn": checked}
    with (
        no_kernels(),
        config.patch(how),
        mock.patch.object(Checked, "__deepcopy__", lambda x, _: x, create=True),
    ):
        RandomStep(seed).make()()
    wrong = [row for row in checked.rows if row[2] < row[1]]
    assert not wrong
    assert checked.rows
