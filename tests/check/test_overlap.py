"""Rectangles that share a byte at a step are refused, and only those."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.check.rules.overlap import Rectangle, check_overlap
from optsched.errors import PlanError


def refused(rows: list[Rectangle]) -> bool:
    try:
        check_overlap(rows)
    except PlanError:
        return True
    return False


def meet(one: Rectangle, other: Rectangle) -> bool:
    steps = one[0] < other[1] and other[0] < one[1] and one[0] < one[1] and other[0] < other[1]
    return (
        steps
        and one[2] < other[3]
        and other[2] < one[3]
        and one[2] < one[3]
        and other[2] < other[3]
    )


def test_every_pair_is_looked_at() -> None:
    rng = np.random.default_rng(5)
    met = 0
    for trial in range(400):
        rows: list[Rectangle] = []
        for i in range(int(rng.integers(1, 40))):
            start, low = (int(x) for x in rng.integers(0, 60, 2))
            steps, size = (int(x) for x in rng.integers(0, 4 + trial % 5, 2))
            rows.append((start, start + steps, low << 60, (low + size) << 60, f"b{i}"))
        expected = any(meet(a, b) for i, a in enumerate(rows) for b in rows[:i])
        assert refused(rows) == expected
        met += expected
    assert 50 < met < 350


def test_many_side_by_side() -> None:
    """More than fit one word of the set of live ones, in both directions, one of them shifted."""
    count = 9_000
    rows = [(i % 7, 7 + i % 5, 3 * i, 3 * i + 3, f"b{i}") for i in range(count)]
    assert not refused(rows)
    for at in (0, 63, 64, 4_500, count - 2):
        start, end, low, high, name = rows[at]
        with pytest.raises(PlanError, match=f"'b{at}'"):
            check_overlap([*rows[:at], (start, end, low, high + 1, name), *rows[at + 1 :]])
