"""The fuzzer of fused graphs finds nothing wrong, and would find it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.fuzz import fusion as fuzz
from tests.support.brute_fusion import brute_force, random_fused


def test_nothing_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(40, 70_000, progress=20) == 0
    assert "40 graphs, " in capsys.readouterr().out


def test_wrong_answers_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = random_fused(np.random.default_rng(5))
    found = fuzz.search_fusion(fused, fuzz._clock(5))
    assert found.bound == found.best.peak == brute_force(fused)
    above = replace(found, bound=found.bound + 1)
    monkeypatch.setattr(fuzz, "search_fusion", lambda *_: above)
    assert any("bound" in problem for problem in fuzz.compare(fused, 5, 5.0))
