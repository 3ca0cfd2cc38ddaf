"""Fewest moves within a peak and least peak within few moves, against all orders."""

from __future__ import annotations

import numpy as np

from optsched.check.plan import check_order
from optsched.model.liveness import peak_memory
from optsched.model.order_rules import moved_ops
from optsched.ordering.improve.few_moves import lower_peak, move_back
from optsched.ordering.moves import fewest_moves, least_peak_within
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.fuzz import moves
from tests.support.brute import least_peak
from tests.support.generators import random_order


def test_a_sample_of_searches_is_exact() -> None:
    assert moves.fuzz_orders(150, seed=17) == (150, [])


def test_a_bound_holds_whenever_the_search_ends() -> None:
    rng = np.random.default_rng(3)
    cut = 0
    for _ in range(80):
        graph = moves.some_graph(rng, 9)
        baseline, peak = random_order(rng, graph), least_peak(graph)
        least = fewest_moves(graph, baseline, peak, clock=Clock.of(Limits()))
        clock = Clock.of(Limits(work=int(rng.integers(20))))
        known = least.order
        found = fewest_moves(graph, baseline, peak, clock=clock, known=known)
        assert found.bound <= least.moved
        if found.order is not None:
            assert check_order(graph, found.order) <= peak
            assert found.moved == moved_ops(found.order, baseline) >= least.moved
        cut += not found.complete
        within = int(rng.integers(0, 4))
        clock = Clock.of(Limits(work=int(rng.integers(40))))
        bounded = least_peak_within(graph, baseline, within, clock=clock, known=baseline)
        exact = least_peak_within(graph, baseline, within, clock=Clock.of(Limits()))
        assert bounded.bound <= exact.peak <= bounded.peak
    assert cut > 5


def test_single_moves_lower_the_peak_within_the_limit() -> None:
    rng = np.random.default_rng(5)
    best = lower = 0
    for _ in range(80):
        graph = moves.some_graph(rng, 7)
        baseline = random_order(rng, graph)
        most = int(rng.integers(0, 4))
        order = lower_peak(graph, baseline, baseline, most, Clock.of(Limits()))
        assert moved_ops(order, baseline) <= most
        exact = least_peak_within(graph, baseline, most, clock=Clock.of(Limits()))
        assert exact.peak <= check_order(graph, order) <= check_order(graph, baseline)
        best += check_order(graph, order) == exact.peak
        lower += check_order(graph, order) < check_order(graph, baseline)
    assert best > 60
    assert lower > 10


def test_moving_back_keeps_the_peak_and_moves_ever_fewer() -> None:
    rng = np.random.default_rng(4)
    best = 0
    for _ in range(80):
        graph = moves.some_graph(rng, 9)
        baseline, order = random_order(rng, graph), random_order(rng, graph)
        peak = peak_memory(graph, order)
        last = moved_ops(order, baseline)
        for better in move_back(graph, baseline, order, peak, Clock.of(Limits())):
            assert check_order(graph, better) <= peak
            assert moved_ops(better, baseline) < last
            last = moved_ops(better, baseline)
        least = fewest_moves(graph, baseline, peak, clock=Clock.of(Limits())).moved
        assert least <= last
        best += least == last
    assert best > 55
