"""Orderings on wirings give what they give on graphs; changes keep wirings valid."""

from __future__ import annotations

from random import Random

import pytest

from heuristics import ORDERINGS
from optsched.counterexamples.change import change_packing
from optsched.counterexamples.loss import Objective
from optsched.counterexamples.quick import QUICK, Rows
from optsched.counterexamples.spaces import (
    LiveRanges,
    PairWirings,
    Wirings,
    live_rows,
    make_problem,
)
from optsched.counterexamples.wiring import Wiring
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import packing_problem


def some(count: int, seed: int) -> list[Wiring]:
    space, rng = Wirings("lpmf", None, Objective.RATIO, 9, 20), Random(seed)
    found = []
    at = space.random(rng)
    for _ in range(count):
        at = space.change(at, rng)
        found.append(at)
    return found


def test_every_ordering_is_quick() -> None:
    assert set(QUICK) == set(ORDERINGS)


@pytest.mark.parametrize("method", ORDERINGS)
def test_a_quick_ordering_is_the_ordering(method: str) -> None:
    for wiring in some(60, seed=2):
        assert QUICK[method](Rows(wiring)).tolist() == ORDERINGS[method](wiring.graph(), 0).tolist()


def test_a_loss_is_what_the_graph_says() -> None:
    space = Wirings("lpmf", "bfs", Objective.RATIO, 9, 20)
    for wiring in some(20, seed=3):
        graph, loss = wiring.graph(), space.loss(wiring, 0.0)
        assert loss is not None
        assert loss.value == peak_memory(graph, ORDERINGS["lpmf"](graph, 0))
        assert loss.rival == peak_memory(graph, ORDERINGS["bfs"](graph, 0))


def test_live_rows_are_the_packing_problem() -> None:
    for wiring in some(30, seed=4):
        order = ORDERINGS["dfs"](wiring.graph(), 0)
        problem, _ = packing_problem(wiring.graph(), order)
        mine = make_problem(live_rows(wiring, order.tolist()))
        for column in ("start", "end", "size"):
            assert getattr(mine, column).tolist() == getattr(problem, column).tolist()


def test_a_pair_is_judged_only_where_the_optimum_is_sure() -> None:
    space = PairWirings("bfs+naive", None, Objective.RATIO, 6, 5)
    losses = [space.loss(wiring, 0.0) for wiring in some(20, seed=5)]
    assert any(loss is not None and loss.loses for loss in losses)


@pytest.mark.parametrize("most", [2, 5, 9])
def test_changes_stay_within_limits(most: int) -> None:
    rng = Random(most)
    space = Wirings("lpmf", None, Objective.RATIO, most, 7)
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
    rows = LiveRanges("naive", None, Objective.RATIO, 5, 7).random(rng)
    for _ in range(400):
        rows = change_packing(rows, rng, 5, 6, 7)
        assert 1 <= len(rows) <= 5
        assert all(0 <= s < e <= 6 and 1 <= x <= 7 for s, e, x in rows)
