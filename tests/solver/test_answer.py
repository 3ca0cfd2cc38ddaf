"""answer(): a question has the answer of the arguments that make it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optsched import GraphBuilder, Objective, OrderRules, Pool, Question, Result, answer, solve
from optsched.errors import UsageError
from optsched.model.graph import Graph
from tests.support.families.small import diamond
from tests.support.families.wiring import random_wiring
from tests.support.generators import random_graph


def figures(result: Result) -> tuple[Any, ...]:
    plan = None if result.plan is None else (result.plan.order, result.plan.offsets)
    bounds = result.peak_bound, result.slab_bound, result.moved_bound, result.spilled_bytes
    return plan, result.status, result.objective, bounds


def random_question(rng: np.random.Generator, graph: Graph) -> dict[str, Any]:
    """Return arguments of a question, without the pairs that exclude each other."""
    asked: dict[str, Any] = {"objective": str(rng.choice(["slab", "peak"]))}
    if rng.random() < 0.3:
        asked["pools"] = [Pool("a", int(rng.integers(1, 60))), Pool("b")]
    elif rng.random() < 0.3:
        asked["capacity"] = int(rng.integers(0, 200))
    if rng.random() < 0.5 and not graph.on_streams:
        asked["inplace"] = True
    if rng.random() < 0.3:
        asked["align"] = 8
    if rng.random() < 0.3:
        asked["order_rules"] = OrderRules(first=[graph.ops[0].name])
    elif rng.random() < 0.5:
        asked["max_moved"] = int(rng.integers(0, len(graph.ops)))
        asked["fewest_moves"] = bool(rng.random() < 0.5) and "pools" not in asked
    return asked


@pytest.mark.parametrize("seed", range(60))
def test_a_question_has_the_answer_of_its_arguments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng)
    asked = random_question(rng, graph)
    found = solve(graph, **asked, work=20_000)
    assert found.question is not None
    assert figures(answer(found.question, work=20_000)) == figures(found)


def test_solve_names_the_function_that_answers_a_question() -> None:
    question = Question(diamond())
    with pytest.raises(UsageError, match=r"^expected a Graph, got Question: answer\(question\)"):
        solve(question)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^answer wants a Question, got Graph$"):
        answer(question.graph)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["warm_start", "progress"])
def test_a_start_of_another_kind_is_refused(name: str) -> None:
    start: dict[str, Any] = {name: "plan.json"}
    with pytest.raises(UsageError, match=f"^{name} wants a "):
        answer(Question(diamond()), **start)


def test_a_search_goes_on_with_its_own_question() -> None:
    graph = random_wiring(90, 3, unit=False)
    rules = OrderRules(first=[graph.ops[0].name])
    found = solve(graph, order_rules=rules, align=16, work=6_000)
    assert found.resume is not None
    assert found.question is not None
    later = answer(found.question, progress=found.resume, warm_start=found.plan, work=6_000)
    assert later.slab <= found.slab
    assert later.peak_bound >= found.peak_bound
    assert later.question == found.question
    # Without the rules and the alignment the state is of another search.
    with pytest.raises(UsageError, match="of another graph"):
        solve(graph, progress=found.resume)


def test_a_capacity_is_one_of_the_slab() -> None:
    build = GraphBuilder("pair")
    build.op("p", writes={"x": 8})
    build.op("q", writes={"y": 8})
    question = Question(build.build(), objective=Objective.PEAK, capacity=20)
    assert answer(question).question == replace(question, objective=Objective.SLAB)


def test_a_budget_is_for_recompute() -> None:
    build = GraphBuilder("one")
    build.op("p", writes={"x": 1})
    question = Question(build.build(), objective=Objective.COST, budget=9)
    with pytest.raises(UsageError, match="recompute"):
        answer(question)


def test_pools_exclude_what_a_question_can_still_be_given() -> None:
    build = GraphBuilder("one")
    build.op("p", writes={"x": 1})
    graph = build.build()
    with pytest.raises(UsageError, match="pools exclude capacity"):
        answer(Question(graph, capacity=5, pools=(Pool("a"),)))
