"""Packings of a few buffers in plain integers, against brute force, and sizes beyond the engine."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.check.plan import check_packing
from optsched.joint import enumerate_orders
from optsched.joint.tiny_packing import GiveUpError, pack_tiny
from optsched.model.builder import GraphBuilder
from optsched.model.packing_problem import PackingProblem
from optsched.model.plan import Plan
from optsched.model.pools import roof
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve
from optsched.solver.result import Status
from tests.joint.cpsat.common import random_packing
from tests.support import brute

HUGE = 2**57


def minimum(problem: PackingProblem) -> int | None:
    """Ask for less and less until there is no packing."""
    slab, capacity = None, 1000
    while (offsets := pack_tiny(problem, capacity)) is not None:
        slab = check_packing(problem, offsets)
        capacity = slab - 1
    return slab


@pytest.mark.parametrize("seed", range(60))
def test_minimum_slab_with_gaps_alignments_and_pins(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gaps = seed % 2 == 0
    problem = random_packing(rng, int(rng.integers(0, 5 if gaps else 7)), gaps=gaps, pins=True)
    assert minimum(problem) == brute.least_slab(problem)


def test_many_buffers_are_given_up() -> None:
    columns = np.array([[0, 2, 5, 8, -1]] * 15, np.int64).T
    with pytest.raises(GiveUpError):
        pack_tiny(PackingProblem(tuple("abcdefghijklmno"), *columns), 10**6)


def test_huge_unequal_sizes_and_a_pin_are_decided() -> None:
    """Live together: a, b and c pinned at 1, which leaves no room below it but a byte."""
    build = GraphBuilder("huge")
    build.input("a", HUGE, "freed")
    build.input("c", HUGE + 3, "kept")
    build.place("c", pin=1)
    build.op("op", writes={"y": HUGE - 3}, reads=["a"])
    graph = build.build()
    plans: list[Plan] = []
    found = enumerate_orders(graph, roof(graph), floor=0, offer=plans.append, limits=Limits())
    assert found.complete
    assert found.refuted + 1 == plans[-1].slab(graph) == 3 * HUGE + 1
    result = solve(graph)
    assert (result.slab, result.status) == (3 * HUGE + 1, Status.OPTIMAL)


def test_huge_unequal_sizes_in_place_are_decided() -> None:
    """With `y` written into `x`, what is live at once is `z` at 0 and `x` on top of it."""
    build = GraphBuilder("huge")
    build.op("a", writes={"x": HUGE + 1})
    build.op("b", reads=["x"], writes={"y": HUGE - 1, "z": HUGE})
    build.place("z", alignment=16)
    build.inplace("b", "y", "x")
    build.output("z")
    result = solve(build.build().with_inplace())
    assert (result.slab, result.status) == (2 * HUGE + 1, Status.OPTIMAL)
