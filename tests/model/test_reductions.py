"""Reductions of packing problems, against enumeration by the definitions and against CP-SAT."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from optsched.check.packing import check_packing
from optsched.errors import GraphError
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem
from optsched.model.reductions import Aligned, ByPool, Groups, Reduced
from optsched.model.reserved import Region, Reserved
from optsched.packing import solve_packing
from optsched.runtime.limits import Limits
from tests.support.packing_instances import random_problem
from tests.support.packing_oracle import least_slab

LIMITS = Limits(seconds=60.0)
HIGHEST = 8


def tiny(rng: np.random.Generator) -> tuple[PackingProblem, list[str]]:
    """Four buffers in up to three pools, with pairs and perhaps a group within a pool."""
    start = rng.integers(0, 3, 4)
    size = rng.integers(1, 3, 4)
    pools = [str(name) for name in rng.choice(["a", "b", "c"][: int(rng.integers(1, 4))], 4)]
    groups = [(0, 1)] if pools[0] == pools[1] and rng.random() < 0.6 else []
    pairs = [pair for pair in combinations(range(4), 2) if rng.random() < 0.3]
    return (
        PackingProblem(
            start=start,
            end=start + rng.integers(1, 3, 4),
            size=size,
            alignment=rng.choice([1, 2], 4),
            must_share=groups,
            keep_apart=[pair for pair in pairs if pair not in groups],
        ),
        pools,
    )


def is_valid(problem: PackingProblem, pools: list[str], offsets: tuple[int, ...]) -> bool:
    """The definition, without parts: a group fills its largest size whenever a member is live."""
    size, members = problem.size.tolist(), {i: [i] for i in range(4)}
    for group in problem.must_share:
        if len({offsets[i] for i in group}) > 1:
            return False
        members |= {i: list(group) for i in group}
    apart = {tuple(pair) for pair in problem.keep_apart.tolist()}
    for a, b in combinations(range(4), 2):
        if pools[a] != pools[b] or b in members[a]:
            continue
        pair = any(tuple(sorted(x)) in apart for x in product(members[a], members[b]))
        live = problem.start[a] < problem.end[b] and problem.start[b] < problem.end[a]
        low, high = (
            max(offsets[a], offsets[b]),
            [offsets[i] + max(size[j] for j in members[i]) for i in (a, b)],
        )
        if (pair or live) and low < min(high):
            return False
    return all(x % problem.alignment[i] == 0 for i, x in enumerate(offsets))


def slab_of(problem: PackingProblem, pools: list[str], offsets: tuple[int, ...]) -> int:
    ends: dict[str, int] = {}
    for pool, offset, size in zip(pools, offsets, problem.size.tolist(), strict=True):
        ends[pool] = max(ends.get(pool, 0), offset + size)
    return sum(ends.values())


def least_offsets(problem: PackingProblem) -> IntArray:
    found = solve_packing(problem, limits=LIMITS)
    assert found.offsets is not None
    assert found.bound == found.slab
    return found.offsets


def test_pools_and_groups_reduce_to_parts_of_the_same_minimum() -> None:
    several = 0
    for seed in range(40):
        problem, pools = tiny(np.random.default_rng([1, seed]))
        reduced = Reduced(problem, ByPool.of(pools), Groups())
        several += len(reduced.parts) > 1
        assert not any(part.must_share for part in reduced.parts)
        lifted = tuple(reduced.lift([least_offsets(part) for part in reduced.parts]).tolist())
        assert is_valid(problem, pools, lifted)
        every = product(range(HIGHEST + 1), repeat=4)
        least = min(slab_of(problem, pools, x) for x in every if is_valid(problem, pools, x))
        assert slab_of(problem, pools, lifted) == least
        assert sum(part.slab_bound for part in reduced.parts) <= least
    assert several > 15


@pytest.mark.parametrize("kind", ["s", "gs", "ws", "aps", "k"])
def test_reserved_regions_reduce_to_pinned_buffers(kind: str) -> None:
    for seed in range(12):
        rng = np.random.default_rng([2, seed])
        problem = random_problem(rng, kind, 7)
        if problem.joined.problem.clashing_pins() is not None:
            continue
        low, steps = rng.integers(0, 12, 2).tolist(), int(problem.end.max())
        regions = [Region(low[0], low[0] + 3), Region(low[1], low[1] + 2, 0, max(1, steps // 2))]
        try:
            reduced = Reduced(problem, Groups(), Reserved(regions))
        except GraphError:
            assert (problem.pin >= 0).any()
            continue
        (part,) = reduced.parts
        assert least_slab(problem, regions=regions) == least_slab(part)
        check_packing(problem, reduced.lift([least_offsets(part)]))


def test_aligned_sizes_and_offsets() -> None:
    for seed in range(20):
        problem = random_problem(np.random.default_rng([3, seed]), "gks", 6)
        plain = replace(problem, gaps=())
        reduced = Reduced(plain, Aligned(4), Groups())
        offsets = reduced.lift([least_offsets(part) for part in reduced.parts])
        assert not (offsets % 4).any()
        rounded = replace(plain, size=-(-plain.size // 4) * 4)
        assert check_packing(rounded, offsets) % 4 == 0
        check_packing(plain, offsets)


def test_no_reduction_leaves_the_problem_as_it_is() -> None:
    problem = PackingProblem(size=[2, 3], start=[0, 0], end=[1, 1])
    assert Reduced(problem).parts == (problem,)
    assert Reduced(problem, ByPool(), ByPool.of(["", ""])).parts[0] is problem
    assert ByPool.of([]).reduce(PackingProblem())[0].names == ()
    swapped = Reduced(problem, ByPool.of(["b", "a"]))
    assert swapped.lift([np.array([7]), np.array([5])]).tolist() == [5, 7]


def test_offsets_are_split_as_they_are_lifted() -> None:
    problem = PackingProblem(size=[2, 3, 1], start=[0, 0, 1], end=[1, 1, 2])
    for pools in (ByPool(), ByPool.of(["a"] * 3), ByPool.of(["b", "a", "b"])):
        offsets = np.array([4, 5, 6])
        assert pools.lift(problem, pools.split(offsets)).tolist() == [4, 5, 6]
        pieces = list(pools.pieces(problem, offsets))
        assert sorted(x for _, own in pieces for x in own.tolist()) == [4, 5, 6]
        assert sum(len(part) for part, _ in pieces) == 3
