"""Stages that lower the peak of a found order: `solve` repeats them, and they lower a bad one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from heuristics.orderings.program import program
from optsched.model.question import Question
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver import pipeline
from optsched.solver.driver import Stage, run_stage
from optsched.solver.finding import Finding
from optsched.solver.joint_stages import order_neighborhoods, order_windows
from optsched.solver.known import Known
from optsched.solver.order_packing import Findings
from optsched.solver.resume import Resume
from optsched.solver.schedule import Engine, stages_of
from tests.support.families.wiring import random_wiring


@pytest.mark.parametrize("run", [order_neighborhoods, order_windows])
def test_solve_lowers_a_peak_with_it(run: Callable[[Known, Resume, Clock], Findings]) -> None:
    searches = stages_of(Engine.AUTO, pipeline.answer)
    assert any(stage.run is run and stage.repeat for stage in searches)
    graph = random_wiring(40, 1, unit=False)
    known = Known(Question(graph), Limits(work=60_000))
    known.merge(Finding("start", orders=(program(graph),)))
    peak = known.best_orders(1)[0][0]
    run_stage(known, Resume(), Stage(run, share=0.5))
    assert known.best_orders(1)[0][0] < peak
    assert known.plan is not None
    assert known.measured.peak < peak
