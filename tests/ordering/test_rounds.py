from __future__ import annotations

import inspect
from dataclasses import fields, replace
from itertools import combinations, pairwise, product
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from optsched.check.plan import check_order
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.ordering import ALL_RULES, OrderingRules, OrderOutcome, closure_bound, solve_order
from optsched.ordering.context import SearchContext
from optsched.ordering.effort import EFFORT
from optsched.ordering.problem import build_problem
from optsched.ordering.progress import OrderProgress
from optsched.ordering.reduce import contraction
from optsched.ordering.rounds import OrderingRounds
from optsched.ordering.search import feasibility
from optsched.ordering.search.feasibility import UNKNOWN, Feasibility, FeasibilitySearch
from optsched.runtime import kernel as kernels
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Event, Limits, Proof, StopReason
from optsched.solver.warmup import wired_graph
from tests.support.clocks import ExpiringClock
from tests.support.families.wiring import random_wiring
from tests.support.generators import PLANNABLE, random_graph, random_order
from tests.support.ordering_oracle import Oracle

NAMES = [field.name for field in fields(OrderingRules)]


def some_graph(rng: np.random.Generator, ops: int, max_size: int) -> Graph:
    return random_graph(rng, ops, max_size=max_size, features=PLANNABLE | {"shuffled"})


def assert_proved(graph: Graph, outcome: OrderOutcome, optimum: int) -> None:
    assert check_order(graph, outcome.order) == outcome.peak
    assert (outcome.peak, outcome.bound) == (optimum, optimum)
    assert outcome.proof in (Proof.BOUND, Proof.SEARCH)
    assert outcome.stop_reason is StopReason.PROVED


@pytest.mark.parametrize("max_size", [2, 5, 16, 2**50])
@pytest.mark.parametrize("states", [1, 8_192])
def test_optimum_is_the_oracles_whatever_the_rules(max_size: int, states: int) -> None:
    # With next to no effort in the first round the later stages come in as well.
    effort = replace(EFFORT, first_states=states)
    if states == 1:
        effort = replace(effort, first_flows=1, flow_work=0)
    rng = np.random.default_rng(max_size)
    # Among few sizes there are many ties, and a rule that is wrong by one byte is found soonest.
    for _ in range(120 if max_size == 2 else 60):
        graph = some_graph(rng, int(rng.integers(0, 11)), max_size)
        optimum = Oracle(graph).least_peak()
        assert_proved(graph, solve_order(graph, effort=effort), optimum)
        for _ in range(3):
            rules = OrderingRules(**{name: bool(rng.integers(2)) for name in NAMES})
            start = random_order(rng, graph)
            assert_proved(
                graph, solve_order(graph, warm_start=start, rules=rules, effort=effort), optimum
            )


def test_one_rule_or_two_alone_or_left_out() -> None:
    """Random subsets of rules, for faults of rules together: see above."""
    efforts = [replace(EFFORT, first_states=states) for states in (1, 8_192)]
    rng = np.random.default_rng(9)
    graphs = [some_graph(rng, 10, 6) for _ in range(7)]
    optima = [Oracle(graph).least_peak() for graph in graphs]
    few = [chosen for count in range(3) for chosen in combinations(NAMES, count)]
    for number, (chosen, on) in enumerate(product(few, (False, True))):
        rules = OrderingRules(**{name: (name in chosen) is on for name in NAMES})
        graph = graphs[number % len(graphs)]
        outcome = solve_order(graph, rules=rules, effort=efforts[number // 2 % 2])
        assert_proved(graph, outcome, optima[number % len(graphs)])


def test_compiled_kernels_do_what_the_twins_do(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    graphs = [some_graph(rng, 11, 9) for _ in range(60)]
    starts = [random_order(rng, graph) for graph in graphs]
    twins = [solve_order(g, warm_start=o) for g, o in zip(graphs, starts, strict=True)]
    monkeypatch.setattr(kernels.policy, "force", kernels.compiled_form)
    for graph, start, twin in zip(graphs, starts, twins, strict=True):
        assert solve_order(graph, warm_start=start) == twin


def branches(count: int, length: int) -> Graph:
    """Chains of different shapes that are joined at the end: many states, no easy way."""
    rng = np.random.default_rng(count)
    build = GraphBuilder("branches")
    for i in range(count):
        last: list[str] = []
        for j in range(length):
            name = f"b{i}_{j}"
            build.op(f"op{i}_{j}", reads=last, writes={name: int(rng.integers(1, 100))})
            last = [name]
    build.op("join", reads=[f"b{i}_{length - 1}" for i in range(count)], writes={"y": 1})
    build.output("y")
    return build.build()


def test_failure_counts_decide_where_to_look_first_and_nothing_else() -> None:
    rng = np.random.default_rng(12)
    branches = 0
    # With next to no states and flows, and many branches for each state, a tree has to decide.
    effort = replace(EFFORT, first_states=1, first_flows=1, flow_work=0, states_per_branch=4)
    rules = replace(ALL_RULES, anneal=False, windows=False)
    for number in range(30):
        graph = random_wiring(16, number, unit=False)
        given = rng.integers(0, 1_000, len(graph.ops)).tolist()
        progress = OrderProgress(failure_counts=tuple(given))
        outcome = solve_order(graph, rules=rules, effort=effort, progress=progress)
        assert_proved(graph, outcome, Oracle(graph).least_peak())
        branches += outcome.statistics.branches
    assert branches > 100


def test_same_answer_each_time_without_a_time_limit() -> None:
    graph = branches(5, 6)
    assert solve_order(graph) == solve_order(graph)


def test_time_limit_keeps_the_warm_start_and_a_valid_bound() -> None:
    graph = branches(6, 8)
    start = random_order(np.random.default_rng(0), graph)
    outcome = solve_order(graph, warm_start=start, limits=Limits(seconds=0.0))
    assert outcome.stop_reason in (StopReason.TIME_LIMIT, StopReason.PROVED)
    assert outcome.bound <= solve_order(graph).peak <= outcome.peak <= check_order(graph, start)


def test_deadline_at_any_look_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = branches(5, 6)
    start = random_order(np.random.default_rng(0), graph)
    optimum = solve_order(graph).peak
    monkeypatch.setattr(contraction, "PACE", 8)
    reasons = set()
    for looks in (*range(40), 60, 100, 10_000):
        outcome = solve_order(graph, warm_start=start, limits=ExpiringClock(looks))
        assert outcome.bound <= optimum <= outcome.peak == check_order(graph, outcome.order)
        assert outcome.peak <= check_order(graph, start)
        reasons.add(outcome.stop_reason)
    assert reasons == {StopReason.TIME_LIMIT, StopReason.PROVED}


@pytest.mark.parametrize("work", [0, 50, 5_000])
def test_a_limit_on_work_ends_at_the_same_place_each_time(work: int) -> None:
    graph = wired_graph(100, seed=1)
    start = list(range(len(graph.ops)))
    first, again = (
        solve_order(graph, warm_start=start, limits=Limits(work=work)) for _ in range(2)
    )
    assert first == again
    assert first.bound <= first.peak == check_order(graph, first.order)
    assert first.stop_reason in (StopReason.WORK_LIMIT, StopReason.PROVED)
    if work <= 50:
        assert first.statistics.stored < 1_000


def test_interrupt_keeps_the_best() -> None:
    graph = branches(6, 8)

    def stop(event: Event) -> None:
        if event.source != "warm start":
            raise KeyboardInterrupt

    outcome = solve_order(graph, on_event=stop)
    assert outcome.stop_reason is StopReason.INTERRUPTED
    assert check_order(graph, outcome.order) == outcome.peak >= outcome.bound


def test_events_move_towards_each_other() -> None:
    events: list[Event] = []
    graph = branches(5, 6)
    start = random_order(np.random.default_rng(1), graph)
    outcome = solve_order(graph, warm_start=start, on_event=events.append)
    for before, after in pairwise(events):
        assert before.incumbent is not None
        assert after.incumbent is not None
        assert before.incumbent >= after.incumbent >= outcome.peak
        assert before.bound <= after.bound <= outcome.bound
    assert events[-1].incumbent == outcome.peak


def test_a_given_bound_that_is_met_ends_the_search() -> None:
    graph = branches(4, 5)
    known = solve_order(graph)
    again = solve_order(graph, warm_start=known.order, bound=known.peak)
    assert again.proof is Proof.BOUND
    assert again.statistics.stored == 0


def test_graph_without_ops() -> None:
    outcome = solve_order(Graph("empty"))
    assert (outcome.order, outcome.peak, outcome.proof) == ((), 0, Proof.BOUND)


def test_rules_are_switches_and_documented() -> None:
    assert all(value is True for value in (getattr(ALL_RULES, name) for name in NAMES))
    text = inspect.getsource(OrderingRules)
    assert [x for x in NAMES if f'    {x}: bool = True\n    """' not in text] == []


@pytest.mark.parametrize("gap", [1, 2, 7, 300])
def test_no_budget_is_given_the_same_effort_twice(gap: int) -> None:
    # Nothing is ever settled: bound and peak stay where they are.
    build = GraphBuilder("one")
    build.op("v", writes={"x": 1_000})
    build.output("x")
    clock = Clock.of(Limits())
    run = OrderingRounds(build.build(), clock, None, 1_000 - gap, ALL_RULES, EFFORT, None)
    tried: list[int] = []

    def decide(budget: int, *_: object) -> Feasibility:
        tried.append(budget)
        return UNKNOWN

    stub = SimpleNamespace(begun=lambda budget, _: budget, decide=decide)
    run.feasibility = cast(FeasibilitySearch, stub)
    run.step = gap // 2 + 1
    run.climb()
    run.decide_top_alone()
    assert len(tried) == len(set(tried))
    assert max(tried) == 999
    assert min(tried) >= 1_000 - gap


def test_a_tree_and_the_search_beside_it_get_equally_many_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A graph of 150 random ops was left open by a search that got a quarter of them."""
    given: list[tuple[str, int]] = []

    def grow(_: FeasibilitySearch, __: object, states: int) -> Feasibility:
        given.append(("tree", states))
        return UNKNOWN

    def search(_: object, __: int, ___: int, states: int, ____: object) -> Feasibility:
        given.append(("search", states))
        return UNKNOWN

    monkeypatch.setattr(FeasibilitySearch, "grow", grow)
    monkeypatch.setattr(feasibility, "search_all", search)
    graph = random_wiring(96, 2, unit=False)
    context = SearchContext(build_problem(graph.arrays), ALL_RULES, EFFORT)
    order = list(range(len(graph.ops)))
    failures = np.zeros(len(order), np.int64)
    budgets = FeasibilitySearch(context, context.during(order), failures, {})
    assert budgets.decide(1_831, 0, 10_000, lambda _: None) is UNKNOWN
    assert given == [("tree", 10_000), ("search", 10_000)]


@pytest.mark.parametrize("flows", [0, 1, 3])
def test_closure_bound_that_waits_for_contraction_is_none_the_less(
    flows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(flows)
    raised = 0
    for _ in range(60):
        graph = some_graph(rng, 11, 16)
        found = closure_bound(graph, most=flows)
        assert found.flows <= flows
        full = closure_bound(graph)
        assert found.value <= full.value
        assert found.complete is (found.flows < flows) or found.value == full.value
        effort = replace(EFFORT, first_flows=flows, flow_work=0)
        events: list[Event] = []
        start = random_order(rng, graph)
        outcome = solve_order(graph, warm_start=start, on_event=events.append, effort=effort)
        raised += sum(event.source == "closure bound" for event in events) > 1
        assert outcome.peak == solve_order(graph).peak == outcome.bound
    assert flows or raised > 5
