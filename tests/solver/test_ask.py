"""A question in place of a graph: the same answers, and no argument that would change it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optsched import GraphBuilder, Objective, OrderRules, Pool, Question, Result, solve
from optsched.errors import UsageError
from optsched.model.graph import Graph
from optsched.model.order_rules import NO_RULES
from optsched.solver.ask import ask
from tests.support.families.wiring import random_wiring
from tests.support.generators import random_graph

CHANGES: dict[str, Any] = {
    "pools": [Pool("only")],
    "objective": "slab",
    "capacity": 0,
    "inplace": True,
    "align": 1,
    "order_rules": OrderRules(),
    "baseline": [0],
    "max_moved": 0,
    "fewest_moves": True,
}
"""Arguments that say what is asked, each with a value that must not be ignored."""


def figures(result: Result) -> tuple[Any, ...]:
    plan = None if result.plan is None else (result.plan.order, result.plan.offsets)
    bounds = result.peak_bound, result.slab_bound, result.moved_bound, result.spilled_bytes
    return plan, result.status, result.objective, bounds


def random_question(rng: np.random.Generator, graph: Graph) -> dict[str, Any]:
    """Return arguments of a question, without the pairs that exclude each other."""
    if rng.random() < 0.2:
        return {"pools": [Pool("a", int(rng.integers(1, 60))), Pool("b")]}
    asked: dict[str, Any] = {"objective": str(rng.choice(["slab", "peak"]))}
    if rng.random() < 0.3:
        asked["capacity"] = int(rng.integers(0, 200))
    if rng.random() < 0.5 and not graph.on_streams:
        asked["inplace"] = True
    if rng.random() < 0.3:
        asked["align"] = 8
    if rng.random() < 0.3:
        asked["order_rules"] = OrderRules(first=[graph.ops[0].name])
    elif rng.random() < 0.5:
        asked["max_moved"] = int(rng.integers(0, len(graph.ops)))
        asked["fewest_moves"] = bool(rng.random() < 0.5)
    return asked


@pytest.mark.parametrize("seed", range(60))
def test_a_question_has_the_answer_of_its_arguments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng)
    asked = random_question(rng, graph)
    found = solve(graph, **asked, work=20_000)
    question = ask(graph, **asked)
    assert figures(solve(question, work=20_000)) == figures(found)
    if found.question is not None and "pools" not in asked:
        assert figures(solve(found.question, work=20_000)) == figures(found)


@pytest.mark.parametrize("name", CHANGES)
def test_no_argument_changes_a_question(name: str) -> None:
    build = GraphBuilder("one")
    build.op("p", writes={"x": 1})
    question = Question(build.build(), objective=Objective.PEAK)
    with pytest.raises(UsageError, match=f"^{name}= is part of the question"):
        solve(question, **{name: CHANGES[name]})


def test_all_arguments_of_a_question_are_tried() -> None:
    assert CHANGES.keys() | {"graph", "return"} == ask.__annotations__.keys()


def test_a_search_goes_on_with_its_own_question() -> None:
    graph = random_wiring(90, 3, unit=False)
    rules = OrderRules(first=[graph.ops[0].name])
    found = solve(graph, order_rules=rules, align=16, work=6_000)
    assert found.resume is not None
    assert found.question is not None
    later = solve(found.question, progress=found.resume, warm_start=found.plan, work=6_000)
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
    assert solve(question).question == replace(question, objective=Objective.SLAB)


def test_a_budget_is_for_recompute() -> None:
    build = GraphBuilder("one")
    build.op("p", writes={"x": 1})
    question = Question(build.build(), objective=Objective.COST, budget=9)
    with pytest.raises(UsageError, match="recompute"):
        solve(question)


def test_pools_exclude_what_a_question_can_still_be_given() -> None:
    build = GraphBuilder("one")
    build.op("p", writes={"x": 1})
    graph = build.build()
    with pytest.raises(UsageError, match="pools exclude capacity"):
        solve(Question(graph, capacity=5, pools=(Pool("a"),)))
    with pytest.raises(UsageError, match="pools exclude independent"):
        solve(Question(graph, NO_RULES, pools=(Pool("a"),)), independent=True)
