"""Refuted claims of the MILP: dropped, and reported in one line."""

from __future__ import annotations

from typing import Any

import pytest

from optsched import solve
from optsched.joint import milp
from optsched.joint.claims import misread, refutation
from optsched.joint.milp import solve_order_milp
from optsched.runtime.limits import Limits
from tests.joint.cpsat.common import diamond


def test_a_bound_above_its_own_plan_is_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    call = milp._call_highs

    def lies(*args: Any) -> tuple[float, float, bool, bool]:
        _, objective, finished, infeasible = call(*args)
        return 1000.0, objective, finished, infeasible

    monkeypatch.setattr(milp, "_call_highs", lies)
    outcome = solve_order_milp(diamond(), limits=Limits(5.0), peak_bound=3)
    assert (outcome.value, outcome.bound, outcome.finished) == (18, 3, False)
    assert "refuted by its own plan of 18 bytes" in outcome.refuted
    assert caplog.messages == [outcome.refuted]


def test_a_plan_that_replays_to_more_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    call = milp._call_highs

    def lies(*args: Any) -> tuple[float, float, bool, bool]:
        call(*args)
        return 1.0, 1.0, True, False

    monkeypatch.setattr(milp, "_call_highs", lies)
    outcome = solve_order_milp(diamond(), limits=Limits(5.0))
    assert outcome.bound == 0
    assert outcome.refuted.startswith("milp: claimed a plan of ")


def test_solve_says_what_was_refuted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(milp._MilpSearch, "_is_closed", lambda self: False)
    monkeypatch.setattr(milp._MilpSearch, "_minimize", lambda self: setattr(self, "bound", 10**9))
    result = solve(diamond(), engine="milp", time_limit=5)
    assert result.claimed_bound is None
    assert any(line.startswith("milp: claimed that no plan is below") for line in caplog.messages)


def test_a_claim_that_holds_is_not_mentioned() -> None:
    assert refutation("cpsat", 10, None) == refutation("cpsat", 10, 10) == ""
    assert misread("cpsat", 10, 10) == misread("cpsat", 10, None) == ""
