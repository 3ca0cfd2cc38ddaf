"""Minimum cuts of PyTorch's partitioner, each of them computed once.

At each activation memory budget the partitioner cuts the same few graphs, and the budget only
chooses among their results. The cuts take most of its time: for a network of 640 nodes eleven
budgets cut 37 graphs, and 11 of these differ.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import networkx

Cut = tuple[float, tuple[set[Any], set[Any]]]


@contextmanager
def shared_minimum_cuts() -> Iterator[None]:
    """Let calls of `networkx.minimum_cut` within the block share results of equal graphs."""
    compute: Callable[..., Cut] = networkx.minimum_cut
    known: dict[Any, Cut] = {}

    def minimum_cut(graph: Any, source: Any, sink: Any, *others: Any, **how: Any) -> Cut:
        if others or how:
            # A call of another thread, which the partitioner does not make.
            return compute(graph, source, sink, *others, **how)
        edges = tuple((u, v, row.get("capacity")) for u, v, row in graph.edges(data=True))
        key = (tuple(graph), edges, source, sink)
        if key not in known:
            known[key] = compute(graph, source, sink)
        value, (before, after) = known[key]
        return value, ({*before}, {*after})

    with mock.patch.object(networkx, "minimum_cut", minimum_cut):
        yield
