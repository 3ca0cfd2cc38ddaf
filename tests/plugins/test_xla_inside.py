"""Orders inside called computations: against all orders of each, on modules of a few ops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from optsched.formats.hlo.allocation.assignment import Assignment
from optsched.formats.hlo.text import Computation
from optsched.plugins.xla.inside import improve_inside
from optsched.plugins.xla.orders import ModuleOrders, WeighedOrder
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits

SIZES = (40, 24, 56, 16)
"""Kilobytes of the large values of a body, drawn by the test's number."""


def module(number: int, kind: str) -> str:
    """A module whose body makes all its large values before it reads the first."""
    a, b, c = (f"f32[{256 * SIZES[(number // 4**i) % 4]}]" for i in range(3))
    body = f"""
%body (p: f32[256]) -> f32[256] {{
  %p = f32[256] parameter(0)
  %a = {a} custom-call(%p), custom_call_target="wide"
  %b = {b} custom-call(%p), custom_call_target="wide"
  %c = {c} custom-call(%p), custom_call_target="wide"
  %x = f32[256] custom-call(%a), custom_call_target="narrow"
  %y = f32[256] custom-call(%b), custom_call_target="narrow"
  %z = f32[256] custom-call(%c), custom_call_target="narrow"
  ROOT %r = f32[256] custom-call(%x, %y, %z), custom_call_target="sum"
}}
"""
    other = """
%other (q: f32[256]) -> f32[256] {
  %q = f32[256] parameter(0)
  ROOT %s = f32[256] negate(%q)
}
"""
    calls = {
        "call": "call(%g), to_apply=%body",
        "conditional": "conditional(%k, %g, %g), branch_computations={%body, %other}",
    }
    return f"""HloModule small, is_scheduled=true
{body}{other if kind == "conditional" else ""}
ENTRY %main (g: f32[256], k: s32[]) -> f32[256] {{
  %g = f32[256] parameter(0)
  %k = s32[] parameter(1)
  %h = f32[256] {calls[kind]}
  ROOT %t = f32[256] negate(%h)
}}
"""


def orders_of(computation: Computation) -> Iterator[list[str]]:
    """Yield all valid sequences of a computation, its parameter first."""
    made = computation.instructions
    first, *rest = made
    for turn in itertools.permutations(rest):
        at = {name: i for i, name in enumerate((first, *turn))}
        if all(at[x] < at[name] for name in at for x in made[name].operands):
            yield [first, *turn]


@pytest.mark.parametrize("kind", ["call", "conditional"])
@pytest.mark.parametrize("number", range(0, 64, 13))
def test_the_order_found_is_the_best_of_all(number: int, kind: str) -> None:
    text = module(number, kind)
    orders = ModuleOrders(text, Clock(Limits(seconds=60)))
    before = orders.before
    found = improve_inside(orders, orders.own(), Clock(Limits(seconds=60)))
    plain = ModuleOrders(text, Clock(Limits(seconds=60)))
    body = plain.parsed.computations["body"]
    every = WeighedOrder("all", plain.listed, 1 << 60)
    tried = [plain.with_inside(every, "body", sequence) for sequence in orders_of(body)]
    assert len(tried) == 90
    least = min(order.allocated for order in tried if order is not None)
    assert found.allocated == least < before
    assert set(found.inside) == {"body"}
    assert sorted(found.inside["body"]) == sorted(body.instructions)
    # The module now has the order with these bytes.
    assert Assignment(orders.values, found.sequence).allocated == least


def test_no_time_changes_nothing() -> None:
    orders = ModuleOrders(module(5, "call"), Clock(Limits(seconds=60)))
    own = orders.own()
    assert improve_inside(orders, own, Clock(Limits(seconds=0))) is own
