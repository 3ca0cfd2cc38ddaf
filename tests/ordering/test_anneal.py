from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optsched.check.plan import check_order
from optsched.model.graph import Graph
from optsched.ordering import ALL_RULES, solve_order
from optsched.ordering.context import OutOfTimeError, SearchContext
from optsched.ordering.effort import EFFORT
from optsched.ordering.improve.anneal import Annealer
from optsched.ordering.kernels.walk import go_on, start_walk
from optsched.ordering.problem import build_problem
from optsched.runtime import kernel as kernels
from optsched.runtime.limits import Limits
from optsched.solver.warmup import wired_graph
from tests.support.clocks import ExpiringClock
from tests.support.generators import PLANNABLE, random_graph, random_order
from tests.support.ordering_oracle import Oracle

STRIDE = EFFORT.stride


def make_problem(graph: Graph) -> SearchContext:
    return SearchContext(build_problem(graph.arrays))


def some_graphs(seed: int, count: int) -> list[tuple[Graph, tuple[int, ...]]]:
    rng = np.random.default_rng(seed)
    graphs = []
    for _ in range(count):
        graph = random_graph(
            rng, int(rng.integers(1, 14)), max_size=int(rng.choice([2, 9, 2**55])),
            features=PLANNABLE | {"shuffled"},
        )  # fmt: skip
        graphs.append((graph, random_order(rng, graph)))
    return graphs


def test_a_walk_knows_its_order_after_every_move() -> None:
    # What is kept from move to move is what a walk that begins there works out, in-place included.
    luck = np.full(4096, 10.0)
    reaches = np.arange(4096) % 7 + 1
    moved = 0
    for graph, start in some_graphs(1, 60):
        context = make_problem(graph)
        order = np.array(start, np.int64)
        walk = start_walk(context.problem, order, context.follow(start)[1])
        rng = np.random.default_rng(2)
        for _ in range(40):
            before = walk.order.tolist()
            heat = float(rng.choice([0.0, 1.0, 2.0**55]))
            go_on(context.problem, walk, 0, heat, rng.integers(0, 2**62, 1), reaches, luck)
            moved += walk.order.tolist() != before
            assert walk.step[walk.order].tolist() == list(range(len(start)))
            peak, during = context.follow(walk.order.tolist())
            fresh = start_walk(context.problem, walk.order, during)
            for kept, known in zip(walk[:5], fresh[:5], strict=True):
                assert kept.tolist() == known.tolist()
            assert check_order(graph, walk.order.tolist()) == peak
    assert moved > 400


def test_compiled_walk_does_what_the_twin_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for graph, start in some_graphs(3, 12):
        answers = []
        for form in (kernels.reference_form, kernels.compiled_form):
            monkeypatch.setattr(kernels.policy, "force", form)
            walker = Annealer(make_problem(graph), start, seed=5)
            walker.improve(2 * STRIDE, 0)
            answers.append((walker.order, [x.tolist() for x in walker.walk[:5]]))
        assert answers[0] == answers[1]


def test_never_worse_and_never_below_the_optimum() -> None:
    best = 0
    for graph, start in some_graphs(4, 30):
        walker = Annealer(make_problem(graph), start, seed=0)
        assert walker.peak == check_order(graph, start)
        walker.improve(STRIDE, 0)
        optimum = Oracle(graph).least_peak()
        assert optimum <= walker.peak == check_order(graph, walker.order)
        assert walker.peak <= check_order(graph, start)
        best += walker.peak == optimum
    assert best >= 25


def test_goes_on_while_it_helps_and_stops_at_the_floor() -> None:
    graph = wired_graph(100, seed=1)
    start = list(range(len(graph.ops)))
    short = Annealer(make_problem(graph), start, seed=0)
    short.improve(STRIDE, 0)
    assert STRIDE < short.walked <= max(STRIDE, 2 * short.lowered) + STRIDE
    assert short.peak < check_order(graph, start)
    again = Annealer(make_problem(graph), start, seed=0)
    again.improve(STRIDE, short.peak)
    assert again.walked == again.lowered == short.lowered
    effort = replace(EFFORT, helpful=1)
    limited = Annealer(replace(make_problem(graph), effort=effort), start, seed=0)
    limited.improve(STRIDE, 0)
    assert limited.walked == STRIDE


def test_taken_up_from_a_better_order_it_goes_on_from_there() -> None:
    graph = wired_graph(100, seed=2)
    good = Annealer(make_problem(graph), range(len(graph.ops)), seed=0)
    good.improve(8 * STRIDE, 0)
    other = Annealer(make_problem(graph), range(len(graph.ops)), seed=1)
    assert other.peak > good.peak
    other.start_from(good.order)
    assert (other.order, other.peak) == (good.order, good.peak)
    other.improve(STRIDE, 0)
    assert check_order(graph, other.order) == other.peak <= good.peak


def test_out_of_time_keeps_the_best() -> None:
    graph = wired_graph(100, seed=3)
    context = replace(make_problem(graph), clock=ExpiringClock(0))
    walker = Annealer(context, range(len(graph.ops)), seed=0)
    with pytest.raises(OutOfTimeError):
        walker.improve(10**9, 0)
    assert walker.walked == STRIDE
    assert check_order(graph, walker.order) == walker.peak


def test_search_walks_only_where_it_failed_and_is_allowed_to() -> None:
    easy = solve_order(wired_graph(12))
    assert easy.statistics.walked == 0
    graph, limits = wired_graph(100, seed=5), Limits(seed=1)
    outcome = solve_order(graph, limits=limits)
    assert outcome.statistics.walked >= outcome.statistics.lowered > 0
    assert outcome == solve_order(graph, limits=limits)
    without = solve_order(graph, limits=limits, rules=replace(ALL_RULES, anneal=False))
    assert without.statistics.walked == 0
    assert (without.peak, without.bound) == (outcome.peak, outcome.bound)
