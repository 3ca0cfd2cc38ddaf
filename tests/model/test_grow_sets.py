"""Sets of conflicting buffers: grown by the kernel as by rows."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from optsched.model.conflicts import Conflicts, Whole, grow_set


def test_the_kernel_grows_the_same_sets() -> None:
    rng = np.random.default_rng(0)
    for _ in range(400):
        conflicts = random_conflicts(rng)
        left = {a: set(conflicts._unseen(a)) for a in conflicts.apart}
        by_rows = conflicts._grow_by_rows({a: set(others) for a, others in left.items()})
        by_table = conflicts._grow_by_table(left)
        assert [found.tolist() for found in by_table] == [found.tolist() for found in by_rows]


def test_compiled_or_not_is_the_same() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        k = int(rng.integers(1, 20))
        rows = np.triu(rng.random((k, k)) < 0.6, 1)
        rows |= rows.T
        size, first = rng.integers(1, 9, k), int(rng.integers(k))
        answers = []
        for form in (grow_set, grow_set.compiled):
            left, members = rows & rows.T, np.zeros(k, np.int64)
            count = form(first, k, rows, left, size, members)
            answers.append((members[:count].tolist(), left.tolist()))
        assert answers[0] == answers[1]


def random_conflicts(rng: np.random.Generator) -> Conflicts:
    k = int(rng.integers(2, 14))
    start = rng.integers(0, 10, k)
    whole = Whole(np.arange(k), start, start + rng.integers(1, 5, k))
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k) if rng.random() < 0.4]
    return Conflicts(whole, rng.integers(1, 9, k), np.array(pairs, np.int64).reshape(-1, 2))


@pytest.mark.parametrize("seed", range(60))
def test_intervals_that_meet_are_found_for_one_buffer_and_for_two(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, rows = int(rng.integers(1, 9)), list[tuple[int, int, int]]()
    for owner in range(count):
        end = 0
        for _ in range(int(rng.integers(0, 5))):
            start = end + int(rng.integers(0, 4))
            end = start + int(rng.integers(1, 5))
            rows.append((owner, start, end))
    owner, start, end = np.array(rows, np.int64).reshape(-1, 3).T
    pairs = np.array(list(combinations(range(count), 2)), np.int64).reshape(-1, 2)
    conflicts = Conflicts(Whole(owner, start, end), np.ones(count, np.int64), pairs)
    meet = (start[:, None] < end) & (start < end[:, None])
    for a in range(count):
        wanted = [bool(meet[np.ix_(owner == a, owner == b)].any()) for b in range(count)]
        assert conflicts._met(a).tolist() == wanted
        assert [conflicts._meet(a, b) for b in range(count)] == wanted
