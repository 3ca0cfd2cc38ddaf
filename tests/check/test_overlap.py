"""Rectangles that share a byte at a step are refused, and only those."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.check.rules import overlap
from optsched.check.rules.overlap import Rectangle, check_overlap, is_free
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


def test_arrays_say_what_the_sweep_says(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    met = 0
    for trial in range(400):
        count = int(rng.integers(1, 40))
        first, low = rng.integers(0, 60, (2, count)).tolist()
        steps, size = rng.integers(0, 4 + trial % 5, (2, count)).tolist()
        times = [(at, at + n) for at, n in zip(first, steps, strict=True)]
        extents = [(at, at + n) for at, n in zip(low, size, strict=True)]
        rows = [(*a, *b, "b") for a, b in zip(times, extents, strict=True)]
        assert is_free(times, extents) != refused(rows)
        met += refused(rows)
        # Beyond 64 bits, and where too many rectangles have a byte in common, the sweep decides.
        assert not is_free(times, [(a << 60, b << 60) for a, b in (*extents[1:], (8, 9))])
    assert 50 < met < 350
    times, extents = [(i, i + 1) for i in range(200)], [(i, 1000) for i in range(200)]
    assert is_free(times, extents)
    monkeypatch.setattr(overlap, "MOST_MET", 10_000)
    assert not is_free(times, extents)


def test_many_side_by_side() -> None:
    """More than fit one part of the set of live ones, in both directions, one of them shifted."""
    count = 9_000
    rows = [(i % 7, 7 + i % 5, 3 * i, 3 * i + 3, f"b{i}") for i in range(count)]
    assert not refused(rows)
    for at in (0, 63, 64, 4_500, count - 2):
        start, end, low, high, name = rows[at]
        with pytest.raises(PlanError, match=f"'b{at}'"):
            check_overlap([*rows[:at], (start, end, low, high + 1, name), *rows[at + 1 :]])


def test_neighbors_across_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """With parts of a few numbers, the sweep still refuses all overlaps, and only those."""
    rng = np.random.default_rng(7)
    met = 0
    for trial in range(3_000):
        monkeypatch.setattr(overlap, "PART", 1 + trial % 5)
        rows: list[Rectangle] = []
        for i in range(int(rng.integers(1, 30))):
            start, low = (int(x) for x in rng.integers(0, 60, 2))
            steps, size = (int(x) for x in rng.integers(0, 4 + trial % 7, 2))
            row = (start, start + steps, low, low + size, f"b{i}")
            # Half of the cases keep to rectangles that miss all before them.
            if trial % 2 or not any(meet(row, other) for other in rows):
                rows.append(row)
        expected = any(meet(a, b) for i, a in enumerate(rows) for b in rows[:i])
        assert refused(rows) == expected
        met += expected
    assert 500 < met < 1_500


def test_many_live_at_once() -> None:
    """As many buffers as a long training step keeps, freed in the opposite order."""
    count = 100_000
    rows = [(i, 2 * count - i, 3 * i, 3 * i + 3, f"b{i}") for i in range(count)]
    assert not refused(rows)
    rows[count // 2] = (count // 2, count + 1, 0, 3, "low")
    with pytest.raises(PlanError, match=r"'low' at .* and 'b0' at"):
        check_overlap(rows)
