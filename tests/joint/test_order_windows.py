"""Windows of an order: orders are valid and ever lower, never below the optimum, and repeatable."""

from __future__ import annotations

import numpy as np
import pytest

from heuristics.orderings.program import program
from optsched.check.plan import check_order
from optsched.joint.instance import graph_instance
from optsched.joint.order_program import instance_program
from optsched.joint.order_windows import lower_orders
from optsched.model.graph import Graph
from optsched.model.liveness import timeline
from optsched.model.memory_model import plannable
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.support.brute import least_peak, least_peak_inplace
from tests.support.families.wiring import random_wiring
from tests.support.generators import random_graph, random_order


def peaks(graph: Graph, order: list[int], work: int, floor: int = 0) -> list[int]:
    """Return the peaks of all orders yielded, each replayed."""
    clock = Clock.of(Limits(work=work))
    found = lower_orders(graph, order, clock=clock, floor=floor)
    return [check_order(graph, lower) for lower in found]


@pytest.mark.parametrize("seed", range(30))
def test_small_graphs_reach_the_optimum_and_nothing_below(seed: int) -> None:
    rng = np.random.default_rng([seed, 30])
    graph = plannable(random_graph(rng, int(rng.integers(2, 9))), seed % 2 == 1, None)
    order = list(random_order(rng, graph))
    least = least_peak_inplace(graph) if graph.in_place else least_peak(graph)
    found = [check_order(graph, order), *peaks(graph, order, 300_000, least)]
    assert found == sorted(set(found), reverse=True)
    # All ops are in one window.
    assert found[-1] == least


def test_loads_are_those_of_the_timeline() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        graph = random_graph(rng, 9)
        order = random_order(rng, graph)
        instance = graph_instance(graph)
        loads = instance_program(instance).loads(order)
        base = instance_program(instance).base
        during = timeline(graph, order).running
        assert [x * instance.unit for x in loads] == [max(base * instance.unit, x) for x in during]


def test_the_peak_of_random_wiring_falls_the_same_way_each_time() -> None:
    graph = random_wiring(40, 1, unit=False)
    order = program(graph).tolist()
    first, second = (peaks(graph, order, 12_000) for _ in range(2))
    assert first == second
    assert first[-1] < check_order(graph, order)
