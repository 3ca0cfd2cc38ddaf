"""Compiled steps hold the planned bytes; a sample of `python -m tests.fuzz held_steps`."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from tests.fuzz.held_steps import AS_PLANNED, NAMED, kind_of, measure_step  # noqa: E402
from tests.support.steps import STEPS  # noqa: E402

SAMPLE = ("encoder_layer", "routed", "nested_checkpoint", "per_sample_gradients", "regions")
SAMPLE += ("replaced_gradient", "cached_generation", "script_adversaries")


@pytest.mark.parametrize("name", SAMPLE)
def test_planned_bytes_are_held(name: str) -> None:
    records = measure_step(STEPS[name])
    assert records
    assert {kind_of(record, record) for record in records} == {AS_PLANNED}, records
    assert all(record.bound <= record.measured for record in records if record.bound)


def test_a_call_that_keeps_the_graph_and_the_next_one_are_both_considered() -> None:
    """The second call frees what the first had to keep: the order needs no more in either."""
    forward, backward = measure_step(STEPS["gradient_of_two_losses"])
    assert kind_of(forward, forward) == AS_PLANNED
    assert kind_of(backward, backward) == NAMED
    assert "its caller may hold 104,448 bytes more or fewer" in backward.note
    assert "inputs of 104,448 bytes that the plan leaves to the program are freed" in str(backward)
    # Inductor's own order: another one needs less in the first call, and 8,704 more in the second.
    assert (backward.planned, backward.measured) == (91_392, 133_376)


def test_blocks_of_a_kernel_library_are_named() -> None:
    """On this machine oneDNN packs the weights of a convolution in blocks of its own."""
    records = measure_step(STEPS["batch_norm"])
    for record in records:
        assert record.measured == record.planned
        if record.measured_apart:
            assert f"and {record.measured_apart:,} that kernel libraries take" in str(record)
