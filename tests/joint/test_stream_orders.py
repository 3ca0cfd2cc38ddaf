"""The search of all orders of streams from nothing known: it finds the least, and no less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optsched.joint.enumerate import EnumerationEffort, EnumerationOutcome
from optsched.joint.stream_orders import _StreamSearch, enumerate_stream_orders
from optsched.model import stream_relation
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.plan import Plan
from optsched.runtime.clock import Clock
from optsched.runtime.limits import SIZES, Limits, Objective
from tests.support.brute_streams import (
    held_by,
    least_antichain,
    least_slab_of_orders,
    random_stream_graph,
    stream_orders,
)

MUCH = 10_000


def some_graphs(count: int, seed: int) -> list[Graph]:
    rng, found = np.random.default_rng(seed), list[Graph]()
    while len(found) < count:
        graph = random_stream_graph(rng, int(rng.integers(2, 7)), int(rng.integers(2, 4)))
        if graph.on_streams and len(held_by(graph)) <= 8:
            found.append(graph)
    return found


def enumerated(graph: Graph, objective: Objective, **options: Any) -> EnumerationOutcome:
    """Go through all orders of a graph; no plan is known before."""
    ignored = {"offer": lambda plan: None, "offer_order": lambda order: None}
    limits = Limits(seconds=60.0)
    return enumerate_stream_orders(
        graph, MUCH, objective=objective, limits=limits, **(ignored | options)
    )


@pytest.mark.parametrize("objective", SIZES)
def test_all_orders_are_gone_through(objective: Objective) -> None:
    plans, orders = list[Plan](), list[tuple[int, ...]]()
    for graph in some_graphs(120, 1):
        plans.clear()
        orders.clear()
        found = enumerated(
            graph,
            objective,
            offer=plans.append,
            offer_order=lambda order: orders.append(tuple(order)),
        )
        values = [plan.slab(graph) for plan in plans]
        values += [peak_memory(graph, order) for order in orders]
        least = least_antichain(graph)
        wanted = least if objective is Objective.PEAK else least_slab_of_orders(graph)
        assert found.complete
        assert found.refuted + 1 == wanted == values[-1]
        assert found.least_peak == least
        assert values == sorted(set(values), reverse=True)


def test_each_order_is_looked_at_once() -> None:
    for graph in some_graphs(60, 2):
        ends: list[tuple[int, ...]] = []
        clock = Clock.of(Limits(seconds=60.0))
        search = _StreamSearch(graph, MUCH, clock, EnumerationEffort())
        search._end = lambda ends=ends, search=search: ends.append(tuple(search.order))  # type: ignore[method-assign]
        search.extend(0, 0)
        orders = [
            tuple(tuple(v for v in end if graph.ops[v].stream == s) for s in graph.streams)
            for end in ends
        ]
        assert len(set(orders)) == len(orders) == len(list(stream_orders(graph)))


def test_it_gives_up_in_time() -> None:
    (graph,) = some_graphs(1, 3)
    found = enumerated(graph, Objective.PEAK, effort=EnumerationEffort(states=1))
    assert not found.complete


def test_widened_live_ranges_refute_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # As on a graph of millions of conflicts: buffers are kept apart that need not be.
    monkeypatch.setattr(stream_relation, "MOST_PAIRS", 0)
    given_up = 0
    for graph in some_graphs(60, 4):
        found = enumerated(graph, Objective.SLAB)
        given_up += not found.complete
        assert not found.complete or found.refuted < (least_slab_of_orders(graph) or 0)
    assert given_up
