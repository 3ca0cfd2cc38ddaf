"""States with very many ready ops: only what a move touches is placed with it."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.builder import GraphBuilder
from optsched.graph import Graph
from optsched.ordering import engine, solve_order
from optsched.ordering.interval import Search
from optsched.ordering.kernels import children, state
from optsched.ordering.kernels.arena import STATES
from optsched.ordering.model import build_net
from optsched.ordering.problem import Problem
from tests.generators import random_graph, random_order
from tests.ordering.oracle import Oracle


@pytest.mark.parametrize("users", [0, 2, 1_000])
def test_optimum_is_the_oracles_where_every_state_is_wide(
    users: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Twins only: compiled kernels have their constants built in.
    monkeypatch.setattr(Problem, "pick", lambda self, kernel: kernel)
    monkeypatch.setattr(engine, "FIRST_EFFORT", 8)
    monkeypatch.setattr(children, "WIDE", 0)
    monkeypatch.setattr(state, "CROWD", users)
    rng = np.random.default_rng(users)
    for number in range(80):
        graph = random_graph(rng, int(rng.integers(4, 11)), max_size=9)
        optimum = Oracle(graph).least_peak()
        start = random_order(rng, graph)
        graph = graph.with_inplace() if number % 4 == 0 else graph
        outcome = solve_order(graph, warm_start=start)
        assert outcome.peak == outcome.bound
        if not graph.in_place:
            assert outcome.peak == optimum


def wide(count: int) -> Graph:
    """Pairs of ops, each by itself, all joined at the end; one input that half of them read."""
    rng = np.random.default_rng(count)
    build = GraphBuilder("wide")
    build.input("x", 50)
    for i in range(count):
        build.op(f"up{i}", reads=["x"] if i % 2 else [], writes={f"u{i}": int(rng.integers(1, 99))})
        build.op(f"down{i}", reads=[f"u{i}"], writes={f"d{i}": int(rng.integers(1, 99))})
    build.op("join", reads=[f"d{i}" for i in range(count)], writes={"y": 1})
    build.output("y")
    return build.build()


def test_states_are_what_their_moves_make() -> None:
    graph = wide(state.WIDE + 30)
    problem = Problem(build_net(graph.arrays), graph.arrays.initial)
    low, high = np.zeros(problem.ops, np.bool_), np.ones(problem.ops, np.bool_)
    search = Search(
        problem, low, high, forward=True, budget=2**40, ceiling=2**41, commit=False, probe=0
    )
    search.run(state.WIDE + 20)
    arena, rng = search.arena, np.random.default_rng(0)
    count = int(arena.fill[STATES])
    assert count > state.WIDE
    for s in rng.integers(1, count, 40).tolist():
        done, at = low.copy(), s
        while at > 0:
            first = arena.start[at]
            done[arena.moves[first : first + arena.length[at]]] = True
            at = int(arena.parent[at])
        assert problem.live(done) == arena.live[s]
        assert np.count_nonzero(~done) == arena.left[s]
