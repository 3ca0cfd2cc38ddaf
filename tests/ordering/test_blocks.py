"""Identical blocks: found where they are, and what is not identical is not taken for it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from optsched.formats.native import read_graph_document
from optsched.model.arrays import IntArray, Rows, build_rows
from optsched.model.graph import Graph
from optsched.ordering.context import SearchContext
from optsched.ordering.inplace import pack_savings
from optsched.ordering.problem import OrderingProblem, build_problem, make_problem
from optsched.ordering.reduce import blocks as module
from optsched.ordering.reduce.blocks import find_blocks
from optsched.ordering.reduce.contraction import contract
from tests.support.block_graphs import block_document
from tests.support.families.copies import branches, microbatches
from tests.support.generators import random_order


def block_graphs(count: int, most: int = 12) -> Iterator[Graph]:
    """Graphs of identical blocks, more or less; half of them in-place."""
    for seed in range(count):
        graph = read_graph_document(block_document(Random(seed), most))
        yield graph.with_inplace() if seed % 2 else graph


def swapped(row: IntArray, other: IntArray, order: tuple[int, ...]) -> list[int]:
    image = dict(zip(row.tolist(), other.tolist(), strict=True))
    image |= {v: u for u, v in image.items()}
    return [image.get(v, v) for v in order]


def test_micro_batches_are_found_op_by_op() -> None:
    graph = microbatches(5, 4)
    (rows,) = find_blocks(build_problem(graph.arrays))
    assert rows.shape == (5, 13)
    for column in rows.T.tolist():
        names = [graph.ops[v].name for v in column]
        assert len({name.replace(name[1:2], "", 1) for name in names if name[0] != "l"}) <= 1
        assert len(set(names)) == 5
    small = contract(build_problem(graph.arrays)).problem
    assert [rows.shape for rows in find_blocks(small)] == [(5, len(small.delta) // 5)]


@pytest.mark.parametrize(("pairs", "shuffled"), [(20, False), (3, True)])
def test_blocks_within_which_ops_look_alike(pairs: int, shuffled: bool) -> None:
    # Each block is a chain of two equal branches of two ops: whichever is which, they are aligned.
    # If they have numbers at random, ops must be told apart first.
    before: list[list[int]] = [[]]
    for _ in range(pairs):
        at = len(before) - 1
        before += [[at], [at], [at + 1], [at + 2], [at + 3, at + 4]]
    count = len(before)
    pred = [[u + count * j for u in row] for j in range(4) for row in before]
    if shuffled:
        number = np.random.default_rng(1).permutation(len(pred)).tolist()
        place = np.argsort(number).tolist()
        pred = [[number[u] for u in pred[v]] for v in place]
    ones = np.ones(len(pred), np.int64)
    problem = make_problem(build_rows(pred), build_rows([]), ones, ones, np.zeros(0, np.int64))
    (rows,) = find_blocks(problem)
    assert rows.shape == (4, count)
    assert sorted(rows.ravel().tolist()) == list(range(4 * count))


def test_a_block_that_is_not_identical_is_left_out() -> None:
    graph = branches(4, 9)
    problem = build_problem(graph.arrays)
    (rows,) = find_blocks(problem)
    expected = np.sort(np.delete(rows, 2, 0).ravel())
    for at in ("rise", "delta"):
        changed = getattr(problem, at).copy()
        changed[rows[2, 5]] += 1
        (left,) = find_blocks(problem._replace(**{at: changed}))
        assert (np.sort(left.ravel()) == expected).all()


def two_blocks() -> tuple[list[list[int]], list[list[int]], OrderingProblem]:
    """Ops 0, 1 and 2, 3 are blocks after op 4; each has a buffer, all have one."""
    pred = [[4], [0], [4], [2], []]
    users = [[0, 1], [2, 3], [0, 2, 4]]
    rise, problem = np.array([5, 6, 5, 6, 1]), np.array([3, -1, 3, -1, 1])
    ways = pack_savings([[], [(2, frozenset([0]))], [], [(2, frozenset([1]))], []])
    made = make_problem(
        build_rows(pred), build_rows(users), rise, problem, np.array([4, 4, 9]), ways
    )
    return pred, users, made


def changed_net(kind: str) -> OrderingProblem:
    """The problem with something of one block changed."""
    pred, users, problem = two_blocks()
    if kind == "edge":
        pred[3] = [2, 4]
    if kind == "between":
        pred[3] = [1, 2]
    if kind == "user":
        users[0] = [0, 1, 4]
    if kind == "rows":
        users[0], users[1] = [0, 3], [1, 2, 3]
    size = np.array([4, 5, 9]) if kind == "size" else problem.size
    rise = np.array([5, 6, 5, 7, 1]) if kind == "hill" else problem.rise
    left = np.array([3, -1, 2, -1, 1]) if kind == "net" else problem.delta
    worth, need = problem.saving.copy(), problem.need.copy()
    if kind == "way":
        worth[1] = 1
    if kind == "need":
        need[1] = 2
    ways = problem.savings._replace(value=worth, need=need)
    return make_problem(build_rows(pred), build_rows(users), rise, left, size, ways)


def test_places_are_changed_only_where_nothing_is_different() -> None:
    assert module._Sets(changed_net("")).may_swap([0, 1], [2, 3])
    for first, second in (([0, 1], [3, 2]), ([0, 1], [2, 1]), ([0], [2]), ([0, 0], [2, 3])):
        assert not module._Sets(changed_net("")).may_swap(first, second)
    assert len(find_blocks(changed_net(""))) == 1


@pytest.mark.parametrize(
    "kind", ["edge", "between", "user", "rows", "size", "hill", "net", "way", "need"]
)
def test_one_difference_is_enough(kind: str) -> None:
    assert not module._Sets(changed_net(kind)).may_swap([0, 1], [2, 3])
    assert find_blocks(changed_net(kind)) == []


@pytest.mark.parametrize("rounds", [1, 64])
def test_orders_stay_as_they_are_where_blocks_change_places(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With one round colors say little, and much is proposed that is not so.
    monkeypatch.setattr(module, "MOST_ROUNDS", rounds)
    rng = np.random.default_rng(rounds)
    found = refused = 0
    may_swap = module._Sets.may_swap

    def counted(sets: module._Sets, first: list[int], second: list[int]) -> bool:
        nonlocal refused
        answer = may_swap(sets, first, second)
        refused += not answer
        return answer

    monkeypatch.setattr(module._Sets, "may_swap", counted)
    for graph in block_graphs(200):
        context = SearchContext(build_problem(graph.arrays))
        before = Rows(context.problem.pred_ptr, context.problem.pred)
        for rows in find_blocks(context.problem):
            found += 1
            assert len(np.unique(rows)) == rows.size
            i, j = rng.choice(len(rows), 2, replace=False)
            order = random_order(rng, graph)
            image = swapped(rows[i], rows[j], order)
            step = {v: at for at, v in enumerate(image)}
            assert all(step[u] < step[v] for v in image for u in before.row(v).tolist())
            assert (context.follow(order)[1] == context.follow(image)[1]).all()
    assert found > 150
    assert (refused > 0) == (rounds == 1)
