"""An order that was found when a step was simulated is known when it is compiled."""

from __future__ import annotations

from typing import Any

import pytest

from optsched.plugins.gain import parse_gain
from optsched.plugins.inductor.earlier import Earlier
from optsched.plugins.inductor.orders import candidates
from optsched.plugins.inductor.orders.candidates import EARLIER, Decision, decide
from optsched.plugins.inductor.wrapper.facts import Order, WrapperFacts
from tests.plugins.inductor.orders.test_choice import FRAMEWORK, all_orders
from tests.plugins.inductor.orders.test_moves import random_calls

Known = Earlier[tuple[Order, bool]]


def decided(facts: WrapperFacts, earlier: Known | None, enough: int | None = 0) -> Decision:
    document = {"extra": {"orders": {"baseline": FRAMEWORK}, "chosen": "baseline"}}
    how: dict[str, Any] = {"reuse": False, "seconds": 60.0, "name": "calls"}
    how |= {"min_gain": parse_gain(0), "enough": enough}
    return decide(facts, document, earlier=earlier, **how)


def test_a_search_that_finds_nothing_still_has_the_earlier_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lower, earlier = 0, Known(most=100)
    for seed in range(30):
        facts = random_calls(seed)
        with monkeypatch.context() as patch:
            patch.setattr(candidates._Solver, "orders", lambda *_, facts=facts: all_orders(facts))
            first = decided(facts, earlier)
        with monkeypatch.context() as patch:
            patch.setattr(candidates._Solver, "orders", lambda *_: {})
            again, alone = decided(facts, earlier), decided(facts, None)
        assert again.best.peak == first.best.peak
        if first.gains:
            lower += again.best.peak < alone.best.peak
            assert again.best.name == EARLIER
    # Otherwise no order was needed.
    assert lower > 10


def test_an_order_found_earlier_is_taken_where_it_is_small_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = 0
    for seed in range(30):
        facts, earlier = random_calls(seed), Known(most=100)
        orders = list(all_orders(facts).items())
        monkeypatch.setattr(candidates._Solver, "orders", lambda *_, some=orders: dict(some))
        enough = decided(facts, None).least
        first = decided(facts, earlier, enough)
        # A second search that finds others first answers the same, so that the answer holds.
        orders.reverse()
        again, alone = decided(facts, earlier, enough), decided(facts, None, enough)
        assert (again.best.order, again.best.reuse) == (first.best.order, first.best.reuse)
        taken += again.best.order != alone.best.order
    assert taken > 2


def test_the_latest_results_are_kept() -> None:
    found = Earlier[int](most=2)
    for key in (1, 2, 1, 3):
        found.keep(key, 10 * key)
    assert [found.get(key) for key in (1, 2, 3)] == [10, None, 30]
