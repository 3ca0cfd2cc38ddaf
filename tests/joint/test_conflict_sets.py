"""Conflict sets: each alone refutes the order, and no item of it can be left out."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.joint.conflict_sets import conflict_sets
from optsched.joint.oracle import PackingOracle
from optsched.model.packing_problem import PackingProblem
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.support.brute import least_slab


def random_packing(rng: np.random.Generator) -> PackingProblem:
    count = int(rng.integers(3, 8))
    start = rng.integers(0, 6, count)
    return PackingProblem(
        size=rng.integers(1, 6, count),
        start=start,
        end=start + rng.integers(1, 5, count),
        alignment=2 ** rng.integers(0, 3, count),
        keep_apart=[(0, count - 1)] if rng.random() < 0.3 else (),
    )


def packed_by_pairs(problem: PackingProblem, pairs: set[tuple[int, int]], rows: set[int]) -> int:
    """Return the least slab of some buffers if exactly these pairs conflict."""
    # Buffers that are never live together: only what is kept apart counts.
    place = {i: at for at, i in enumerate(sorted(rows))}
    alone = PackingProblem(
        size=problem.size[sorted(rows)],
        start=[2 * at for at in range(len(place))],
        end=[2 * at + 1 for at in range(len(place))],
        alignment=problem.alignment[sorted(rows)],
        keep_apart=[(place[i], place[j]) for i, j in pairs],
    )
    least = least_slab(alone)
    assert least is not None
    return least


@pytest.mark.parametrize("seed", range(60))
def test_each_set_is_refuted_by_its_pairs_alone(seed: int) -> None:
    problem = random_packing(np.random.default_rng(seed))
    least = least_slab(problem)
    assert least is not None
    capacity = least - 1
    oracle = PackingOracle(Clock.of(Limits(20.0)), 5.0)
    found = list(conflict_sets(problem, capacity, oracle))
    assert found
    apart = {(int(i), int(j)) for i, j in problem.keep_apart}
    for pairs in found:
        rows = {i for pair in pairs for i in pair} or set(range(len(problem)))
        if len(pairs) > 0:
            assert (
                packed_by_pairs(problem, set(pairs) | {p for p in apart if set(p) <= rows}, rows)
                > capacity
            )
