"""Splits of the regions of a step: the least extra cost within a peak, by brute force."""

from __future__ import annotations

import random
from itertools import product

from optsched.solver.recompute.step_choice import Moment, RegionPoint, StepProblem, choose_points


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
