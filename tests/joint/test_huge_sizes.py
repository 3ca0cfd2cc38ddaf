"""Tiny graphs with sizes beyond the packing engine's units: all orders, in Python's integers."""

from __future__ import annotations

from optsched.joint import enumerate_orders
from optsched.model.builder import GraphBuilder
from optsched.model.plan import Plan
from optsched.model.pools import address_limit
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve
from optsched.solver.status import Status

HUGE = 2**57


def test_huge_unequal_sizes_and_a_pin_are_decided() -> None:
    """Live together: a, b and c pinned at 1, which leaves no room below it but a byte."""
    build = GraphBuilder("huge")
    build.input("a", HUGE, "freed")
    build.input("c", HUGE + 3, "kept")
    build.place("c", pin=1)
    build.op("op", writes={"y": HUGE - 3}, reads=["a"])
    graph = build.build()
    plans: list[Plan] = []
    found = enumerate_orders(
        graph, address_limit(graph), floor=0, offer=plans.append, limits=Limits()
    )
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


def test_an_order_beyond_64_bit_offsets_does_not_hide_one_within() -> None:
    """`x` and `y` fit side by side only up to 2**63, but need not be live at once."""
    build = GraphBuilder("apart")
    build.op("a", writes={"x": 1})
    build.op("b", writes={"y": 1, "z": 1})
    build.op("c", reads=["x"])
    for name in "xyz":
        build.place(name, alignment=2**62)
    for capacity in (None, 2**62 + 1, 2**63, 2**70):
        result = solve(build.build(), capacity=capacity)
        assert result.slab == 2**62 + 1
        assert result.status is (Status.OPTIMAL if capacity is None else Status.FEASIBLE)
