"""Optima of tiny instances: compiled, in Python, and from the definition."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optsched.check.packing import check_packing
from optsched.check.plan import check_order
from optsched.counterexamples.kernels import (
    fullest_step,
    minimum_slab,
    next_capacity,
    peak_range,
    sized_above,
)
from optsched.counterexamples.small_graph import SmallGraph, masks_of, order_of_minimum_peak
from optsched.counterexamples.spaces import GraphSpace, PackingSpace, make_problem
from optsched.counterexamples.target import HuntTarget
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from tests.support import brute
from tests.support.generators import graphs

SPACE = GraphSpace(HuntTarget("lpmf", max_ops=6, max_bytes=9))


def graphs_at_random(count: int, seed: int = 0) -> list[SmallGraph]:
    rng = Random(seed)
    found = [SPACE.random(rng) for _ in range(count)]
    return [SPACE.change(small, rng) for small in found]


@given(graphs(max_ops=6))
@settings(max_examples=60)
def test_the_table_has_the_minimum_peak_of_any_graph(graph: Graph) -> None:
    masks = masks_of(graph)
    least, most = peak_range(*masks)
    assert least == brute.least_peak(graph)
    peaks = [peak_memory(graph, order) for order in brute.orders(graph)]
    assert max(peaks) == most
    order = order_of_minimum_peak(masks)
    assert check_order(graph, order) == least


def test_compiled_kernels_are_their_reference_implementations() -> None:
    for graph in graphs_at_random(40):
        assert peak_range.compiled(*graph.masks) == peak_range(*graph.masks)


def test_masks_of_a_wiring_are_those_of_its_graph() -> None:
    for small in graphs_at_random(40, seed=1):
        for mine, theirs in zip(small.masks, masks_of(small.graph()), strict=True):
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
        least, most = peak_range(*SmallGraph(size, tuple(before.tolist())).masks)
        if (most * 3 > least * 4) if ratio else (most - least > 1):
            wanted.add(size)
    assert listed == wanted
    assert 0 < count < 3**4


@given(st.integers(0, 10_000))
@settings(max_examples=60)
def test_the_minimum_slab_is_that_of_two_other_enumerations(seed: int) -> None:
    rows = PackingSpace(HuntTarget("naive", max_ops=6, max_bytes=6)).random(Random(seed))
    problem = make_problem(rows)
    columns = problem.start, problem.end, problem.size
    offsets = np.zeros(len(problem), np.int64)
    slab = minimum_slab.compiled(*columns, offsets)
    assert slab == brute.least_slab(problem)
    assert check_packing(problem, offsets.tolist()) == slab
    assert next_capacity(*columns, slab, offsets) < 0 <= next_capacity(*columns, slab - 1, offsets)
    assert fullest_step(*columns) == problem.max_load


def test_no_capacity_in_between_is_skipped() -> None:
    rng = Random(3)
    space = PackingSpace(HuntTarget("naive", max_ops=6, max_bytes=9))
    for _ in range(30):
        problem = make_problem(space.random(rng))
        columns = problem.start, problem.end, problem.size
        room = np.zeros(len(problem), np.int64)
        capacity = int(problem.size.max())
        more = next_capacity(*columns, capacity, room)
        for between in range(capacity, max(more, capacity)):
            assert next_capacity(*columns, between, room) >= 0
