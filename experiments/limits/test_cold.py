"""A first run, whose kernels are not compiled yet, finds what later runs of the heuristics find."""

from __future__ import annotations

import pytest

from experiments.limits.cold import CAPTURED, GENERATED, compared, made

LIMIT = 3.0
FIRST = 3.0
"""Seconds of the processor until the first plan of a graph of about 1,000 ops."""


@pytest.mark.timed
@pytest.mark.parametrize("name", [*GENERATED, *CAPTURED])
def test_a_first_run_is_no_worse_than_the_heuristics_of_later_ones(name: str) -> None:
    heuristics, cold, _ = compared(name, LIMIT)
    assert cold.slab <= heuristics.slab
    assert cold.first < FIRST or len(made(name).ops) > 2_000
