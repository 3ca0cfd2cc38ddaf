"""Contractions: what is implied is dropped alike, however many ops are looked at at a time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from optsched.model.arrays import build_rows
from optsched.model.builder import GraphBuilder
from optsched.ordering.context import OutOfTimeError
from optsched.ordering.kernels.bits import WORD
from optsched.ordering.problem import build_problem
from optsched.ordering.reduce import contraction
from optsched.ordering.reduce import transitive as implied
from optsched.ordering.reduce.contraction import contract
from optsched.ordering.reduce.transitive import mark_implied
from tests.support.generators import random_graph


@pytest.mark.parametrize("merge", [True, False])
def test_blocks_of_ops_make_no_difference(merge: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(merge)
    blocks = 0
    for _ in range(30):
        graph = random_graph(rng, ops=int(rng.integers(1, 250)))
        problem = build_problem(graph.arrays)
        monkeypatch.setattr(implied, "BLOCK_WORDS", 16)
        whole = contract(problem, merge=merge)
        for block in (1, 2):
            blocks = max(blocks, len(problem.delta) // (block * WORD))
            monkeypatch.setattr(implied, "BLOCK_WORDS", block)
            parts = contract(problem, merge=merge)
            assert parts.members == whole.members
            assert all(map(np.array_equal, parts.problem, whole.problem))
    assert blocks > 2


def test_implied_edges_and_uses_are_those_by_definition() -> None:
    rng = np.random.default_rng(6)
    marked = 0
    for _ in range(60):
        n, width = int(rng.integers(1, 150)), int(rng.integers(1, 3))
        chances = rng.random(2)
        pred = build_rows(
            [set(np.flatnonzero(rng.random(v) < chances[0] / 5).tolist()) for v in range(n)]
        )
        user = build_rows(
            [{int(rng.integers(n))} | set(np.flatnonzero(rng.random(n) < chances[1] / 9).tolist())
             for _ in range(20)]
        )  # fmt: skip
        above: list[set[int]] = []
        for v in range(n):
            row = pred.idx[pred.ptr[v] : pred.ptr[v + 1]].tolist()
            above.append(set().union(row, *(above[u] for u in row)))
        wanted = [
            [
                bool(set().union(*(above[w] for w in rows.idx[a:b].tolist())) & {u})
                for a, b in pairwise(rows.ptr)
                for u in rows.idx[a:b].tolist()
            ]
            for rows in (pred, user)
        ]
        for mark in (mark_implied, mark_implied.compiled):
            found = [np.zeros(len(rows.idx), np.bool_) for rows in (pred, user)]
            room = np.full((n, width), -1)
            for start in range(0, n, width * WORD):
                mark(
                    pred.ptr, pred.idx, user.ptr, user.idx, np.int64(start), np.int64(n), room,
                    *found,
                )  # fmt: skip
            assert [marks.tolist() for marks in found] == wanted
        marked += sum(map(sum, wanted))
    assert marked > 1_000


def test_without_merging_no_edge_follows_from_others() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        problem = contract(build_problem(random_graph(rng, ops=12).arrays), merge=False).problem
        pred = [set(problem.pred[a:b].tolist()) for a, b in pairwise(problem.pred_ptr)]

        def ancestors(v: int, pred: list[set[int]] = pred) -> set[int]:
            return set().union(*({u} | ancestors(u) for u in pred[v]))

        for row in pred:
            assert not any(row & ancestors(u) for u in row)
        for b in range(len(problem.size)):
            users = set(problem.user[problem.user_ptr[b] : problem.user_ptr[b + 1]].tolist())
            assert len(users) > 1
            assert not any(users & ancestors(u) for u in users)


def test_contraction_looks_at_the_clock_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction, "PACE", 10)
    rng = np.random.default_rng(8)
    problem = build_problem(random_graph(rng, ops=400).arrays)
    looks = 0

    def count() -> None:
        nonlocal looks
        looks += 1

    assert contract(problem, check_time=count).members == contract(problem).members
    # Of some dozen passes over the ops or buffers none goes without.
    assert looks > 12 * 400 // 10
    for enough in range(1, looks, looks // 25):
        left = enough

        def stop() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise OutOfTimeError

        with pytest.raises(OutOfTimeError):
            contract(problem, check_time=stop)


def test_ops_before_a_join_are_looked_at_a_few_times_however_many_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(3)
    build = GraphBuilder("join")
    count = 400
    for i in range(count):
        made, turned, extra = (int(x) for x in rng.integers(1, [50, 50, 30]))
        build.op(f"make{i}", writes={f"x{i}": made})
        build.op(f"turn{i}", reads=[f"x{i}"], writes={f"y{i}": turned}, workspace=extra)
    build.op("join", reads=[f"y{i}" for i in range(count)], writes={"z": 1}, workspace=20)
    build.output("z")
    graph = build.build()
    looks = 0
    find_late = contraction.Merging.find_late

    def counted(work: contraction.Merging, u: int) -> tuple[int, int] | None:
        nonlocal looks
        looks += 1
        return find_late(work, u)

    monkeypatch.setattr(contraction.Merging, "find_late", counted)
    small = contract(build_problem(graph.arrays))
    assert len(small.members) == 1
    assert sorted(small.members[0]) == list(range(len(graph.ops)))
    assert looks < 12 * len(graph.ops)
