"""Every packer gives the offsets of its reference implementation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from heuristics import PACKINGS
from heuristics.packings import common
from optsched.model.packing_problem import PackingProblem
from tests.heuristics import reference_packers as reference
from tests.heuristics.test_packings import random_problem, with_places

SEQUENCES: dict[str, tuple[Callable[[reference.Rows], list[int]], bool]] = {
    "greedy_by_size": (reference.by_size_alone, True),
    "greedy_by_profile_breadth": (reference.by_breadth, True),
    "first_fit_arrival": (reference.by_start_alone, False),
    "first_fit_size": (reference.by_size, False),
    "tflm_greedy": (reference.by_size_last_first, False),
    "first_fit_area": (reference.by_area, False),
    "first_fit_start": (reference.by_start, False),
    "first_fit_lifetime": (reference.by_lifetime, False),
    "first_fit_conflicts": (reference.by_conflicts, False),
    "first_fit_breadth": (reference.by_breadth, False),
    "best_fit_area": (reference.by_area, True),
    "best_fit_start": (reference.by_start, True),
    "best_fit_lifetime": (reference.by_lifetime, True),
    "best_fit_conflicts": (reference.by_conflicts, True),
}


def problems(count: int, *, pins: bool = True) -> list[PackingProblem]:
    found = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, seed % 24, (3, 20, 2**50)[seed % 3])
        if seed % 2:
            problem = with_places(problem, rng)
            if not pins or seed % 4 == 1:
                problem = replace(problem, pin=np.full(len(problem), -1))
        found.append(problem)
    return found


def solid_offsets(name: str, problem: PackingProblem) -> dict[int, int]:
    offsets = PACKINGS[name](problem).tolist()
    return {i: offsets[i] for i in reference.Rows(problem).ids}


def test_every_packer_has_a_reference() -> None:
    document = {"naive", "linear_scan", "greedy_by_breadth", "greedy_by_longest_and_size"}
    assert set(SEQUENCES) | document | {"skyline", "hill_climb"} == set(PACKINGS)


@pytest.mark.parametrize("many", [0, 1_000], ids=["indexed", "scanned"])
@pytest.mark.parametrize("name", SEQUENCES)
def test_offsets_equal_the_reference(
    name: str, many: int, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "MANY", many)
    sequence, tightest = SEQUENCES[name]
    for problem in problems(120):
        rows = reference.Rows(problem)
        wanted = reference.in_turn(rows, sequence(rows), tightest=tightest)
        assert solid_offsets(name, problem) == wanted


@pytest.mark.parametrize("blocks", [1, 2, 8, 64])
def test_blocks_of_the_index_change_nothing(
    blocks: int, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "MANY", 0)
    for problem in problems(60):
        monkeypatch.setattr(common, "BLOCKS", 16)
        wanted = PACKINGS["first_fit_size"](problem), PACKINGS["greedy_by_size"](problem)
        monkeypatch.setattr(common, "BLOCKS", blocks)
        found = PACKINGS["first_fit_size"](problem), PACKINGS["greedy_by_size"](problem)
        assert np.array_equal(wanted, found)


def test_first_fit_of_arrivals_is_a_free_list(form: str) -> None:
    for problem in problems(400, pins=False):
        if (problem.pin < 0).all():
            wanted = reference.free_list(reference.Rows(problem))
            assert solid_offsets("first_fit_arrival", problem) == wanted


def test_skyline_equals_the_reference(form: str) -> None:
    for problem in problems(400, pins=False):
        if (problem.pin < 0).all():
            assert solid_offsets("skyline", problem) == reference.skyline(reference.Rows(problem))


def test_hill_climb_is_not_above_its_start(form: str) -> None:
    better = 0
    for problem in problems(150):
        first = problem.slab_size(PACKINGS["first_fit_size"](problem))
        slab = problem.slab_size(PACKINGS["hill_climb"](problem))
        assert problem.max_load <= slab <= first
        better += slab < first
    assert better > 5
