"""States that some order of minimum peak passes, against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.joint.order_program import problem_program, segments
from optsched.joint.order_source import ContractedGraph
from optsched.joint.passed_states import live_along, with_passed_states
from optsched.model.builder import GraphBuilder
from optsched.model.memory_model import plannable
from optsched.ordering.context import SearchContext
from optsched.ordering.problem import build_problem, topological
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.support.brute import least_peak, least_peak_inplace
from tests.support.generators import random_graph, random_order


def least_peak_of(context: SearchContext) -> int:
    """Return the minimum peak of a problem, by dynamic programming over all states."""
    problem, n = context.problem, context.ops
    needs = [0] * n
    for v in range(n):
        for u in problem.pred[problem.pred_ptr[v] : problem.pred_ptr[v + 1]].tolist():
            needs[v] |= 1 << u
    best: dict[int, int] = {0: problem.base}
    for _ in range(n):
        longer: dict[int, int] = {}
        for done, peak in best.items():
            path = [v for v in topological(problem) if done >> v & 1]
            for v in range(n):
                if not done >> v & 1 and not needs[v] & ~done:
                    rest = [u for u in topological(problem) if not done >> u & 1 and u != v]
                    load = int(context.follow([*path, v, *rest])[1][len(path)])
                    state = done | 1 << v
                    longer[state] = min(longer.get(state, 2**62), max(peak, load))
        best = longer
    return min(best.values())


@pytest.mark.parametrize("seed", range(150))
def test_passing_the_states_costs_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(2, 8)), features={"inputs", "multi", "workspace"})
    graph = plannable(graph, seed % 3 == 0, None)
    expected = least_peak_inplace(graph) if graph.in_place else least_peak(graph)
    context = SearchContext(build_problem(graph.arrays))
    orders = [random_order(rng, graph) for _ in range(3)]
    # Any lower bound will do; with the minimum itself most states are found.
    for bound in (expected, expected - int(rng.integers(0, 8))):
        problem = with_passed_states(context, orders, bound)
        assert least_peak_of(SearchContext(problem)) == expected


@pytest.mark.parametrize("seed", range(20))
def test_live_bytes_along_an_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(1, 9)))
    context, order = SearchContext(build_problem(graph.arrays)), random_order(rng, graph)
    live, done = live_along(context.problem, order), np.zeros(context.ops, np.bool_)
    for at, v in enumerate(order):
        assert live[at] == context.live(done)
        done[v] = True
    assert live[-1] == context.live(done)


def test_what_frees_its_bytes_runs_first() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 1}, workspace=8)
    build.op("b", workspace=5)
    build.output("x")
    context = SearchContext(build_problem(build.build().arrays))
    parts = segments(problem_program(with_passed_states(context, [(1, 0)], 9)))
    assert [part.ops for part in parts] == [(1,), (0,)]


def test_the_last_op_of_a_set_raises_the_bound() -> None:
    build = GraphBuilder()
    for i in range(3):
        build.op(f"start{i}", writes={f"x{i}": i + 1})
        build.op(f"branch{i}", reads=[f"x{i}"], writes={f"y{i}": 5}, workspace=8)
        build.output(f"y{i}")
    graph = build.build()
    source = ContractedGraph(graph, range(6), 0, Clock.of(Limits()))
    assert source.bound == least_peak(graph)
