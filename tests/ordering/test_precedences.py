from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from optsched.model.graph import Graph
from optsched.ordering.bound.precedences import BudgetPrecedences, related
from optsched.ordering.bound.sets import ForcedSet
from optsched.ordering.context import SearchContext
from optsched.ordering.effort import EFFORT
from optsched.ordering.improve.neighborhood import WindowSearch
from optsched.ordering.kernels import precedences as imply
from optsched.ordering.kernels.precedences import FREE, imply_at
from optsched.ordering.problem import build_problem, forced_cuts, topological
from optsched.ordering.reduce.contraction import contract
from optsched.ordering.search.feasibility import search_all
from tests.support.generators import PLANNABLE, random_graph, random_order
from tests.support.ordering_oracle import Oracle


def some_graphs(count: int, seed: int, most: int) -> list[Graph]:
    rng = np.random.default_rng(seed)
    return [
        random_graph(
            rng,
            int(rng.integers(1, most + 1)),
            max_size=int(rng.choice([3, 12, 1000])),
            features=PLANNABLE | {"shuffled"},
        )
        for _ in range(count)
    ]


def as_problem(graph: Graph) -> SearchContext:
    return SearchContext(build_problem(graph.arrays))


def orders_within(graph: Graph, budget: int) -> list[tuple[int, ...]]:
    """All orders of at most a peak."""
    oracle, found = Oracle(graph), []
    for order in permutations(range(len(graph.ops))):
        done = 0
        for v in order:
            if oracle.before[v] & ~done or oracle.live(done, 1 << v) > budget:
                break
            done |= 1 << v
        else:
            found.append(order)
    return found


def assert_kept(precedences: BudgetPrecedences, orders: list[tuple[int, ...]]) -> None:
    pairs = np.argwhere(related(precedences.problem)).tolist()
    for order in orders:
        step = {v: i for i, v in enumerate(order)}
        assert all(step[u] < step[v] for v, u in pairs)


def test_every_order_within_the_budget_keeps_the_implied_precedences() -> None:
    refuted = implied = 0
    for graph in some_graphs(120, seed=1, most=6):
        context, n = as_problem(graph), len(graph.ops)
        optimum = Oracle(graph).least_peak()
        for budget in range(max(0, optimum - 1), optimum + 3):
            precedences = BudgetPrecedences(context)
            answer = precedences.refute(budget, np.zeros(n, np.int64))
            within = orders_within(graph, budget)
            if answer:
                assert not within
                refuted += 1
                continue
            implied += len(precedences.added)
            assert_kept(precedences, within)
    assert refuted > 50
    assert implied > 20


def test_strengthened_problem_has_the_same_optimum() -> None:
    for graph in some_graphs(150, seed=2, most=10):
        context = as_problem(graph)
        optimum = Oracle(graph).least_peak()
        precedences = BudgetPrecedences(context)
        assert not precedences.refute(optimum, np.zeros(len(graph.ops), np.int64))
        small = contract(precedences.problem)
        strong = SearchContext(small.problem)
        answer = search_all(strong, 0, 2**62, 10**6, lambda _: None)
        assert answer.order is not None
        assert context.follow(small.expand(answer.order))[0] == optimum


@pytest.mark.parametrize("seed", [3, 4])
def test_set_bound_is_never_above_the_optimum_and_often_meets_it(seed: int) -> None:
    better = 0
    for graph in some_graphs(300, seed=seed, most=10):
        context = as_problem(graph)
        found = ForcedSet.find(context, related(context.problem), 0)
        bound = found.value if found else 0
        assert bound <= Oracle(graph).least_peak()
        better += bound == Oracle(graph).least_peak()
    assert better > 100


def test_contraction_keeps_the_optimum_and_worsens_no_order() -> None:
    rng = np.random.default_rng(5)
    merged = 0
    for graph in some_graphs(200, seed=6, most=10):
        context = as_problem(graph)
        small = contract(context.problem)
        less = SearchContext(small.problem)
        merged += context.ops - less.ops
        order = random_order(rng, graph)
        short = small.shrink(order)
        long = small.expand(short)
        assert sorted(long) == list(range(len(graph.ops)))
        assert context.follow(long)[0] == less.follow(short)[0] <= context.follow(order)[0]
    assert merged > 200


def test_forced_cuts_are_the_states_all_orders_pass() -> None:
    for graph in some_graphs(200, seed=7, most=8):
        oracle, n = Oracle(graph), len(graph.ops)
        by_size: dict[int, int] = {}
        for done in oracle.downsets:
            by_size[done.bit_count()] = by_size.get(done.bit_count(), 0) + 1
        problem = build_problem(graph.arrays)
        above, order = related(problem), topological(problem)
        cuts = forced_cuts(problem, order).tolist()
        for v in range(n):
            if above[v].sum() + above[:, v].sum() == n - 1:
                assert {int(above[v].sum()), int(above[v].sum()) + 1} <= set(cuts)
        assert cuts == sorted(set(cuts))
        assert (cuts[0], cuts[-1]) == (0, n)
        for cut in cuts:
            assert by_size[cut] == 1
            assert sum(1 << v for v in order[:cut]) in oracle.downsets


def test_windows_only_improve() -> None:
    for graph in some_graphs(100, seed=8, most=12):
        context = as_problem(graph)
        optimum = Oracle(graph).least_peak()
        windows = WindowSearch(context, topological(context.problem), seed=0)
        before = windows.peak
        while windows.improve(100, 10, optimum):
            assert windows.peak < before
            before = windows.peak
            assert context.follow(windows.order)[0] == windows.peak >= optimum


@pytest.mark.parametrize("work", [0, 20, 10**6])
def test_fewer_tests_imply_less_but_nothing_wrong(work: int) -> None:
    effort = replace(EFFORT, test_work=work)
    implied = 0
    for graph in some_graphs(60, seed=9, most=6):
        context, n = replace(as_problem(graph), effort=effort), len(graph.ops)
        optimum = Oracle(graph).least_peak()
        for budget in (optimum, optimum + 1):
            precedences = BudgetPrecedences(context)
            assert not precedences.refute(budget, np.zeros(n, np.int64))
            implied += len(precedences.added)
            assert_kept(precedences, orders_within(graph, budget))
    assert implied > 10


@pytest.mark.parametrize("work", [0, 6, 12])
def test_flows_that_end_early_imply_less_but_nothing_wrong(
    work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    implied = missed = 0
    for graph in some_graphs(150, seed=11, most=8):
        context, optimum = as_problem(graph), Oracle(graph).least_peak()
        for v in range(len(graph.ops)):
            full = imply_at(context.problem, v, optimum, 1_000)
            with monkeypatch.context() as patch:
                patch.setattr(imply, "MOST_WORK", work)
                least, sides = imply_at(context.problem, v, optimum, 1_000)
            assert least <= full[0] <= optimum
            assert ((sides == FREE) | (sides == full[1])).all()
            implied += np.count_nonzero(sides)
            missed += np.count_nonzero(sides != full[1])
    assert missed > 5
    assert implied > 50
