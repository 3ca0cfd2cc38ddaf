"""The core: large buffers by branch and bound, the others around them by first fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optsched.check.packing import check_packing
from optsched.packing import PackingEffort, solve_packing
from optsched.packing.orders import FIRST_FIT_ORDERS
from optsched.runtime.limits import Limits
from tests.support.families.traces import training_trace
from tests.support.packing_instances import random_problem

SMALL_CORES = PackingEffort(core_buffers=1, core_shares=(2, 4, 8), core_share=1, first_nodes=50)


def test_meets_the_load_where_no_first_fit_does() -> None:
    problem = training_trace(1000, 5, repeated=False)
    sources: list[str] = []
    outcome = solve_packing(
        problem, limits=Limits(), on_event=lambda event: sources.append(event.source)
    )
    assert outcome.statistics["first fits"] == len(FIRST_FIT_ORDERS)
    assert outcome.statistics["cores"] > 0
    assert outcome.statistics["searches"] == 0
    assert sources[-1].startswith("core of")
    assert outcome.offsets is not None
    assert check_packing(problem, outcome.offsets.tolist()) == problem.max_load


@pytest.mark.parametrize("kind", ["", "ap", "g", "pw"])
def test_the_minimum_is_the_same_with_cores_and_without(kind: str) -> None:
    """A core that is refuted raises the bound of the whole, and no further."""
    cores = 0
    for seed in range(25):
        problem = random_problem(np.random.default_rng([61, seed]), kind, buffers=9)
        expected = solve_packing(problem, limits=Limits())
        outcome = solve_packing(problem, limits=Limits(), effort=SMALL_CORES)
        assert (outcome.slab, outcome.bound) == (expected.slab, expected.bound)
        assert outcome.offsets is not None
        check_packing(problem, outcome.offsets.tolist(), slab=outcome.slab)
        cores += outcome.statistics["cores"]
    assert cores > 0


def test_who_is_of_the_core_does_not_depend_on_the_unit() -> None:
    problem = training_trace(1000, 5, repeated=False)
    factor = 2**35 // int(problem.size.sum())
    large = replace(problem, size=problem.size * factor, alignment=problem.alignment * factor)
    effort = PackingEffort(first_fit_work=1)
    found = [solve_packing(each, limits=Limits(), effort=effort) for each in (problem, large)]
    assert found[0].statistics == found[1].statistics
    assert found[0].statistics["cores"] > 0


def test_pins_hold() -> None:
    problem = training_trace(1000, 5, repeated=False)
    size = int(problem.size.sum())
    pin = np.full(len(problem), -1, np.int64)
    first = int(problem.pin.argmax())
    after = int(np.flatnonzero(problem.start >= problem.end[first])[0])
    pin[[first, after]] = 0, 1 << 20
    problem = replace(problem, pin=pin)
    outcome = solve_packing(problem, limits=Limits(work=20_000))
    assert outcome.statistics["cores"] > 0
    assert outcome.offsets is not None
    assert outcome.offsets[[first, after]].tolist() == [0, 1 << 20]
    assert check_packing(problem, outcome.offsets.tolist()) < size
