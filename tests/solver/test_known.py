"""The state of a search: what its merge accepts, drops and refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from optsched.errors import PlanError
from optsched.model.order_rules import make_baseline
from optsched.model.plan import Plan
from optsched.model.question import Question
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits, Objective, Proof
from optsched.solver.driver import Stage, run_stages
from optsched.solver.features import Feature
from optsched.solver.finding import Bound, Finding, peak_bound, slab_bound
from optsched.solver.known import Known, features_of
from optsched.solver.order_packing import found_orders
from optsched.solver.pipeline import solve
from optsched.solver.resume import Resume
from tests.support.families.small import swelling

IN_TURN, APART = (0, 2, 1, 3, 4), (0, 1, 2, 3, 4)


def state(question: Question | None = None) -> Known:
    return Known(question or Question(swelling()), Limits())


def plan_of(order: tuple[int, ...]) -> Plan:
    known = state()
    for finding in found_orders(known, "given", order):
        known.merge(finding)
    assert known.plan is not None
    return known.plan


def test_the_better_plan_is_kept_in_any_sequence() -> None:
    worse, better = plan_of(IN_TURN), plan_of(APART)
    for plans in ((worse, better), (better, worse)):
        known = state()
        known.merge(Finding("test", plans=plans))
        assert known.plan == better
        assert known.measured == (11, 11, 0)


def test_a_wrong_plan_is_an_error_unless_a_heuristic_made_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wrong = replace(plan_of(APART), order=APART[::-1])
    known = state()
    with pytest.raises(PlanError):
        known.merge(Finding("engine", plans=(wrong,)))
    known.merge(Finding("heuristic", plans=(wrong,), trial=True))
    assert known.plan is None
    assert "heuristic is wrong on swelling" in caplog.text


def test_orders_and_plans_that_the_question_refuses_are_dropped() -> None:
    graph = swelling()
    near = Question(graph, near=make_baseline(graph, IN_TURN, 0))
    known = state(near)
    known.merge(Finding("test", plans=(plan_of(APART),), orders=(APART,)))
    assert known.plan is None
    assert not len(known.orders)
    known.merge(Finding("test", plans=(plan_of(IN_TURN),), orders=(IN_TURN,)))
    assert known.measured == (19, 19, 0)
    assert known.best_orders(3)[0][0] == 19


def test_bounds_only_rise_and_claims_close_nothing() -> None:
    known = state()
    known.merge(Finding("test", plans=(plan_of(APART),)))
    known.merge(Finding("cpsat", bounds=(Bound(Objective.SLAB, 11, Proof.CLAIMED),)))
    assert not known.done()
    assert known.result(Resume(), cut_short=False).slab_proof is Proof.CLAIMED
    known.merge(Finding("search", bounds=peak_bound(11)))
    known.merge(Finding("simple", bounds=peak_bound(7, Proof.BOUND)))
    assert known.done()
    assert (known.peak_bound, known.slab_bound) == (11, 11)
    assert known.result(Resume(), cut_short=False).peak_proof is Proof.SEARCH


def test_of_equal_slab_bounds_the_joint_one_names_the_proof() -> None:
    for bounds in ((), (0,)):
        known = state()
        known.merge(Finding("test", plans=(plan_of(APART),)))
        kinds = (slab_bound(11), slab_bound(11, Proof.JOINT))
        for bound in kinds if bounds else kinds[::-1]:
            known.merge(Finding("test", bounds=bound))
        assert known.result(Resume(), cut_short=False).slab_proof is Proof.JOINT


def test_findings_before_an_interrupt_are_kept() -> None:
    plan = plan_of(IN_TURN)

    def stage(known: Known, resume: Resume, clock: Clock) -> Iterator[Finding[Plan]]:
        yield Finding("first half", plans=(plan,))
        raise KeyboardInterrupt

    known = state()
    run_stages(known, Resume(), (Stage(stage), Stage(stage)))
    assert known.interrupted
    assert known.plan == plan
    assert [event.source for event in known.trace] == ["first half"]


def test_a_stage_is_asked_only_for_questions_that_it_serves() -> None:
    graph = swelling()
    asked: list[str] = []

    def stage(name: str, **options: Feature | int) -> Stage[Known]:
        def run(known: Known, resume: Resume, clock: Clock) -> Iterator[Finding[Plan]]:
            asked.append(name)
            yield Finding(name)

        return Stage(run, **options)  # type: ignore[arg-type]

    stages = (
        stage("all"),
        stage("needs moves", needs=Feature.MOVES),
        stage("lacks moves", lacks=Feature.MOVES),
        stage("small", most=4),
    )
    near = Question(graph, near=make_baseline(graph, None, 1))
    assert Feature.MOVES in features_of(near)
    for question, names in (
        (Question(graph), ["all", "lacks moves"]),
        (near, ["all", "needs moves"]),
    ):
        asked.clear()
        run_stages(state(question), Resume(), stages)
        assert asked == names


def test_a_search_that_is_resumed_leaves_its_start_as_it_was() -> None:
    graph = swelling()
    start = Resume.of(Question(graph), None)
    assert start == Resume()
    found = solve(graph, engine="heuristics", work=1)
    if found.resume is not None:
        before = found.resume.to_dict()
        solve(graph, warm_start=found.plan, progress=found.resume, work=100)
        assert found.resume.to_dict() == before
