"""Answers for a step of several graphs: what is in the way, where, and what it holds."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from optsched.plugins.inductor.recompute.joint_step import PeakSettings
from optsched.plugins.inductor.recompute.least_bytes import LeastBytes
from optsched.plugins.inductor.recompute.recipe import Recipe
from optsched.plugins.inductor.recompute.step_measured import CompiledRegion, MeasuredSteps
from optsched.plugins.inductor.recompute.step_plan import StepPlan
from optsched.plugins.inductor.recompute.step_points import SplitPoint
from optsched.plugins.inductor.running.step_calls import Span
from optsched.solver.recompute.step_choice import RegionPoint, choose_points


def split(*figures: int, shared: int = 0) -> SplitPoint:
    return SplitPoint(RegionPoint(*figures), Recipe(1.0), 0, shared, ("add_1", "mm_7"))


def two_regions(shared: int = 0) -> MeasuredSteps:
    """Return a step of regions a and b: a saves 40 bytes, or 10, and waits while b runs."""
    measured = MeasuredSteps()
    for key, points in {
        "a": [split(0, 40, 50, 60, shared=shared), split(5, 10, 50, 60)],
        "b": [split(0, 20, 30, 90)],
    }.items():
        least = LeastBytes(7, "the results alone need 7", 4), LeastBytes(30, "op 'mm' needs 30", 8)
        given = f"{key}/0", None, 0, least, 90, 100, points[0], frozenset[str]()
        region = CompiledRegion(*given, points=points)
        measured.regions[key] = region
    a, b = ("a", 1), ("b", 1)
    measured.note(
        [
            Span(("a", False), (), 50, 50),
            Span(("b", False), (a,), 30, 75),
            Span(None, (a, b), 0, 90),
            Span(("b", True), (a,), 90, 155),
            Span(("a", True), (), 60, 60),
        ]
    )
    return measured


def test_a_moment_is_refused_by_what_all_splits_need() -> None:
    measured = two_regions()
    # 25 bytes beside the calls, and what the product needs; between two calls there are 30.
    assert not measured.blocker(55)
    words = "in the backward graph of b/0 op 'mm' needs 30 and 25 bytes are held beside the calls"
    assert measured.blocker(54) == words
    measured.regions["b"].least = (LeastBytes(0, "", 0),) * 2
    assert not measured.blocker(30)
    assert measured.blocker(29) == "30 bytes are held beside the calls"


def test_bytes_that_another_split_may_not_hold_are_not_certain() -> None:
    # Of the bytes beside the calls, 10 may be an input that the first split of a saves.
    assert two_regions(shared=10).blocker(45) == ""
    assert "15 bytes are held beside" in two_regions(shared=10).blocker(44)
    assert two_regions(shared=100).blocker(30) == ""


def test_the_fullest_moment_is_named_with_its_parts() -> None:
    measured = two_regions()
    problem = measured.problem(["a", "b"])
    found = choose_points(problem, 100)
    assert (found.least, found.bound) == (125, None)
    text = measured.fullest(problem, ["a", "b"], found.points)
    assert text == (
        "in the backward graph of b/0 at op 'mm_7': 90 bytes of the graph (8 of them gradients), "
        "25 held beside the calls, 10 saved by waiting graphs"
    )
    measured.steps = {shape: rows[:3] for shape, rows in measured.steps.items()}
    measured.steps = {shape[:3]: rows for shape, rows in measured.steps.items()}
    problem = measured.problem(["a", "b"])
    text = measured.fullest(problem, ["a", "b"], (0, 0))
    assert text == "between two calls: 30 held beside the calls, 60 saved by waiting graphs"


@pytest.mark.parametrize(
    ("asked", "held", "words"),
    [
        (140, 130, "asked 140 bytes, held 130 as measured, for 2.50% more compute (at least 2.50%"),
        (120, 125, "held 125 as measured, for 2.50% more compute, as no choice of their splits"),
        # Planned bytes were above those that are held.
        (120, 118, "held 118 as measured, for 2.50% more compute; the least peak of their splits"),
    ],
)
def test_a_step_that_holds_what_is_asked_says_so(asked: int, held: int, words: str) -> None:
    plan = StepPlan(PeakSettings(asked, 1.0))
    plan.measured = measured = two_regions()
    problem = measured.problem(["a", "b"])
    plan._choice, plan._held = choose_points(problem, asked), held
    plan._fullest = measured.fullest(problem, ["a", "b"], plan._choice.points)
    for key, i in zip("ab", plan._choice.points, strict=True):
        measured.regions[key].point = measured.regions[key].points[i]
    text = plan._text()
    assert words in text
    assert ("in the backward graph of b/0 at op" in text) == (asked == 120)
    assert "the least peak of their splits is 125 bytes" in text


def test_an_impossible_step_stays_as_it_is_and_says_why() -> None:
    plan = StepPlan(PeakSettings(54, 1.0))
    plan.measured.regions = two_regions().regions
    a = ("a", 1)
    spans = [Span(("a", False), (), 50, 50), Span(("b", False), (a,), 30, 75)]
    spans += [Span(("b", True), (a,), 90, 155), Span(("a", True), (), 60, 60)]
    plan._see(spans)
    assert plan.watch.done
    assert not plan._is_due
    assert plan._text() == (
        "step of 2 calls of 2 graphs: asked 54 bytes, held 155 as measured, as no choice of splits "
        "fits: in the backward graph of b/0 op 'mm' needs 30 and 25 bytes are held beside the calls"
    )
