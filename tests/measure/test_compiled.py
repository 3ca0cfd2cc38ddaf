"""Bytes of compiled models: a cause explains a difference only up to what it can add."""

from __future__ import annotations

import pytest

from optsched.measure.result import Held


@pytest.mark.parametrize(
    ("planned", "held", "explained"),
    [(1000, 1016, 16), (1000, 1000, 0), (1000, 900, 0), (1000, 1033, 0), (None, 1016, 0)],
)
def test_a_cause_explains_its_own_bytes(planned: int | None, held: int, explained: int) -> None:
    found = Held.beyond(planned, held, "headers", 32)
    assert found.causes == ({"headers": explained} if explained else {})
    assert found.is_explained == (planned is None or abs(held - planned - explained) <= 20)
