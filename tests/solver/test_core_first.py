"""Core and fill: valid packings, some at the load where no packer of the portfolio meets it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heuristics import PACKINGS
from heuristics.portfolio import packing_turn
from optsched.check.plan import check_packing
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.core_first import MANY, core_packings
from optsched.solver.pack import pack
from optsched.solver.result import Status
from tests.support.families.traces import training_trace


def test_meets_the_load_where_the_portfolio_does_not() -> None:
    problem = training_trace(2000, 5, repeated=False)
    load = problem.max_load
    turn = [name for name in packing_turn(len(problem)) if name != "hill_climb"]
    assert min(problem.slab_size(PACKINGS[name](problem)) for name in turn) > load
    slabs = []
    for _, offsets in core_packings(problem, load, Clock.of(Limits())):
        slabs.append(check_packing(problem, offsets.tolist()))
        if slabs[-1] == load:
            break
    assert min(slabs) == load
    events: list[str] = []
    result = pack(problem, limits=Limits(), on_event=lambda event: events.append(event.source))
    assert result.status is Status.OPTIMAL
    assert events[-1].startswith("core of")


def test_who_is_of_the_core_does_not_depend_on_the_unit() -> None:
    problem = training_trace(700, 5)
    factor = 2**62 // int(problem.size.sum())
    large = replace(problem, size=problem.size * factor, alignment=problem.alignment * factor)
    names = [name for name, _ in core_packings(problem, problem.max_load, Clock.of(Limits()))]
    assert names
    assert [name for name, _ in core_packings(large, large.max_load, Clock.of(Limits()))] == names


def test_pins_hold() -> None:
    problem = training_trace(900, 1)
    pin = np.full(len(problem), -1, np.int64)
    pin[[3, 700]] = 0, 64
    problem = replace(problem, pin=pin)
    found = list(core_packings(problem, problem.max_load, Clock.of(Limits())))
    assert found
    for _, offsets in found:
        check_packing(problem, offsets.tolist())


def test_few_buffers_are_left_to_the_search_and_late_comers_out() -> None:
    few = training_trace(MANY - 1, 1)
    assert list(core_packings(few, few.max_load, Clock.of(Limits()))) == []
    many = training_trace(MANY, 1)
    assert list(core_packings(many, many.max_load, Clock.of(Limits(seconds=0.0)))) == []
