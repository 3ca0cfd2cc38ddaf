"""Of plans that are as good, one that moves fewer ops of the graph's own order is chosen."""

from __future__ import annotations

import numpy as np
import pytest

from optsched import solve
from optsched.model.order_rules import moved_ops
from optsched.solver import near
from tests.support.generators import random_graph


def test_ties_are_broken_by_moves_and_nothing_else_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(5)
    sizes = rng.integers(5, 40, size=25).tolist()
    graphs = [random_graph(rng, ops, max_size=16, features={"shuffled"}) for ops in sizes]

    def moved() -> tuple[int, list[tuple[int | None, int | None]]]:
        found = [solve(graph, work=20_000) for graph in graphs]
        orders = [result.plan.order for result in found if result.plan is not None]
        count = sum(moved_ops(order, range(len(order))) for order in orders)
        return count, [(result.slab, result.peak) for result in found]

    fewer, figures = moved()
    monkeypatch.setattr(near, "back_to_own_order", lambda known: iter(()))
    more, same = moved()
    assert fewer < more
    assert figures == same
