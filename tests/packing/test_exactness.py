"""The least slab against CP-SAT, brute force and rectangles that were cut up."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from optsched.check.packing import check_packing
from optsched.model.packing_problem import PackingProblem
from optsched.packing import Rules, solve_packing
from optsched.runtime.limits import Limits, Proof, StopReason
from tests.support import brute
from tests.support.packing_instances import cut, problem_of, random_problem
from tests.support.packing_oracle import least_slab

KINDS = ("", "a", "p", "g", "ap", "ag", "pg", "apg", "w", "aw", "pw", "apw")


def solve(problem: PackingProblem, rules: Rules | None = None, seed: int = 0) -> int:
    outcome = solve_packing(problem, limits=Limits(seed=seed), rules=rules)
    assert outcome.offsets is not None
    check_packing(problem, outcome.offsets.tolist(), slab=outcome.slab)
    assert outcome.stop_reason is StopReason.PROVED
    assert outcome.slab == outcome.bound
    expected = Proof.PACKING if outcome.slab == problem.max_load else Proof.PACKING_SEARCH
    assert outcome.proof is expected
    return outcome.bound


@pytest.mark.parametrize("kind", KINDS)
def test_equals_cpsat_above_the_load(kind: str) -> None:
    """A packing at the load proves itself; what is claimed to need more is asked of CP-SAT."""
    above = 0
    for seed in range(300):
        buffers = 9 if set(kind) & set("apw") else 13
        problem = random_problem(np.random.default_rng([5, seed]), kind, buffers)
        claimed = solve(problem, seed=seed)
        if claimed > problem.max_load:
            assert claimed == least_slab(problem)
            above += 1
        if above == 8:
            break
    assert above >= (1 if kind == "g" else 3)


@pytest.mark.parametrize("kind", ["", "a", "p", "g", "w", "pw"])
def test_equals_enumeration(kind: str) -> None:
    for seed in range(6):
        problem = random_problem(np.random.default_rng([7, seed]), kind, buffers=4)
        if len(problem) <= 8 and (not problem.gaps or problem.size.max() < 10):
            assert solve(problem) == brute.least_slab(problem)


def test_rules_change_nothing() -> None:
    """All pairs of rules on and off: the least slab stays."""
    names = Rules.__slots__
    for kind, seed in product(("", "ap", "g", "w", "apw"), range(2)):
        problem = random_problem(np.random.default_rng([11, seed]), kind, buffers=7)
        least = solve(problem)
        for first, second in product(range(len(names)), repeat=2):
            if first <= second:
                rules = Rules(**{names[first]: False, names[second]: False})
                assert solve(problem, rules) == least, (kind, seed, rules)
        assert solve(problem, Rules(**dict.fromkeys(names, False))) == least


@pytest.mark.parametrize("pieces", [10, 20, 40, 80])
def test_cut_rectangles_fit_together_again(pieces: int) -> None:
    for seed in range(3):
        problem = cut(np.random.default_rng([pieces, seed]), 3 * pieces, 40 * pieces, pieces)
        assert solve(problem) == 40 * pieces == problem.max_load


def test_scaling_sizes_scales_the_slab() -> None:
    problem = random_problem(np.random.default_rng(4), "", buffers=9)
    larger = PackingProblem(
        problem.names,
        problem.start,
        problem.end,
        problem.size * 1_000_003,
        problem.alignment,
        problem.pin,
    )
    assert solve(larger) == solve(problem) * 1_000_003


def test_finished_sections_are_walls() -> None:
    """Without decomposition a low finished section once hid the niche beside it."""
    rows = [(2, 4, 9), (5, 6, 4), (5, 6, 1), (5, 8, 5), (5, 8, 5), (3, 6, 9)]
    rows += [(0, 1, 24), (1, 2, 24), (2, 3, 15), (3, 4, 6), (7, 8, 14)]
    alignment = [2, 6, 2, 4, 4, 6, 4, 2, 4, 6, 4]
    problem = problem_of(rows, alignment, pins={2: 14, 10: 0})
    assert solve(problem, Rules(cliques=False)) == solve(problem) == 33
