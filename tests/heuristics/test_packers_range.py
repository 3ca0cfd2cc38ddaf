"""Sizes and alignments near 2**62: packers place exactly or refuse by name, and never overflow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heuristics import PACKINGS
from heuristics.packings.common import place_exactly, place_in_turn
from optsched.check.packing import check_packing
from optsched.errors import GraphError
from optsched.model.packing_problem import PackingProblem
from tests.support.packing_instances import problem_of, random_problem


def one_step(sizes: list[int], alignment: list[int]) -> PackingProblem:
    return problem_of([(0, 1, size) for size in sizes], alignment)


@pytest.mark.parametrize("tightest", [False, True])
def test_exact_placing_is_that_of_the_kernel(tightest: bool) -> None:
    for seed in range(150):
        random = np.random.default_rng([71, seed])
        problem = random_problem(random, ["", "a", "p", "ap"][seed % 4], buffers=14)
        turn = random.permutation(len(problem))
        turn = turn[np.argsort(problem.pin[turn] < 0, kind="stable")]
        expected = place_in_turn(problem, turn, tightest=tightest)
        assert place_exactly(problem, turn, tightest=tightest).tolist() == expected.tolist()


def test_two_alignments_of_half_the_range_have_a_place() -> None:
    """Sums of sizes and alignments leave 64 bits, the best packing does not."""
    problem = one_step([1, 1, 3], [2**62, 2**62, 1])
    assert not problem.is_in_range
    packed = 0
    for make in PACKINGS.values():
        try:
            offsets = make(problem)
        except GraphError:
            continue  # the third comes first, and pushes the others up
        assert check_packing(problem, offsets.tolist()) <= 2**62 + 4
        packed += 1
    assert packed >= 3


@pytest.mark.parametrize("name", PACKINGS)
def test_what_would_end_beyond_is_refused(name: str) -> None:
    problem = one_step([1, 1, 1], [2**62] * 3)
    with pytest.raises(GraphError, match="would end beyond"):
        PACKINGS[name](problem)


@pytest.mark.parametrize("name", PACKINGS)
def test_pins_near_the_end_of_the_range(name: str) -> None:
    problem = one_step([2**60, 2**60, 5], [1, 1, 2**40])
    problem = replace(problem, pin=np.array([-1, 2**62, -1]))
    offsets = PACKINGS[name](problem)
    check_packing(problem, offsets.tolist())
