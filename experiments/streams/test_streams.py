"""The study runs, and branches go where the README says."""

from __future__ import annotations

import numpy as np

from experiments.streams.__main__ import branches, measure, row_cells
from experiments.streams.live_states import most_live_at_once
from optsched.model.streams import with_streams
from optsched.runtime.limits import Limits
from tests.support.brute import orders
from tests.support.brute_streams import live_at_once, random_stream_graph
from tests.support.families.small import diamond


def test_branches_go_on_where_a_predecessor_ran() -> None:
    graph = diamond()
    names = {op.name: stream for op, stream in zip(graph.ops, branches(graph, 2), strict=True)}
    assert len(set(names.values())) == 2
    assert with_streams(graph, branches(graph, 2)).on_streams


def test_a_small_graph_is_measured() -> None:
    rows = list(measure(diamond(), Limits(seconds=20.0)))
    assert [row.streams for row in rows] == ["2 of branches", "3 of branches", "levels of 2"]
    assert all(row.one <= row.bound <= row.slab and row.live <= row.peak for row in rows)
    assert row_cells(rows[0])[-2] == "="


def test_the_most_bytes_live_at_once_are_those_of_all_executions() -> None:
    rng = np.random.default_rng(7)
    for _ in range(150):
        graph = random_stream_graph(rng, int(rng.integers(2, 7)), int(rng.integers(2, 4)))
        order = next(orders(graph))
        assert most_live_at_once(graph, order) == live_at_once(graph, order)
