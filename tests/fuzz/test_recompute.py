"""The fuzzer of recompute finds nothing wrong, and would find it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from optsched.runtime.limits import Limits
from optsched.solver.recompute.front import recompute
from optsched.solver.recompute.solve import Planner
from tests.fuzz import recompute as fuzz
from tests.support.brute_recompute import least_extra, training_graph


def test_nothing_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(20, 50_000, progress=10) == 0
    assert "20 graphs, " in capsys.readouterr().out


def test_wrong_answers_are_seen() -> None:
    for seed in range(100):
        graph = training_graph(np.random.default_rng(seed))
        planner = Planner(graph)
        peak = planner.base.peak * 4 // 5
        again = [planner.problem.ops[u] for u in planner.problem.again]
        truth = least_extra(planner.problem.graph, peak, again)
        (result,) = recompute(graph, [peak], limits=Limits(seconds=5))
        if truth and result.extra == truth == result.bound:
            break
    assert truth
    assert fuzz.contradiction(graph, peak, result, truth) is None
    assert "above" in str(fuzz.contradiction(graph, peak, result, truth - 1))
    assert "impossible" in str(fuzz.contradiction(graph, peak, result, None))
    assert "plan of peak" in str(fuzz.contradiction(graph, peak, result, truth + 1))
    wrong = replace(result, extra=truth + 1)
    assert "stated" in str(fuzz.contradiction(graph, peak, wrong, truth))


def test_errors_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Planner, "plan", lambda *_: 1 / 0)
    assert "ZeroDivisionError" in next(fuzz.compare(0, 5.0, Counter()))
