"""Every packer keeps pairs apart and gives a group one offset."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heuristics import PACKINGS
from heuristics.packings import common
from heuristics.packings.common import place_exactly, place_in_turn
from heuristics.portfolio import pack_apart
from optsched.check.packing import check_packing
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem
from optsched.model.reductions import ByPool
from tests.support.packing_instances import random_problem, with_pairs


def problem_of(seed: int) -> PackingProblem:
    random = np.random.default_rng([7, seed])
    kind = "".join(letter for letter in "apgwks" if random.random() < 0.6)
    return random_problem(random, kind, 14)


@pytest.mark.parametrize("name", PACKINGS)
def test_random_problems(name: str) -> None:
    pairs = groups = 0
    for seed in range(40 if name == "hill_climb" else 150):
        problem = problem_of(seed)
        if problem.joined.problem.clashing_pins() is not None:
            continue
        offsets = PACKINGS[name](problem)
        assert check_packing(problem, offsets.tolist()) >= problem.max_load
        pairs += len(problem.keep_apart)
        groups += len(problem.must_share)
    assert pairs > 100 < groups or name == "hill_climb"


@pytest.mark.parametrize("many", [0, common.MANY])
def test_the_kernels_place_as_exact_integers_do(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the index over time, and with a scan over all buffers."""
    monkeypatch.setattr(common, "MANY", many)
    for seed in range(200):
        problem = with_pairs(np.random.default_rng(seed), problem_of(seed).joined.problem)
        turn = np.argsort(problem.pin < 0, kind="stable")
        for tightest in (True, False):
            wanted = place_exactly(problem, turn, tightest=tightest)
            hollow = (problem.size == 0) | (problem.start == problem.end)
            if not hollow.any():
                found = place_in_turn(problem, turn, tightest=tightest)
                assert found.tolist() == wanted.tolist()


def test_a_pair_that_asks_for_nothing_changes_nothing() -> None:
    """A pair that is live together anyway: the kernel for pairs does what the other one does."""
    for seed in range(100):
        problem = replace(problem_of(seed).joined.problem, keep_apart=np.zeros((0, 2), np.int64))
        a, b = np.triu_indices(len(problem), 1)
        live = problem.size > 0
        meets = (problem.start[a] < problem.end[b]) & (problem.start[b] < problem.end[a])
        pairs = np.column_stack([a, b])[meets & live[a] & live[b]][:5]
        paired = replace(problem, keep_apart=pairs)
        for name in ("greedy_by_size", "first_fit_lifetime", "best_fit_start"):
            assert PACKINGS[name](paired).tolist() == PACKINGS[name](problem).tolist()


def test_a_packing_that_knows_no_groups_may_be_compared() -> None:
    def stacked(problem: PackingProblem) -> IntArray:
        return np.cumsum(problem.size) - problem.size

    problem = PackingProblem(size=[3, 2, 4], start=[0, 1, 2], end=[1, 2, 3], must_share=[(0, 2)])
    assert pack_apart(problem, ByPool(), stacked).tolist() == [0, 4, 0]
    rows = ByPool.of(["fast", "slow", "fast"])
    assert pack_apart(problem, rows, stacked).tolist() == [0, 0, 0]
