"""Packings: valid on anything, and greedy by size equal to AITemplate's rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heuristics import PACKINGS
from optsched.check.packing import check_packing
from optsched.model.packing_problem import Gap, PackingProblem
from tests.heuristics import reference_packing


def random_problem(rng: np.random.Generator, count: int, most_size: int = 20) -> PackingProblem:
    start = rng.integers(0, 12, count)
    return PackingProblem(
        names=tuple(f"b{i}" for i in range(count)),
        start=start,
        end=start + rng.integers(0, 6, count),
        size=rng.integers(0, most_size, count),
        alignment=np.ones(count, np.int64),
        pin=np.full(count, -1, np.int64),
    )


def with_places(problem: PackingProblem, rng: np.random.Generator) -> PackingProblem:
    """Add alignments, and pins that do not contradict each other: a naive packing's offsets."""
    count = len(problem)
    problem = replace(problem, alignment=2 ** rng.integers(0, 5, count))
    pinned = rng.random(count) < 0.2
    return replace(problem, pin=np.where(pinned, PACKINGS["naive"](problem), -1))


def test_greedy_by_size_equals_reference(form: str) -> None:
    for seed in range(600):
        problem = random_problem(np.random.default_rng(seed), seed % 30, (3, 20, 2**50)[seed % 3])
        wanted = reference_packing.greedy_by_size(problem)
        assert PACKINGS["greedy_by_size"](problem).tolist() == wanted, seed


@pytest.mark.parametrize("name", PACKINGS)
def test_packings_are_valid(name: str, form: str) -> None:
    for seed in range(120):
        rng = np.random.default_rng(seed)
        problem = with_places(random_problem(rng, seed % 40), rng)
        offsets = PACKINGS[name](problem)
        slab = check_packing(problem, offsets.tolist())
        assert offsets.dtype == np.int64
        assert problem.max_load <= slab
        assert (offsets == PACKINGS[name](problem)).all()


def test_naive_shares_no_byte() -> None:
    problem = random_problem(np.random.default_rng(0), 20)
    assert PACKINGS["naive"](problem).tolist() == [0, *np.cumsum(problem.size)[:-1].tolist()]


def test_tightest_hole_and_lowest_hole() -> None:
    """At step 1 two holes are open between the pinned blocks: [2, 8) and [10, 13)."""
    problem = PackingProblem(
        names=("low", "middle", "high", "new"),
        start=np.array([0, 0, 0, 1]),
        end=np.array([3, 3, 3, 2]),
        size=np.array([2, 2, 2, 3]),
        alignment=np.ones(4, np.int64),
        pin=np.array([0, 8, 13, -1]),
    )
    assert PACKINGS["greedy_by_size"](problem)[3] == 10
    assert PACKINGS["first_fit_size"](problem)[3] == 2
    aligned = replace(problem, alignment=np.array([1, 1, 1, 4]))
    assert PACKINGS["greedy_by_size"](aligned)[3] == 4


def test_a_buffer_with_gaps_is_packed_whole() -> None:
    problem = PackingProblem(
        names=("a", "b"),
        start=np.array([0, 1]),
        end=np.array([3, 2]),
        size=np.array([4, 4]),
        alignment=np.ones(2, np.int64),
        pin=np.full(2, -1, np.int64),
        gaps=((Gap(1, 2),), ()),
    )
    for packing in PACKINGS.values():
        assert check_packing(problem, packing(problem).tolist()) == 8


def test_areas_beyond_64_bits() -> None:
    problem = PackingProblem(
        names=("thin", "wide"),
        start=np.array([0, 0]),
        end=np.array([1, 64]),
        size=np.array([2**60, 2**59]),
        alignment=np.ones(2, np.int64),
        pin=np.full(2, -1, np.int64),
    )
    assert PACKINGS["first_fit_area"](problem).tolist() == [2**59, 0]


def test_empty_problem(form: str) -> None:
    problem = random_problem(np.random.default_rng(0), 0)
    for packing in PACKINGS.values():
        assert packing(problem).shape == (0,)
