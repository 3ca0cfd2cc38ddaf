"""The fuzzer of tilings finds nothing wrong, and would find it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.fuzz import tiling as fuzz
from tests.support.row_maps import random_rows


def test_nothing_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(12, 40, bands=2) == 0
    assert "'graphs': " in capsys.readouterr().out


def test_wrong_bounds_and_costs_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = fuzz.tile

    def dishonest(*args: object, **named: object) -> object:
        result = honest(*args, **named)  # type: ignore[arg-type]
        if result.best is None:
            return result
        best = replace(result.best, bound=10**9)
        return replace(result, best=best, bound=result.size(best) + 1)

    monkeypatch.setattr(fuzz, "tile", dishonest)
    problems = list(fuzz.compare(random_rows(3), 2, Counter(), random.Random(3)))
    assert any("bound" in problem for problem in problems)
    assert any("extra" in problem for problem in problems)
