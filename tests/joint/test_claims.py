"""Refuted claims of the MILP: dropped, and reported in one line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from optsched import solve
from optsched.joint.claims import misread, refutation
from optsched.joint.milp import solve as search
from optsched.joint.milp import solve_order_milp
from optsched.joint.milp.highs import HighsRun, HighsThread
from optsched.runtime.limits import Limits
from tests.joint.cpsat.common import diamond


def test_a_bound_above_its_own_plan_is_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = HighsThread.run

    def lies(self: HighsThread, on_progress: Any) -> HighsRun:
        return replace(run(self, on_progress), bound=1000.0)

    monkeypatch.setattr(HighsThread, "run", lies)
    outcome = solve_order_milp(diamond(), limits=Limits(5.0), peak_bound=3)
    assert (outcome.value, outcome.bound, outcome.finished) == (18, 3, False)
    assert "refuted by its own plan of 18 bytes" in outcome.refuted
    assert caplog.messages == [outcome.refuted]


def test_a_plan_that_replays_to_more_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    run = HighsThread.run

    def lies(self: HighsThread, on_progress: Any) -> HighsRun:
        return replace(run(self, lambda _: None), bound=1.0, objective=1.0)

    monkeypatch.setattr(HighsThread, "run", lies)
    outcome = solve_order_milp(diamond(), limits=Limits(5.0))
    assert outcome.bound == 0
    assert outcome.refuted.startswith("milp: claimed a plan of ")


def test_solve_says_what_was_refuted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(search._MilpSearch, "_is_closed", lambda self: False)
    monkeypatch.setattr(search._MilpSearch, "_minimize", lambda self: setattr(self, "bound", 10**9))
    result = solve(diamond(), engine="milp", time_limit=5)
    assert result.claimed_bound is None
    assert any(line.startswith("milp: claimed that no plan is below") for line in caplog.messages)


def test_a_claim_that_holds_is_not_mentioned() -> None:
    assert refutation("cpsat", 10, None) == refutation("cpsat", 10, 10) == ""
    assert misread("cpsat", 10, 10) == misread("cpsat", 10, None) == ""
