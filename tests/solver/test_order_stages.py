"""The stage that lowers the peak of a found order: `solve` repeats it, and it lowers a bad one."""

from __future__ import annotations

from heuristics.orderings.program import program
from optsched.model.question import Question
from optsched.runtime.limits import Limits
from optsched.solver import pipeline
from optsched.solver.driver import Stage, run_stage
from optsched.solver.finding import Finding
from optsched.solver.joint_stages import order_neighborhoods
from optsched.solver.known import Known
from optsched.solver.resume import Resume
from optsched.solver.schedule import Engine, stages_of
from tests.support.families.wiring import random_wiring


def test_solve_lowers_a_peak_with_it() -> None:
    searches = stages_of(Engine.AUTO, pipeline.answer)
    assert any(stage.run is order_neighborhoods and stage.repeat for stage in searches)
    graph = random_wiring(40, 1, unit=False)
    known = Known(Question(graph), Limits(work=60_000))
    known.merge(Finding("start", orders=(program(graph),)))
    peak = known.best_orders(1)[0][0]
    run_stage(known, Resume(), Stage(order_neighborhoods, share=0.5))
    assert known.best_orders(1)[0][0] < peak
    assert known.plan is not None
    assert known.measured.peak < peak
