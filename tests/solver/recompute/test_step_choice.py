"""Splits of the regions of a step: the least extra cost within a peak, by brute force."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from optsched.solver.recompute.step_choice import (
    MOST_TURNS,
    Moment,
    RegionPoint,
    StepProblem,
    choose_closely,
    choose_points,
    room,
)


def drawn(seed: int) -> StepProblem:
    """Return a step of up to four regions, some called twice, forward and back like a stack."""
    draw = random.Random(seed)
    count = draw.randint(1, 4)
    fronts = [
        [
            RegionPoint(draw.randint(0, 9), *(draw.randint(0, 30) for _ in range(3)))
            for _ in range(draw.randint(1, 4))
        ]
        for _ in range(count)
    ]
    order = [r for r in range(count) for _ in range(draw.randint(1, 2))]
    moments, waiting = [], list[int]()
    for r in order:
        moments.append(moment(draw, waiting, (r, False)))
        waiting.append(r)
        moments.append(moment(draw, waiting, None))
    while waiting:
        r = waiting.pop()
        moments.append(moment(draw, waiting, (r, True)))
    return StepProblem(fronts, [order.count(r) for r in range(count)], moments)


def moment(draw: random.Random, waiting: list[int], running: tuple[int, bool] | None) -> Moment:
    counts = tuple((r, waiting.count(r)) for r in sorted({*waiting}))
    return Moment(draw.randint(-10, 20), counts, running)


def test_choices_are_the_best_of_all() -> None:
    refused = 0
    for seed in range(150):
        step = drawn(seed)
        every = [*product(*(range(len(front)) for front in step.fronts))]
        least = min(map(step.peak, every))
        for asked in (None, least - 1, least, least + 5, step.most):
            limit = least if asked is None or asked < least else asked
            cost = min(step.extra(x) for x in every if step.peak(x) <= limit)
            found = choose_points(step, asked)
            assert (found.least, found.least_bound, found.extra) == (least, least, cost), seed
            assert found.peak == step.peak(found.points) <= limit
            assert found.bound == (None if asked == least - 1 else cost)
            refused += found.bound is None
    assert refused == 150


def test_what_waits_counts_once_for_each_call() -> None:
    front = [RegionPoint(0, 10, 15, 20), RegionPoint(5, 0, 15, 20)]
    step = StepProblem([front, front], [2, 1], [Moment(3, ((0, 2),), (1, True))])
    assert step.peak((0, 0)) == 3 + 20 + 20
    found = choose_points(step, 25)
    # Region 0 waits twice, so saving must stop there; region 1 may save.
    assert (found.points, found.peak, found.extra) == ((1, 0), 23, 10)
    assert choose_points(step, 43).points == (0, 0)
    assert choose_points(step, 22).bound is None


class Planned:
    """Splits of each region that are planned; estimates of their peaks are wrong by up to 10 %."""

    def __init__(self, every: Sequence[Sequence[RegionPoint]], draw: random.Random) -> None:
        self.rows = [
            {x._replace(backward=int(x.backward * draw.uniform(0.9, 1.1))): x for x in front}
            for front in every
        ]
        self.simulated = 0

    def planned(self, region: int, chosen: RegionPoint, is_over: bool) -> list[RegionPoint]:
        low = chosen.saved if is_over else 0
        return [x for x in self.rows[region] if x.saved >= low // 2]

    def simulate(self, region: int, planned: RegionPoint) -> list[RegionPoint]:
        self.simulated += 1
        return [self.rows[region].pop(planned)]


def sought(seed: int) -> tuple[int, int, int]:
    """Return what planned splits save of the extra cost, what all would, and simulations."""
    draw, step = random.Random(seed), drawn(seed)
    every = []
    for _ in step.fronts:
        size, cost = draw.randint(5, 30), draw.randint(3, 40)
        rows = [
            RegionPoint(cost * (size - k) ** 2 // size, k, 40, 80 - k * k // size)
            for k in range(size + 1)
        ]
        every.append(rows)
    known = [[rows[-1]] for rows in every]
    dense, sparse = replace(step, fronts=every), replace(step, fronts=known)
    saved = possible = simulated = 0
    least = choose_points(dense, None).least
    for peak in (None, least, least + 7, least + 20, step.most):
        plans = Planned(every, draw)
        before, best = choose_points(sparse, peak), choose_points(dense, peak)
        found, after = choose_closely(sparse, peak, plans)
        assert plans.simulated <= MOST_TURNS * len(every)
        assert all({*a} <= {*b} for a, b in zip(found.fronts, every, strict=True))
        assert found.peak(after.points) == after.peak
        assert best.least <= after.least <= before.least
        simulated += plans.simulated
        if after.bound is not None and peak is not None:
            assert best.extra <= after.extra
            most = dense.extra((0,) * len(every))
            saved += most - after.extra
            possible += most - best.extra
    return saved, possible, simulated


def test_planned_splits_are_simulated_where_the_choice_wants_them() -> None:
    rows = [sought(seed) for seed in range(20)]
    assert sum(saved for saved, *_ in rows) > 0.95 * sum(possible for _, possible, _ in rows) > 0
    # Of some 17 splits in each of 250 regions.
    assert sum(simulated for *_, simulated in rows) < 1500


def test_splits_of_fewer_bytes_are_sought_where_no_choice_fits() -> None:
    front = [RegionPoint(0, 90, 100, 100), RegionPoint(9, 60, 100, 80)]
    step = StepProblem([front], [1], [Moment(0, (), (0, True)), Moment(10, ((0, 1),))])

    class Lower:
        def planned(self, _: int, chosen: RegionPoint, is_over: bool) -> list[RegionPoint]:
            made = RegionPoint(chosen.extra + 9, *(x - x // 12 for x in chosen[1:]))
            return [made] if is_over and made.saved >= 50 else []

        def simulate(self, _: int, planned: RegionPoint) -> list[RegionPoint]:
            return [planned]

    for peak in (None, 50):
        _, choice = choose_closely(step, peak, Lower())
        assert 65 <= choice.least < 72
        assert (choice.bound is None) == (peak == 50)
    _, choice = choose_closely(step, 75, Lower())
    assert choice.peak <= 75


def test_a_choice_that_just_fits_is_made_where_none_did() -> None:
    front = [RegionPoint(0, 0, 0, 1000)]
    step = StepProblem([front], [1], [Moment(0, (), (0, True))])
    plans = Planned([[RegionPoint(5, 0, 0, 999)]], random.Random(0))
    plans.rows = [{x: x for x in plans.rows[0].values()}]
    _, choice = choose_closely(step, 999, plans)
    assert (choice.peak, choice.extra, choice.bound) == (999, 5, 5)


def test_room_is_what_the_others_leave() -> None:
    front = [RegionPoint(0, 10, 15, 20), RegionPoint(5, 0, 15, 20)]
    moments = [Moment(3, ((0, 2),), (1, True)), Moment(0, (), (0, False)), Moment(9, ((1, 1),))]
    step = StepProblem([front, front], [2, 1], moments)
    # 43 bytes while two calls of region 0 wait: each may save 3 more of 50.
    assert room(step, (0, 0), 0, 50) == RegionPoint(0, 13, 50, step.most)
    assert room(step, (0, 0), 1, 50) == RegionPoint(0, 41, step.most, 27)
    assert room(step, (0, 0), 0, 41) == RegionPoint(0, 9, 41, step.most)
