"""Random order rules, and the least values of orders that keep them and move few ops."""

from __future__ import annotations

import numpy as np

from optsched.model.graph import Graph
from optsched.model.order_rules import OrderRules


def random_rules(rng: np.random.Generator, graph: Graph) -> OrderRules:
    """Rules that some order may keep or not: often those that one order of the graph keeps."""
    names = [graph.ops[v].name for v in rng.permutation(len(graph.ops))]
    if rng.random() < 0.7:
        from tests.support.generators import random_order

        names = [graph.ops[v].name for v in random_order(rng, graph)]
    n = len(names)
    first = int(rng.integers(0, n // 2 + 1))
    last = int(rng.integers(0, n // 2 + 1))
    groups = [tuple(name for name in names if rng.random() < 0.5) for _ in range(rng.integers(3))]
    return OrderRules(tuple(names[:first]), tuple(names[n - last :]), tuple(groups))
