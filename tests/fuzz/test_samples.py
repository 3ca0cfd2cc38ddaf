"""A small sample of what the fuzzers compare for hours, so that they stay runnable."""

from __future__ import annotations

import pytest

from tests.fuzz import models


@pytest.mark.parametrize("kind", models.KINDS)
def test_models_agree_with_brute_force(kind: str) -> None:
    assert models.compare(kind, models.KINDS[kind], count=8, seed=20) == 0
