"""Packings of a handful of buffers of huge sizes: as brute force says, decided."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optsched.check.packing import check_packing
from optsched.errors import GraphError
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.packing import solve_packing
from optsched.packing.enumeration import enumerate_packings, is_for_enumeration
from optsched.runtime.limits import Limits, StopReason
from optsched.solver.pack import pack
from optsched.solver.status import Status
from tests.support import brute
from tests.support.generators import FEATURES, random_graph, random_order

ALIGNMENTS = [1, 1, 3, 2**40 + 1, 2**61, 3 * 2**60, 2**62, 2**62 - 1]


def small_problems(count: int) -> list[PackingProblem]:
    rng = np.random.default_rng(17)
    found: list[PackingProblem] = []
    while len(found) < count:
        graph = random_graph(rng, int(rng.integers(1, 6)), features=FEATURES)
        for problem in brute.packings_of(graph, random_order(rng, graph)):
            if 1 <= len(problem) <= 6:
                found.append(problem)
    return found


def test_the_minimum_slab_is_that_of_brute_force() -> None:
    above = 0
    for problem in small_problems(250):
        least = brute.least_slab(problem)
        found = enumerate_packings(problem, max_nodes=200_000)
        assert found.is_complete
        assert (found.offsets is None) == (least is None)
        if found.offsets is not None and least is not None:
            assert check_packing(problem, found.offsets) == least
            above += least > problem.max_load
            assert enumerate_packings(problem, least, max_nodes=200_000).offsets is not None
            assert enumerate_packings(problem, least - 1, max_nodes=200_000).offsets is None
    assert above > 20


def test_sizes_beyond_the_search_are_decided_exactly() -> None:
    """A pin one byte above the ground: the slab is a byte above the load, and that is proved."""
    size = np.array([2**57, 2**57 - 3, 2**57 + 3])
    problem = PackingProblem(
        names=("a", "b", "c"),
        start=np.zeros(3, np.int64),
        end=np.ones(3, np.int64),
        size=size,
        alignment=np.ones(3, np.int64),
        pin=np.array([-1, -1, 1]),
    )
    outcome = solve_packing(problem, limits=Limits(seconds=10))
    assert outcome.slab == outcome.bound == size.sum() + 1
    assert outcome.stop_reason is StopReason.PROVED
    refused = solve_packing(problem, limits=Limits(seconds=10), capacity=int(size.sum()))
    assert (refused.offsets, refused.bound) == (None, size.sum() + 1)
    loose = solve_packing(problem, limits=Limits(seconds=10), capacity=2**61)
    assert loose.stop_reason is StopReason.DECIDED
    assert loose.slab is not None


def test_alignments_near_the_end_of_64_bits() -> None:
    problem = PackingProblem(
        names=("x", "y", "z"),
        start=np.zeros(3, np.int64),
        end=np.ones(3, np.int64),
        size=np.array([1, 1, 3]),
        alignment=np.array([2**62, 2**62, 1]),
        pin=np.full(3, -1),
    )
    outcome = solve_packing(problem, limits=Limits(seconds=10))
    assert outcome.slab == 2**62 + 1
    assert outcome.stop_reason is StopReason.PROVED


@pytest.mark.parametrize("capacity", [None, 2**63 + 5, 2**70])
def test_packings_beyond_64_bit_offsets_do_not_count(capacity: int | None) -> None:
    three = np.ones(3, np.int64)
    problem = PackingProblem(
        names=("x", "y", "z"),
        start=np.zeros(3, np.int64),
        end=three,
        size=three,
        alignment=np.full(3, 2**62),
        pin=np.full(3, -1),
    )
    outcome = solve_packing(problem, limits=Limits(seconds=10), capacity=capacity)
    assert (outcome.offsets, outcome.bound) == (None, 2**63)
    with pytest.raises(GraphError, match=r"every packing takes more than 2\*\*63 - 1 bytes"):
        pack(problem, capacity=capacity)
    assert pack(problem, capacity=2**63 - 1).status is Status.INFEASIBLE


@pytest.mark.parametrize("capacity", [2**63 - 1, 2**63 + 200, 2**70])
def test_a_capacity_beyond_64_bit_offsets_finds_what_lies_within(capacity: int) -> None:
    """The first packing that is met ends above 2**63; another one is half as large."""
    problem = PackingProblem(
        start=np.zeros(3, np.int64),
        end=np.ones(3, np.int64),
        size=np.array([3, 8, 8]),
        alignment=np.array([1, 2**62, 2**62]),
    )
    outcome = solve_packing(problem, limits=Limits(seconds=10), capacity=capacity)
    assert outcome.slab is not None
    assert outcome.slab < 2**63
    assert pack(problem, capacity=capacity).status is not Status.INFEASIBLE


def test_many_buffers_of_huge_alignments_never_overflow() -> None:
    """First fit rounds tops up by as much as 2**62; every result is a packing."""
    found = 0
    for seed in range(10):
        rng = np.random.default_rng([3, seed])
        start = rng.integers(0, 20, 20)
        problem = PackingProblem(
            start=start,
            end=start + rng.integers(0, 6, 20),
            size=rng.choice([1, 3, 2**50 + 3], 20),
            alignment=rng.choice(ALIGNMENTS, 20),
        )
        outcome = solve_packing(problem, limits=Limits(work=100_000))
        if outcome.offsets is not None:
            check_packing(problem, outcome.offsets.tolist(), slab=outcome.slab)
            found += 1
    assert found


def test_what_is_left_to_the_search() -> None:
    graph = random_graph(np.random.default_rng(1), 30)
    problem, _ = packing_problem(graph, range(len(graph.ops)))
    assert not is_for_enumeration(problem, 8)
    few = replace(small_problems(1)[0])
    assert not is_for_enumeration(few, 8)
    assert not enumerate_packings(few, max_nodes=0).is_complete


@pytest.mark.parametrize("count", [1, 2])
def test_no_buffers_with_bytes_need_no_slab(count: int) -> None:
    problem = PackingProblem(
        names=tuple("ab"[:count]),
        start=np.zeros(count, np.int64),
        end=np.ones(count, np.int64),
        size=np.zeros(count, np.int64),
        alignment=np.full(count, 2**50),
        pin=np.full(count, -1),
    )
    assert solve_packing(problem, limits=Limits(seconds=10)).slab == 0
