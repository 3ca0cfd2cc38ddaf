"""Choice of the buffers that leave a pool, within the time limit and after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem
from optsched.model.selection import select
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.spill import search
from optsched.solver.spill.search import least_sum
from tests.support.clocks import ExpiringClock


def crowd(seed: int, buffers: int) -> tuple[PackingProblem, np.ndarray, int]:
    """Buffers, those that may leave, and room for half of the bytes at the fullest step."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, buffers, buffers)
    problem = PackingProblem(
        size=rng.integers(1, 100, buffers),
        start=start,
        end=start + rng.integers(1, buffers, buffers),
    )
    return problem, rng.random(buffers) < 0.9, problem.max_load // 2


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_out_of_time_hardly_more_bytes_leave(seed: int, lasting: bool) -> None:
    problem, movable, capacity = crowd(seed, 300)
    members = np.arange(300)
    clocks = (Clock.of(Limits()), ExpiringClock(0), ExpiringClock(5))
    in_time, *late = (
        search._relieved(problem, members, movable, capacity, clock, lasting=lasting)
        for clock in clocks
    )
    fixed = select(problem, np.flatnonzero(~movable)).max_load
    for stays in (in_time, *late):
        assert movable[~stays].all()
        assert select(problem, np.flatnonzero(stays)).max_load <= max(capacity, fixed)
    for stays in late:  # 1.2 to 1.6 times as many
        assert problem.size[~stays].sum() <= 2 * problem.size[~in_time].sum()


def test_out_of_time_live_bytes_are_counted_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, movable, capacity = crowd(0, 3_000)
    counts: list[int] = []
    count = search._Load.of

    def counted(*given: Any) -> IntArray:
        counts.append(1)
        return count(*given)

    monkeypatch.setattr(search._Load, "of", counted)
    clock = ExpiringClock(0)
    search._relieved(problem, np.arange(3_000), movable, capacity, clock, lasting=True)
    assert len(counts) < 13 * (2 + 13)  # halvings of 3,000, in each of as many rounds


@pytest.mark.parametrize("seed", range(20))
def test_out_of_time_a_bound_is_lower_and_holds(seed: int) -> None:
    problem, movable, capacity = crowd(seed, 40)
    table = search.steps_of_pool(problem, np.arange(40), movable, capacity)
    stays = np.ones(40, np.bool_)
    exact = table.more(stays, table.movable, Clock.of(Limits()))
    late = table.more(stays, table.movable, ExpiringClock(0))
    assert (exact is None) == (late is None)
    assert (late or 0) <= (exact or 0)


def test_sums_that_are_not_looked_at() -> None:
    heights = np.array([6, 10, 4])
    assert least_sum(heights, 8) == 10
    assert least_sum(heights, 7, exact=False) == 8
    assert least_sum(heights, 21, exact=False) is None
