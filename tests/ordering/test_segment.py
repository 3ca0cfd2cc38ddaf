"""Intervals: a search that goes on after a commit is where a new one would begin."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.ordering.context import SearchContext
from optsched.ordering.effort import EFFORT
from optsched.ordering.kernels.state import READY
from optsched.ordering.kernels.states import STATE_BYTES, make_arena
from optsched.ordering.problem import build_problem
from optsched.ordering.rules import OrderingRules
from optsched.ordering.search.segment import DirectedSearch, Segment
from optsched.ordering.solve import solve_order
from tests.support.generators import random_graph, random_order


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("in_place", [False, True])
def test_going_on_after_a_commit_is_beginning_there(forward: bool, in_place: bool) -> None:
    rng = np.random.default_rng(2 * forward + in_place)
    for _ in range(40):
        graph = random_graph(rng, ops=int(rng.integers(2, 12)))
        graph = graph.with_inplace() if in_place else graph
        context = SearchContext(build_problem(graph.arrays))
        n = context.ops
        order = list(random_order(rng, graph))
        order = order if forward else order[::-1]
        low, high = np.zeros(n, np.bool_), np.ones(n, np.bool_)

        def begin(
            low: np.ndarray, high: np.ndarray, context: SearchContext = context
        ) -> DirectedSearch:
            return DirectedSearch(Segment(context, low, high, 0, 2**60), forward=forward)

        search = begin(low, high)
        first = 0
        while first < n - 1:
            end = int(rng.integers(first + 1, n))
            moves = order[first:end]
            live = search.commit(moves)
            (low if forward else high)[moves] = forward
            fresh = begin(low, high)
            state, expected = search.state, fresh.state
            for name in ("done", "within", "missing", "waiting", "tally"):
                assert (getattr(state, name) == getattr(expected, name)).all(), name
            ready = state.ready[: state.tally[READY]]
            assert set(ready) == set(expected.ready[: expected.tally[READY]])
            assert (state.slot[ready] == np.arange(len(ready))).all()
            assert live == context.live(low if forward else high)
            assert search.arena.left[0] == fresh.arena.left[0] == n - end
            assert search.arena.live[0] == fresh.arena.live[0] == live
            search.reset()
            assert (search.state.done == expected.done).all()
            assert (search.state.within == expected.within).all()
            first = end


def test_states_take_the_bytes_that_are_counted() -> None:
    room = 1_024
    arena = make_arena(2 * room, 10, np.int64(10), np.int64(0))
    smaller = make_arena(room, 10, np.int64(10), np.int64(0))
    taken = sum(a.nbytes - b.nbytes for a, b in zip(arena, smaller, strict=True))
    assert taken == room * STATE_BYTES
    graph = random_graph(np.random.default_rng(1), ops=10)
    statistics = solve_order(graph, rules=OrderingRules(contract=False)).statistics
    assert (statistics.table_bytes >= EFFORT.first_room * STATE_BYTES) == (statistics.stored > 0)
