"""Fewest moves within a peak and least peak within few moves, against all orders."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.check.plan import check_order
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.order_rules import moved_ops
from optsched.ordering.improve.moves_back import move_back
from optsched.ordering.moves import fewest_moves, least_peak_within
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.support.brute import least_peak, orders
from tests.support.generators import PLANNABLE, random_graph, random_order


def _some_graph(rng: np.random.Generator, most: int) -> Graph:
    features = PLANNABLE if rng.random() < 0.5 else {"inputs", "inplace", "multi"}
    size = int(rng.choice([2, 4, 16, 2**40]))
    graph = random_graph(rng, int(rng.integers(1, most + 1)), max_size=size, features=features)
    return graph.with_inplace() if rng.random() < 0.5 else graph


def _some_baseline(rng: np.random.Generator, graph: Graph) -> tuple[int, ...]:
    if rng.random() < 0.2:
        return tuple(rng.permutation(len(graph.ops)).tolist())
    return random_order(rng, graph)


def _unlimited() -> Clock:
    return Clock.of(Limits())


@pytest.mark.parametrize("seed", range(4))
def test_both_are_exact_on_500_graphs(seed: int) -> None:
    rng = np.random.default_rng([17, seed])
    for _ in range(500):
        graph = _some_graph(rng, 6)
        baseline = _some_baseline(rng, graph)
        known = [(check_order(graph, x), moved_ops(x, baseline)) for x in orders(graph)]
        peak = int(rng.choice([p for p, _ in known])) - int(rng.integers(2))
        within = [moved for p, moved in known if p <= peak]
        found = fewest_moves(graph, baseline, peak, clock=_unlimited())
        assert found.complete
        if within:
            assert found.order is not None
            assert check_order(graph, found.order) <= peak
            assert moved_ops(found.order, baseline) == found.moved == found.bound == min(within)
        else:
            assert found.order is None
            assert found.next_peak == min(p for p, _ in known)
        most = int(rng.integers(0, len(graph.ops) + 1))
        peaks = [p for p, moved in known if moved <= most]
        least = least_peak_within(graph, baseline, most, clock=_unlimited())
        assert least.feasible == bool(peaks)
        if least.order is not None:
            assert moved_ops(least.order, baseline) <= most
            assert check_order(graph, least.order) == least.peak == least.bound == min(peaks)
        else:
            assert most < least.moved_bound <= min(moved for _, moved in known)


def test_a_bound_holds_whenever_the_search_ends() -> None:
    rng = np.random.default_rng(3)
    cut = 0
    for _ in range(300):
        graph = _some_graph(rng, 9)
        baseline, peak = random_order(rng, graph), least_peak(graph)
        least = fewest_moves(graph, baseline, peak, clock=_unlimited())
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
        exact = least_peak_within(graph, baseline, within, clock=_unlimited())
        assert bounded.bound <= exact.peak <= bounded.peak
    assert cut > 20


def test_moving_back_keeps_the_peak_and_moves_ever_fewer() -> None:
    rng = np.random.default_rng(4)
    best = 0
    for _ in range(300):
        graph = _some_graph(rng, 9)
        baseline, order = random_order(rng, graph), random_order(rng, graph)
        peak = peak_memory(graph, order)
        last = moved_ops(order, baseline)
        for better in move_back(graph, baseline, order, peak, _unlimited()):
            assert check_order(graph, better) <= peak
            assert moved_ops(better, baseline) < last
            last = moved_ops(better, baseline)
        least = fewest_moves(graph, baseline, peak, clock=_unlimited()).moved
        assert least <= last
        best += least == last
    assert best > 200
