"""The exact order search in the in-place model, against enumeration of orders and choices."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import combinations

import numpy as np
import pytest

from optsched.check.plan import check_order
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.inplace import matched_bytes
from optsched.ordering import ClosureBound, OrderingRules, closure_bound, solve_order
from optsched.ordering import rounds as engine
from optsched.ordering.bound.precedences import BudgetPrecedences, related
from optsched.ordering.bound.sets import ForcedSet
from optsched.ordering.context import SearchContext
from optsched.ordering.effort import EFFORT
from optsched.ordering.inplace import find_savings
from optsched.ordering.kernels.cut import MOST_CASES, around, least_given
from optsched.ordering.problem import OrderingProblem, build_problem
from optsched.ordering.reduce.contraction import contract
from optsched.runtime import kernel as kernels
from optsched.runtime.limits import Proof
from tests.model.test_inplace import more_candidates
from tests.support.brute import (
    inplace_pairs,
    least_peak,
    live_bytes,
    most_saved,
    orders,
    storage_of,
)
from tests.support.generators import PLANNABLE, random_graph, random_order

NAMES = [field.name for field in fields(OrderingRules)]
BUSY = frozenset({"inputs", "inplace", "multi", "workspace"})


def some_graph(rng: np.random.Generator, most: int, max_size: int = 9) -> Graph:
    """Half of them with few features, which leaves more of them to the search."""
    features = BUSY if rng.random() < 0.5 else PLANNABLE | {"shuffled"}
    ops = int(rng.integers(1, most + 1))
    graph = random_graph(rng, ops, max_size=max_size, features=features)
    return more_candidates(rng, graph).with_inplace()


def nothing_known(graph: Graph, *_: object, **__: object) -> ClosureBound:
    """A bound that leaves all work to the search."""
    return ClosureBound(graph.arrays.initial, None, 0, complete=True)


@pytest.mark.parametrize("max_size", [2, 9, 2**40])
@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("states", [1, 8_192])
def test_optimum_is_the_oracles_whatever_the_rules(
    max_size: int, bound: bool, states: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    effort = replace(EFFORT, first_states=states)
    if not bound:
        monkeypatch.setattr(engine, "closure_bound", nothing_known)
    rng = np.random.default_rng(max_size + states + bound)
    for _ in range(60):
        graph = some_graph(rng, 9, max_size)
        optimum = least_peak(graph)
        for number in range(3):
            rules = OrderingRules(**{name: not number or bool(rng.integers(2)) for name in NAMES})
            start = random_order(rng, graph) if number < 2 else None
            outcome = solve_order(graph, warm_start=start, rules=rules, effort=effort)
            assert check_order(graph, outcome.order) == outcome.peak
            assert (outcome.peak, outcome.bound) == (optimum, optimum)
            assert outcome.proof in (Proof.BOUND, Proof.SEARCH)


def test_what_is_saved_counts_among_the_steps_of_a_peak() -> None:
    """All sizes as they come and go are multiples of 6, but the peak is not."""
    build = GraphBuilder("steps")
    build.op("p", writes={"r": 6})
    build.op("w", reads=["r"])
    build.op("v", reads=["r"], writes={"a": 3, "b": 3})
    build.op("k", reads=["a", "b"])
    build.inplace("v", "a", "r")
    build.inplace("v", "b", "r")
    outcome = solve_order(build.build().with_inplace())
    assert (outcome.peak, outcome.bound) == (9, 9)


def test_compiled_kernels_do_what_the_twins_do(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    monkeypatch.setattr(engine, "closure_bound", nothing_known)
    graphs = [some_graph(rng, 11) for _ in range(40)]
    twins = [solve_order(graph) for graph in graphs]
    monkeypatch.setattr(kernels.policy, "force", kernels.compiled_form)
    for graph, twin in zip(graphs, twins, strict=True):
        assert solve_order(graph) == twin


def during(graph: Graph, v: int, done: int) -> int:
    """Live bytes while an op runs after the ops of a mask."""
    saved = most_saved(graph, inplace_pairs(graph), v, done)
    return live_bytes(storage_of(graph), done | 1 << v, done) - saved


def downsets(graph: Graph) -> list[int]:
    needs = [sum(1 << u for u in before) for before in graph.predecessors]
    found, stack = {0}, [0]
    while stack:
        done = stack.pop()
        for v, need in enumerate(needs):
            if not need & ~done and done | 1 << v not in found:
                found.add(done | 1 << v)
                stack.append(done | 1 << v)
    return sorted(found)


def least_during(graph: Graph, v: int) -> int:
    need = sum(1 << u for u in graph.predecessors[v])
    return min(
        during(graph, v, done) for done in downsets(graph) if not need & ~done and not done >> v & 1
    )


def test_closure_bound_of_an_op_is_the_least_over_all_downsets() -> None:
    rng = np.random.default_rng(6)
    for _ in range(60):
        graph = some_graph(rng, 7)
        problem = build_problem(graph.arrays)
        spot = np.full(len(graph.ops), -1, np.int64)
        for v in range(len(graph.ops)):
            assert np.diff(problem.saving_ptr)[v] <= MOST_CASES
            found = least_given(problem, *around(problem, v), v, spot)
            assert found == least_during(graph, v)
        assert closure_bound(graph, [random_order(rng, graph)]).value <= least_peak(graph)


def test_an_op_with_too_many_cases_still_has_a_valid_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    from optsched.ordering.kernels import cut
    from optsched.ordering.kernels import precedences as imply

    monkeypatch.setattr(cut, "MOST_CASES", 0)
    monkeypatch.setattr(imply, "MOST_CASES", 0)
    rng = np.random.default_rng(16)
    weaker = 0
    for _ in range(60):
        graph = some_graph(rng, 7)
        problem = build_problem(graph.arrays)
        spot = np.full(len(graph.ops), -1, np.int64)
        for v in range(len(graph.ops)):
            found = least_given(problem, *around(problem, v), v, spot)
            assert found <= least_during(graph, v)
            weaker += found < least_during(graph, v)
        assert solve_order(graph).bound == least_peak(graph)
    assert weaker


def test_implied_precedences_and_set_bounds_hold_for_every_order_within_the_budget() -> None:
    rng = np.random.default_rng(8)
    refuted = implied = 0
    for _ in range(120):
        graph = some_graph(rng, 6)
        context, n = (
            SearchContext(build_problem(graph.arrays)),
            len(graph.ops),
        )
        peaks = {order: check_order(graph, order) for order in orders(graph)}
        optimum = min(peaks.values())
        found = ForcedSet.find(context, related(context.problem), 0)
        assert found is None or found.value <= optimum
        for budget in range(max(0, optimum - 1), optimum + 3):
            precedences = BudgetPrecedences(context)
            within = [order for order, peak in peaks.items() if peak <= budget]
            if precedences.refute(budget, np.zeros(n, np.int64)):
                assert not within
                refuted += 1
                continue
            implied += len(precedences.added)
            for order in within:
                at = {v: i for i, v in enumerate(order)}
                assert all(at[first] < at[second] for first, second in precedences.added)
            assert contract(precedences.problem).problem is not None
    assert refuted > 50
    assert implied > 50


def least_of(problem: OrderingProblem, ops: int) -> int:
    """Least peak of a problem, by all its orders."""
    context = SearchContext(problem)

    def extend(order: tuple[int, ...]) -> int:
        if len(order) == ops:
            return context.follow(order)[0]
        return min(
            extend((*order, v))
            for v in range(ops)
            if v not in order
            and set(problem.pred[problem.pred_ptr[v] : problem.pred_ptr[v + 1]]) <= {*order}
        )

    return extend(())


@pytest.mark.parametrize("merge", [True, False])
def test_contraction_keeps_the_optimum(merge: bool) -> None:
    rng = np.random.default_rng(10)
    kept = 0
    for _ in range(120):
        graph = some_graph(rng, 6)
        small = contract(build_problem(graph.arrays), merge=merge)
        optimum = least_peak(graph)
        assert least_of(small.problem, len(small.members)) == optimum
        kept += len(small.problem.saving)
        order = random_order(rng, graph)
        shorter = small.shrink(order)
        peak = SearchContext(small.problem).follow(shorter)[0]
        assert check_order(graph, small.expand(shorter)) <= peak <= check_order(graph, order)
    assert kept > 10


def test_ways_say_the_heaviest_matching_for_every_set_of_inputs() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        size = rng.integers(1, 5, 4)
        pairs = [(b, 10 + r) for b in range(4) for r in range(4) if rng.random() < 0.4]
        certain = {r for r in range(10, 14) if rng.random() < 0.3}
        always, ways = find_savings(pairs, size, certain)
        for count in range(5):
            for inputs in map(set, combinations(range(10, 14), count)):
                exact = matched_bytes([p for p in pairs if p[1] in inputs | certain], size)
                best = max((value for value, needs in ways if needs <= inputs), default=0)
                assert always + best == exact
