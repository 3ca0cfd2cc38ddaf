from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import numpy as np
import pytest

from optsched.check.plan import check_order
from optsched.model.arrays import Rows
from optsched.model.graph import Graph
from optsched.ordering import OrderingRules, solve_order
from optsched.ordering.bound.precedences import BudgetPrecedences, with_edges
from optsched.ordering.context import SearchContext
from optsched.ordering.effort import EFFORT
from optsched.ordering.problem import OrderingProblem, build_problem, topological
from optsched.runtime import kernel as kernels
from optsched.runtime.limits import Event
from tests.model.test_inplace import more_candidates
from tests.support.brute import least_peak, orders
from tests.support.generators import PLANNABLE, random_graph, random_order


def some_graphs(count: int, seed: int, most: int) -> Iterator[Graph]:
    """Random graphs, half of them in-place."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        size = int(rng.choice([3, 12, 1000, 2**40]))
        features = PLANNABLE | {"shuffled"}
        graph = random_graph(rng, int(rng.integers(1, most + 1)), max_size=size, features=features)
        yield more_candidates(rng, graph).with_inplace() if number % 2 else graph


def edges(problem: OrderingProblem) -> set[tuple[int, int]]:
    rows = Rows(problem.pred_ptr, problem.pred)
    return {(u, v) for v in range(len(problem.delta)) for u in rows.row(v).tolist()}


def test_every_order_within_the_budget_keeps_the_edges() -> None:
    refuted = added = 0
    for graph in some_graphs(100, seed=1, most=5):
        context = SearchContext(build_problem(graph.arrays))
        peaks = {order: check_order(graph, order) for order in orders(graph)}
        optimum = min(peaks.values())
        for budget in range(max(0, optimum - 1), optimum + 3):
            within = [order for order, peak in peaks.items() if peak <= budget]
            near = BudgetPrecedences(context)
            if near.refute(budget, np.zeros(context.ops, np.int64), near=True):
                assert not within
                refuted += 1
                continue
            new = edges(near.problem) - edges(context.problem)
            added += len(new)
            for order in within:
                step = {v: i for i, v in enumerate(order)}
                assert all(step[u] < step[v] for u, v in new)
    assert refuted > 50
    assert added > 50


def test_compiled_kernels_do_what_the_twins_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(graph: Graph) -> tuple[bool, set[tuple[int, int]]]:
        context = SearchContext(build_problem(graph.arrays))
        near = BudgetPrecedences(context)
        during = context.follow(topological(context.problem))[1]
        return near.refute(int(during.max()) - 1, during, near=True), edges(near.problem)

    graphs = list(some_graphs(60, seed=2, most=10))
    twins = [look(graph) for graph in graphs]
    monkeypatch.setattr(kernels.policy, "force", kernels.compiled_form)
    assert [look(graph) for graph in graphs] == twins


def test_optimum_is_the_same_with_the_rule_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    effort = replace(EFFORT, first_states=1, local_ops=0, local_states=0)
    monkeypatch.setattr(kernels.policy, "force", kernels.compiled_form)
    rng = np.random.default_rng(4)
    proved = 0
    for graph in some_graphs(150, seed=4, most=8):
        optimum, start = least_peak(graph), random_order(rng, graph)
        some = {field.name: bool(rng.integers(2)) for field in fields(OrderingRules)}
        for rules in (
            OrderingRules(nearby=False),
            OrderingRules(),
            OrderingRules(**some | {"nearby": True}),
        ):
            events: list[Event] = []
            outcome = solve_order(
                graph, warm_start=start, rules=rules, on_event=events.append, effort=effort
            )
            assert check_order(graph, outcome.order) == outcome.peak
            assert (outcome.peak, outcome.bound) == (optimum, optimum)
            by = any(event.source == "precedences near the peak" for event in events)
            assert rules.nearby or not by
            proved += by
    assert proved > 10


def test_edges_are_added_both_ways() -> None:
    rng = np.random.default_rng(3)
    for graph in some_graphs(50, seed=3, most=12):
        problem = build_problem(graph.arrays)
        step = {v: i for i, v in enumerate(random_order(rng, graph))}
        pairs = [(u, v) for u in step for v in step if step[u] < step[v] and rng.random() < 0.3]
        new = sorted(set(pairs) - edges(problem))
        first, second = np.array(new, np.int64).reshape(-1, 2).T
        more = with_edges(problem, first, second)
        assert edges(more) == edges(problem) | set(new)
        back = Rows(more.succ_ptr, more.succ)
        behind = {(u, v) for u in range(len(problem.delta)) for v in back.row(u).tolist()}
        assert behind == edges(more)
        assert len(more.succ) == len(behind)
