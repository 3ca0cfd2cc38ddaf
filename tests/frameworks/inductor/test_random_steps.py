"""Random training steps allocate the planned bytes, or are not changed, with a reason.

A few of those that `experiments/runtimes/inductor` measures (`calls`), one per kind of step.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from tests.support.planned_calls import plan_and_measure  # noqa: E402
from tests.support.random_steps import KINDS, LOSSES, RandomStep  # noqa: E402

SEEDS = (6, 13, 20, 3, 10, 17)


def test_the_sample_has_all_kinds_and_places_of_the_loss() -> None:
    steps = [RandomStep(seed) for seed in SEEDS]
    assert {step.kind for step in steps} == set(KINDS)
    assert {step.loss for step in steps} == set(LOSSES)


@pytest.mark.parametrize("seed", SEEDS)
def test_planned_is_measured(seed: int) -> None:
    calls = plan_and_measure(RandomStep(seed, ops=6).make, seed=seed)
    assert calls
    for call in calls:
        assert call.is_as_planned or call.is_left_alone, call
    assert sum(call.is_as_planned for call in calls) > len(calls) / 2
