"""Spaces of small instances: losses are those of graphs, changes stay within limits."""

from __future__ import annotations

from random import Random

import pytest

from heuristics import ORDERINGS
from optsched.counterexamples.change import change_packing
from optsched.counterexamples.small_graph import SmallGraph
from optsched.counterexamples.spaces import (
    GraphSpace,
    PackingSpace,
    PairSpace,
    live_rows,
    make_problem,
)
from optsched.counterexamples.target import HuntTarget
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import packing_problem


def some(count: int, seed: int) -> list[SmallGraph]:
    space, rng = GraphSpace(HuntTarget("lpmf", max_ops=9, max_bytes=20)), Random(seed)
    found = []
    at = space.random(rng)
    for _ in range(count):
        at = space.change(at, rng)
        found.append(at)
    return found


def test_a_loss_is_what_the_graph_says() -> None:
    space = GraphSpace(HuntTarget("lpmf", "bfs", max_ops=9, max_bytes=20))
    for small in some(20, seed=3):
        graph, loss = small.graph(), space.loss(small, 0.0)
        assert loss is not None
        assert loss.value == peak_memory(graph, ORDERINGS["lpmf"](graph, 0))
        assert loss.rival == peak_memory(graph, ORDERINGS["bfs"](graph, 0))


def test_live_rows_are_the_packing_problem() -> None:
    for small in some(30, seed=4):
        order = ORDERINGS["dfs"](small.graph(), 0)
        problem, _ = packing_problem(small.graph(), order)
        mine = make_problem(live_rows(small, order.tolist()))
        for column in ("start", "end", "size"):
            assert getattr(mine, column).tolist() == getattr(problem, column).tolist()


def test_a_pair_is_judged_only_where_the_optimum_is_sure() -> None:
    space = PairSpace(HuntTarget("bfs+naive", max_ops=6, max_bytes=5))
    losses = [space.loss(small, 0.0) for small in some(20, seed=5)]
    assert any(loss is not None and loss.loses for loss in losses)


@pytest.mark.parametrize("most", [2, 5, 9])
def test_changes_stay_within_limits(most: int) -> None:
    rng = Random(most)
    space = GraphSpace(HuntTarget("lpmf", max_ops=most, max_bytes=7))
    at = space.random(rng)
    seen = set()
    for _ in range(400):
        at = space.change(at, rng)
        seen.add(len(at))
        assert 1 <= len(at) <= most
        assert len(at.before) == len(at)
        assert all(0 <= mask < 1 << v for v, mask in enumerate(at.before))
        assert all(1 <= size <= 7 for size in at.size)
        assert 0 <= at.kept < 1 << len(at)
    assert seen >= set(range(2, most + 1))


def test_changed_packings_stay_within_limits() -> None:
    rng = Random(1)
    rows = PackingSpace(HuntTarget("naive", max_ops=5, max_bytes=7)).random(rng)
    for _ in range(400):
        rows = change_packing(rows, rng, 5, 6, 7)
        assert 1 <= len(rows) <= 5
        assert all(0 <= s < e <= 6 and 1 <= x <= 7 for s, e, x in rows)
