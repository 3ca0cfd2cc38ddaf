"""Neighborhoods of an order: valid, ever lower, never below the optimum, and repeatable."""

from __future__ import annotations

import numpy as np
import pytest

from heuristics.orderings.program import program
from optsched.check.plan import check_order
from optsched.joint.order_neighborhoods import (
    OrderNeighborhoodEffort,
    lower_orders_nearby,
    with_sequence,
)
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.memory_model import plannable
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.support.brute import least_peak, least_peak_inplace, orders
from tests.support.families.wiring import random_wiring
from tests.support.generators import random_graph, random_order


def peaks(graph: Graph, order: list[int], work: int, floor: int = 0, ops: int = 80) -> list[int]:
    """Return the peaks of all orders yielded, each replayed."""
    clock, effort = Clock.of(Limits(work=work)), OrderNeighborhoodEffort(ops=ops, tries=20)
    found = lower_orders_nearby(graph, order, clock=clock, floor=floor, effort=effort)
    return [check_order(graph, lower) for lower in found]


@pytest.mark.parametrize("seed", range(30))
def test_small_graphs_reach_the_optimum_and_nothing_below(seed: int) -> None:
    rng = np.random.default_rng([seed, 31])
    graph = plannable(random_graph(rng, int(rng.integers(2, 9))), seed % 2 == 1, None)
    order = list(random_order(rng, graph))
    least = least_peak_inplace(graph) if graph.in_place else least_peak(graph)
    found = [check_order(graph, order), *peaks(graph, order, 300_000, least)]
    assert found == sorted(set(found), reverse=True)
    # All ops are free at once.
    assert found[-1] == least
    few = peaks(graph, order, 300_000, least, ops=2)
    assert all(least <= peak < found[0] for peak in few)


def test_ops_that_are_not_free_keep_their_turn() -> None:
    build = GraphBuilder("four")
    for name in "abcd":
        build.op(name, writes={f"{name}.y": 1})
    graph = with_sequence(build.build(), [1, 2, 3])
    assert sorted(orders(graph)) == [(0, 1, 2, 3), (1, 0, 2, 3), (1, 2, 0, 3), (1, 2, 3, 0)]


def test_the_peak_of_random_wiring_falls_the_same_way_each_time() -> None:
    graph = random_wiring(40, 1, unit=False)
    order = program(graph).tolist()
    first, second = (peaks(graph, order, 50_000, ops=20) for _ in range(2))
    assert first == second
    assert first[-1] < check_order(graph, order)
