"""Optima of tiny instances: compiled, in Python, and from the definition."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optsched.check.plan import check_order, check_packing
from optsched.counterexamples import exhaust
from optsched.counterexamples.kernels.downsets import least_and_most, peak_of, sized_above, spread
from optsched.counterexamples.kernels.slabs import fits, fullest_step, least_slab, next_capacity
from optsched.counterexamples.loss import Objective
from optsched.counterexamples.spaces import LiveRanges, Wirings, make_problem
from optsched.counterexamples.wiring import Wiring, least_order, masks_of
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from tests.support import brute
from tests.support.generators import graphs

SPACE = Wirings("lpmf", None, Objective.RATIO, 6, 9)


def wirings(count: int, seed: int = 0) -> list[Wiring]:
    rng = Random(seed)
    found = [SPACE.random(rng) for _ in range(count)]
    return [SPACE.change(wiring, rng) for wiring in found]


@given(graphs(max_ops=6))
@settings(max_examples=60)
def test_the_table_has_the_least_peak_of_any_graph(graph: Graph) -> None:
    masks = masks_of(graph)
    least, most = least_and_most(*masks)
    assert least == brute.least_peak(graph) == exhaust.least_peak(graph)[0]
    peaks = [peak_memory(graph, order) for order in brute.orders(graph)]
    assert max(peaks) == most
    order = least_order(masks)
    assert check_order(graph, order) == least
    assert peak_of(np.array(order, np.int64), *masks[1:]) == least


def test_compiled_kernels_are_their_twins() -> None:
    for wiring in wirings(40):
        masks = wiring.masks
        assert least_and_most.compiled(*masks) == least_and_most(*masks)
        rows = zip(spread.compiled(masks[0]), spread(masks[0]), strict=True)
        assert all(np.array_equal(a, b) for a, b in rows)
        order = np.arange(len(wiring), dtype=np.int64)
        assert peak_of.compiled(order, *masks[1:]) == peak_of(order, *masks[1:])


def test_masks_of_a_wiring_are_those_of_its_graph() -> None:
    for wiring in wirings(40, seed=1):
        for mine, theirs in zip(wiring.masks, masks_of(wiring.graph()), strict=True):
            assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("ratio", [True, False])
def test_no_sizes_are_passed_over_that_could_beat_a_loss(ratio: bool) -> None:
    before = np.array((0, 0, 1, 2), np.int64)
    found = np.empty((3**4, 4), np.int64)
    count = sized_above.compiled(before, 3, 4, 3, ratio, found)
    listed = {tuple(row) for row in found[:count].tolist()}
    wanted = set()
    for code in range(3**4):
        size = tuple(code // 3**v % 3 + 1 for v in range(4))
        least, most = least_and_most(*Wiring(size, tuple(before.tolist())).masks)
        if (most * 3 > least * 4) if ratio else (most - least > 1):
            wanted.add(size)
    assert listed == wanted
    assert 0 < count < 3**4


@given(st.integers(0, 10_000))
@settings(max_examples=60)
def test_the_least_slab_is_that_of_two_other_enumerations(seed: int) -> None:
    rows = LiveRanges("naive", None, Objective.RATIO, 6, 6).random(Random(seed))
    problem = make_problem(rows)
    columns = problem.start, problem.end, problem.size
    offsets = np.zeros(len(problem), np.int64)
    slab = least_slab.compiled(*columns, offsets)
    assert slab == exhaust.least_slab(problem)[0] == brute.least_slab(problem)
    assert check_packing(problem, offsets.tolist()) == slab
    assert fits(*columns, slab)
    assert not fits(*columns, slab - 1)
    assert fullest_step(*columns) == problem.max_load


def test_no_capacity_in_between_is_skipped() -> None:
    rng = Random(3)
    space = LiveRanges("naive", None, Objective.RATIO, 6, 9)
    for _ in range(30):
        problem = make_problem(space.random(rng))
        columns = problem.start, problem.end, problem.size
        room = np.zeros(len(problem), np.int64)
        capacity = int(problem.size.max())
        more = next_capacity(*columns, capacity, room)
        for between in range(capacity, max(more, capacity)):
            assert not fits(*columns, between)
