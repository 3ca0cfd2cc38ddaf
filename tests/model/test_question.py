"""Questions: which plans they allow, and whose bounds carry over, against all orders."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optsched import GraphBuilder, Objective, OrderRules, Pool, Question, solve
from optsched.errors import GraphError, UsageError
from optsched.model.order_rules import Baseline
from optsched.model.question import restriction_words
from optsched.model.streams import with_streams
from tests.store.test_database import diamond
from tests.support.brute import orders
from tests.support.generators import random_graph, random_order
from tests.support.order_rules import random_rules

FEATURES = frozenset({"inputs", "multi", "control"})


def random_question(rng: np.random.Generator, question: Question) -> Question:
    """Questions about one graph with other rules, another baseline, or both."""
    if rng.random() < 0.6:
        rules = random_rules(rng, question.graph)
        if rng.random() < 0.5:
            rules = replace(rules, last=(), groups=())
        question = replace(question, rules=rules)
    if rng.random() < 0.6:
        order = random_order(rng, question.graph) if rng.random() < 0.5 else (0, 1, 2, 3)
        question = replace(question, near=Baseline(order, int(rng.integers(4))))
    return question


def allowed(question: Question) -> set[tuple[int, ...]]:
    return {order for order in orders(question.planned) if question.allows(order)}


def test_a_question_that_covers_another_allows_all_its_orders() -> None:
    covered = 0
    for seed in range(1500):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, 4, features=FEATURES)
        try:
            one, other = (random_question(rng, Question(graph)) for _ in range(2))
            known = [allowed(question) for question in (one, other)]
        except GraphError:
            continue
        assert Question(graph).covers(one)
        assert one.covers(one)
        if one.covers(other):
            covered += one != other
            assert known[0] >= known[1], (one, other)
    assert covered > 100


def test_other_graphs_and_pools_are_not_covered() -> None:
    graph, question = diamond(), Question(diamond())
    assert question.covers(Question(replace(graph, name="renamed")))
    assert question.covers(replace(question, objective=Objective.PEAK))
    for other in (
        Question(diamond(7)),
        Question(with_streams(graph, ["a", "b", "a"])),
        Question(graph, pools=(Pool("near", 8), Pool("far"))),
    ):
        assert not question.covers(other)
        assert not other.covers(question)
        assert other.scope != question.scope


def test_a_graph_with_the_rules_as_edges_is_the_same_question() -> None:
    rules = OrderRules(first=["right"])
    question = Question(diamond(), rules)
    assert question.covers(Question(question.planned))
    assert Question(question.planned).covers(question)
    assert question.scope == Question(question.planned).scope


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (Question(diamond()), ""),
        (Question(diamond(), objective=Objective.PEAK, capacity=3), ""),
        (Question(diamond(), near=Baseline((0, 1, 2))), ""),
        (
            Question(diamond(), OrderRules(["right"], ["join"], [("right", "left")])),
            "orders that run 'right' first and run 'join' last and keep the sequence "
            "'right', 'left'",
        ),
        (
            Question(diamond(), near=Baseline((0, 1, 2), 1)),
            "orders that move at most 1 op of the baseline",
        ),
        (Question(with_streams(diamond(), "aba")), "orders on 2 streams"),
        (
            Question(diamond(), pools=(Pool("near", 8), Pool("far"))),
            "plans that spill as few bytes in the pools 'near', 'far'",
        ),
    ],
)
def test_words(question: Question, words: str) -> None:
    assert question.restriction == words


def test_long_rules_are_cut() -> None:
    words = restriction_words(OrderRules([f"op{i}" for i in range(20)]))
    assert words.endswith("'op5' and 14 more first")


def test_a_result_carries_its_question() -> None:
    rules = OrderRules(first=["right"])
    result = solve(diamond(), order_rules=rules, max_moved=1, capacity=100, objective="peak")
    asked = result.question
    assert asked is not None
    assert (asked.rules, asked.max_moved, asked.capacity) == (rules, 1, 100)
    assert result.to_dict()["among"] == asked.restriction
    assert f"among {asked.restriction}" in repr(result)


def test_a_bound_on_repeats_holds_for_smaller_budgets_of_the_same_costs() -> None:
    build = GraphBuilder("step", cost_unit="units")
    build.op("a", writes={"x": 5}, cost=2)
    graph = build.build()
    dearer = replace(graph, ops=(replace(graph.ops[0], cost=3),))
    large, small = (Question(graph, objective=Objective.COST, budget=n) for n in (20, 10))
    assert large.covers(small)
    assert not small.covers(large)
    assert not large.covers(Question(graph))
    assert not Question(graph).covers(large)
    assert not large.covers(Question(dearer, objective=Objective.COST, budget=10))
    assert len({Question(graph).scope, large.scope, small.scope}) == 3


def test_a_budget_and_the_objective_cost_go_together() -> None:
    graph = GraphBuilder("empty").build()
    with pytest.raises(UsageError, match="the objective cost needs a budget"):
        Question(graph, objective=Objective.COST)
    with pytest.raises(UsageError, match="the objective cost needs a budget"):
        Question(graph, budget=5)
    with pytest.raises(UsageError, match="does not go with"):
        Question(graph, OrderRules(first=("a",)), objective=Objective.COST, budget=5)
    with pytest.raises(UsageError, match="expected slab or peak"):
        solve(graph, objective="cost")
