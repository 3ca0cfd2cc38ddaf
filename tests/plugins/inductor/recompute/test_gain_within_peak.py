"""The least saving for which an order is replaced, where only another order is within a peak."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from optsched.plugins.inductor import scheduler_pass
from optsched.plugins.inductor.orders.candidates import Decision
from optsched.plugins.inductor.orders.choice import Choice
from optsched.plugins.inductor.scheduler_pass import SchedulerPass


@pytest.mark.parametrize(
    ("budget", "taken"),
    [(None, 1_001_000), (1_002_000, 1_001_000), (1_000_500, 1_000_000), (900_000, 1_001_000)],
)
def test_few_bytes_are_saved_where_they_bring_a_graph_within_the_peak(
    monkeypatch: pytest.MonkeyPatch, budget: int | None, taken: int
) -> None:
    own, best = Choice("own", (0, 1), True, 1_001_000), Choice("best", (1, 0), True, 1_000_000, 1)
    facts: Any = None
    decided = facts, Decision(own, best, True, None, "", 0.0)
    monkeypatch.setattr(scheduler_pass, "decide_order", lambda *_, **__: decided)
    rules = SchedulerPass(5.0, None, reorder=True, reuse=True, budget=budget)
    _, decision = rules.decide([], {}, "graph", 5.0)
    assert (decision.best if decision.gains else decision.own).peak == taken


def test_the_reason_of_an_order_within_the_peak_is_about_the_orders_found() -> None:
    own = Choice("own", (0, 1), True, 1_000)
    decision = Decision(own, own, True, None, "", 0.0, least=900)
    record = scheduler_pass._describe(decision, "graph", 2, applied=False)
    assert record.reason == "it is within the peak; the best order found needs 900 bytes"
