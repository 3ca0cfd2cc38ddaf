"""States with very many ready ops: the closure rule is left out, and second steps are few."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.ordering import solve_order
from optsched.ordering.context import SearchContext
from optsched.ordering.effort import EFFORT
from optsched.ordering.kernels import children, state
from optsched.ordering.kernels.states import MOVES, STATES
from optsched.ordering.problem import build_problem
from optsched.ordering.rules import OrderingRules
from optsched.ordering.search.segment import DirectedSearch, Segment
from optsched.runtime import kernel as kernels
from tests.support.generators import random_graph, random_order
from tests.support.ordering_oracle import Oracle


@pytest.mark.parametrize("looks", [1 << 24, 9, 30])
def test_optimum_is_the_oracles_where_every_state_is_wide(
    looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Twins only: compiled kernels have their constants built in.
    monkeypatch.setattr(kernels.policy, "force", kernels.reference_form)
    effort = replace(EFFORT, first_states=8)
    monkeypatch.setattr(children, "WIDE", 0)
    monkeypatch.setattr(children, "MOST_LOOKS", looks)
    rng = np.random.default_rng(looks)
    for number in range(80):
        graph = random_graph(rng, int(rng.integers(4, 11)), max_size=9)
        optimum = Oracle(graph).least_peak()
        start = random_order(rng, graph)
        graph = graph.with_inplace() if number % 4 == 0 else graph
        outcome = solve_order(graph, warm_start=start, effort=effort)
        assert outcome.peak == outcome.bound
        if not graph.in_place:
            assert outcome.peak == optimum


def wide(count: int) -> Graph:
    """Pairs of ops, unrelated, all joined at the end; one input that half of them read."""
    rng = np.random.default_rng(count)
    build = GraphBuilder("wide")
    build.input("x", 50)
    for i in range(count):
        build.op(f"up{i}", reads=["x"] if i % 2 else [], writes={f"u{i}": int(rng.integers(1, 99))})
        build.op(f"down{i}", reads=[f"u{i}"], writes={f"d{i}": int(rng.integers(1, 99))})
    build.op("join", reads=[f"d{i}" for i in range(count)], writes={"y": 1})
    build.output("y")
    return build.build()


def star(leaves: int) -> Graph:
    """Ops that read one buffer, and one that reads what all of them make."""
    build = GraphBuilder("star")
    build.input("x", 5)
    for i in range(leaves):
        build.op(f"leaf{i}", reads=["x"], writes={f"b{i}": 7 + i % 3})
    build.op("join", reads=[f"b{i}" for i in range(leaves)], writes={"y": 1})
    build.output("y")
    return build.build()


def apart(pairs: int) -> Graph:
    """Pairs of ops that have nothing to do with one another; their results are kept."""
    build = GraphBuilder("apart")
    for i in range(pairs):
        build.op(f"up{i}", writes={f"u{i}": 9 + i % 5})
        build.op(f"down{i}", reads=[f"u{i}"], writes={f"d{i}": 6 + i % 7})
        build.output(f"d{i}")
    return build.build()


def begin(graph: Graph, budget: int, *, forward: bool) -> DirectedSearch:
    rules = OrderingRules(commit=False)
    context = SearchContext(build_problem(graph.arrays), rules)
    low, high = np.zeros(context.ops, np.bool_), np.ones(context.ops, np.bool_)
    return DirectedSearch(Segment(context, low, high, budget, 2**60), forward=forward)


def test_looks_at_ready_ops_from_one_state_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels.policy, "force", kernels.reference_form)
    looks = 0

    def counted(*args: Any) -> tuple[Any, Any]:
        nonlocal looks
        looks += 1
        return state.look_ahead(*args)

    monkeypatch.setattr(children, "look_ahead", counted)
    monkeypatch.setattr(children, "WIDE", 16)
    monkeypatch.setattr(children, "MOST_LOOKS", 2_000)
    search = begin(star(200), 2**50, forward=True)
    search.slice = 1
    search.run(2)
    # Each leaf once, then second steps: as any two leaves touch each other, 40,000 without a limit.
    assert search.states == 201
    assert 200 <= looks < 4_000


def test_of_many_ready_ops_one_that_costs_nothing_is_the_only_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels.policy, "force", kernels.reference_form)
    monkeypatch.setattr(children, "WIDE", 16)
    build = GraphBuilder("one")
    for i in range(40):
        build.input(f"x{i}", 3)
        build.op(f"op{i}", reads=[f"x{i}"], writes={f"b{i}": 2 if i in (20, 30) else 9})
        build.output(f"b{i}")
    search = begin(build.build(), 2**50, forward=True)
    search.slice = 1
    search.run(2)
    arena = search.arena
    assert search.states == 2
    assert arena.moves[: arena.length[1]].tolist() == [20]


@pytest.mark.parametrize("forward", [True, False])
def test_wide_twin_and_compiled_go_the_same_way(
    forward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = apart(children.WIDE + 6) if forward else star(children.WIDE + 6)
    budget = sum(buffer.size for buffer in graph.buffers) - 3
    found = []
    for compiled in (False, True):
        with monkeypatch.context() as patch:
            if not compiled:
                patch.setattr(kernels.policy, "force", kernels.reference_form)
            search = begin(graph, budget, forward=forward)
            search.slice = 1
            search.run(3)
        arena = search.arena
        count, used = int(arena.fill[STATES]), int(arena.fill[MOVES])
        found.append((count, arena.live[:count].tolist(), arena.moves[:used].tolist()))
    assert found[0] == found[1]


def test_states_are_what_their_moves_make() -> None:
    graph = wide(state.WIDE + 30)
    rules = OrderingRules(commit=False, probe=False)
    context = SearchContext(build_problem(graph.arrays), rules)
    low, high = np.zeros(context.ops, np.bool_), np.ones(context.ops, np.bool_)
    search = DirectedSearch(Segment(context, low, high, 2**40, 2**41), forward=True)
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
        assert context.live(done) == arena.live[s]
        assert np.count_nonzero(~done) == arena.left[s]
