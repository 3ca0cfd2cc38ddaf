"""Every packer: valid with alignment, pins and gaps; deterministic; never below the max load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heuristics import PACKINGS
from optsched.check.packing import check_packing
from optsched.errors import PlanError
from optsched.model.packing_problem import Gap, PackingProblem
from tests.heuristics.test_packings import random_problem, with_places
from tests.support.families.traces import training_trace


def with_gaps(problem: PackingProblem, rng: np.random.Generator) -> PackingProblem:
    """Gaps in some of the live ranges, half of them with a window."""
    gaps: list[tuple[Gap, ...]] = []
    for start, end, size in zip(problem.start, problem.end, problem.size, strict=True):
        if end - start < 3 or rng.random() < 0.5:
            gaps.append(())
            continue
        low = int(rng.integers(0, size + 1))
        window = None if rng.random() < 0.5 else (low, int(rng.integers(low, size + 1)))
        gaps.append((Gap(int(start) + 1, int(end) - 1, window),))
    return replace(problem, gaps=tuple(gaps))


def problem_of(
    rows: list[tuple[int, int, int]], pin: tuple[int, ...] | None = None
) -> PackingProblem:
    table = np.array(rows, np.int64).reshape(-1, 3)
    return PackingProblem(
        names=tuple(f"b{i}" for i in range(len(rows))),
        start=table[:, 0].copy(),
        end=table[:, 1].copy(),
        size=table[:, 2].copy(),
        alignment=np.ones(len(rows), np.int64),
        pin=np.full(len(rows), -1) if pin is None else np.array(pin),
    )


@pytest.mark.parametrize("name", PACKINGS)
def test_random_problems(name: str) -> None:
    for seed in range(60 if name == "hill_climb" else 200):
        rng = np.random.default_rng([1, seed])
        problem = random_problem(rng, int(rng.integers(1, 45)), (5, 30, 2**40)[seed % 3])
        problem = with_gaps(with_places(problem, rng), rng)
        offsets = PACKINGS[name](problem)
        assert check_packing(problem, offsets.tolist()) >= problem.max_load
        assert (offsets[problem.pin >= 0] == problem.pin[problem.pin >= 0]).all()


@pytest.mark.parametrize("repeated", [True, False])
@pytest.mark.parametrize("name", PACKINGS)
def test_traces_like_those_of_training(name: str, repeated: bool) -> None:
    problem = training_trace(1_500, 3, repeated=repeated)
    rng = np.random.default_rng(3)
    problem = replace(problem, alignment=2 ** rng.integers(0, 9, len(problem)))
    offsets = PACKINGS[name](problem)
    slab = check_packing(problem, offsets.tolist())
    assert problem.max_load <= slab
    assert name == "naive" or slab < 1.2 * problem.max_load
    assert (offsets == PACKINGS[name](problem)).all()
    pinned = rng.random(len(problem)) < 0.02
    problem = replace(problem, pin=np.where(pinned, offsets, -1))
    assert check_packing(problem, PACKINGS[name](problem).tolist()) >= problem.max_load


@pytest.mark.parametrize("name", PACKINGS)
def test_hollow_buffers_are_in_nobodys_way(name: str, form: str) -> None:
    rows = [(0, 4, 0), (2, 2, 9), (0, 4, 6), (1, 3, 2), (3, 3, 0)]
    problem = problem_of(rows)
    assert check_packing(problem, PACKINGS[name](problem).tolist()) == (
        17 if name == "naive" else 8
    )
    problem = problem_of(rows, pin=(3, 1, -1, -1, 7))
    offsets = PACKINGS[name](problem)
    check_packing(problem, offsets.tolist())
    assert offsets[[0, 1, 4]].tolist() == [3, 1, 7]


@pytest.mark.parametrize("name", PACKINGS)
def test_only_hollow_buffers(name: str, form: str) -> None:
    problem = problem_of([(0, 0, 5), (1, 1, 0), (0, 3, 0)])
    assert PACKINGS[name](problem).shape == (3,)
    check_packing(problem, PACKINGS[name](problem).tolist())


@pytest.mark.parametrize("name", PACKINGS)
def test_sizes_near_the_limit(name: str, form: str) -> None:
    problem = problem_of([(0, 2, 2**61), (1, 3, 2**61 - 8), (2, 4, 3), (0, 4, 5)])
    slab = check_packing(problem, PACKINGS[name](problem).tolist())
    assert problem.max_load <= slab <= 2**62


@pytest.mark.parametrize("name", PACKINGS)
def test_contradictory_pins_are_kept_and_reported(name: str, form: str) -> None:
    problem = problem_of([(0, 2, 4), (1, 3, 4), (0, 3, 5)], pin=(0, 2, -1))
    offsets = PACKINGS[name](problem)
    assert offsets[:2].tolist() == [0, 2]
    assert offsets[2] >= 6
    with pytest.raises(PlanError, match="overlap while both are live"):
        check_packing(problem, offsets.tolist())


@pytest.mark.parametrize("name", PACKINGS)
def test_steps_far_apart_cost_nothing(name: str, form: str) -> None:
    problem = problem_of([(0, 10**15, 4), (10**14, 10**16, 4), (10**15, 10**16, 4)])
    assert PACKINGS[name](problem).max() <= 8
