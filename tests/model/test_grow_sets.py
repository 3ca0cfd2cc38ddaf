"""Sets of conflicting buffers: grown by the kernel as by rows."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from optsched.model.arrays import bit_rows, build_rows, transpose
from optsched.model.conflicts import Conflicts, Whole
from optsched.model.kernels.cliques import grow_set, grow_sets, heaviest_set


def test_the_kernel_grows_the_same_sets() -> None:
    rng = np.random.default_rng(0)
    for _ in range(400):
        conflicts = random_conflicts(rng)
        with_pairs = np.flatnonzero(np.diff(conflicts.apart.ptr)).tolist()
        left = {a: set(conflicts._unseen(a)) for a in with_pairs}
        by_rows = conflicts._grow_by_rows({a: set(others) for a, others in left.items()})
        by_table = conflicts._grow_by_table()
        assert by_table.ptr.tolist() == by_rows.ptr.tolist()
        assert by_table.idx.tolist() == by_rows.idx.tolist()


def test_without_work_left_all_pairs_are_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        conflicts = random_conflicts(rng)
        # Work for none, a few or all of them.
        monkeypatch.setattr("optsched.model.conflicts.GROWTH_WORK", int(rng.integers(0, 800)))
        found = conflicts.cliques()
        covered = set[tuple[int, int]]()
        for i in range(len(found.ptr) - 1):
            row = found.row(i).tolist()
            assert row == sorted(set(row))
            assert all(conflicts.table[a, b] for a, b in combinations(row, 2))
            covered.update(combinations(row, 2))
        assert {(a, b) for a, b in conflicts.pairs.tolist() if not conflicts.met[a, b]} <= covered


def test_compiled_or_not_is_the_same() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        k = int(rng.integers(1, 80))
        rows = random_rows(rng, k)
        masks, size = bit_rows(rows), np.sort(rng.integers(1, 9, k))[::-1].copy()
        left = build_rows([np.flatnonzero(rows[i] & (rng.random(k) < 0.5)) for i in range(k)])
        first, known = int(rng.integers(k)), int(rng.integers(9))
        both = transpose(left, k)
        left = build_rows([{*left.row(i).tolist(), *both.row(i).tolist()} for i in range(k)])
        most_work = int(rng.integers(2 * k * k))
        answers = []
        for grow, grow_all, heaviest in (
            (grow_set, grow_sets, heaviest_set),
            (grow_set.compiled, grow_sets.compiled, heaviest_set.compiled),
        ):
            is_left, members = np.ones(len(left.idx), np.bool_), np.zeros(k, np.int64)
            count = grow(first, k, masks, left.ptr, left.idx, is_left, members)
            answers.append([members[:count].tolist(), is_left.tolist()])
            count = heaviest(masks, size, known, 2_000, members)
            answers[-1].append(members[:count].tolist())
            members, ends = np.zeros(3 * k + 2 * len(left.idx), np.int64), np.zeros_like(left.idx)
            count = grow_all(masks, left.ptr, left.idx, most_work, members, ends)
            answers[-1] += [members.tolist(), ends.tolist(), count]
        assert answers[0] == answers[1]


def test_the_heaviest_set_is_that_of_all_sets() -> None:
    rng = np.random.default_rng(2)
    for _ in range(300):
        k = int(rng.integers(1, 12))
        rows, size = random_rows(rng, k), np.sort(rng.integers(1, 9, k))[::-1].copy()
        known, found = int(rng.integers(20)), np.zeros(k, np.int64)
        count = heaviest_set(bit_rows(rows), size, known, 1_000_000, found)
        most = max(
            int(size[list(ids)].sum())
            for n in range(k + 1)
            for ids in combinations(range(k), n)
            if all(rows[i, j] for i, j in combinations(ids, 2))
        )
        assert int(size[found[:count]].sum()) == (most if most > known else 0)
        assert all(rows[i, j] for i, j in combinations(found[:count].tolist(), 2))


def random_rows(rng: np.random.Generator, k: int) -> npt.NDArray[np.bool_]:
    rows = np.triu(rng.random((k, k)) < rng.random(), 1)
    return np.asarray(rows | rows.T)


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
        wanted[a] = False
        assert conflicts.met[a].tolist() == wanted
        wanted[a] = bool((owner == a).any())
        assert [conflicts._meet(a, b) for b in range(count)] == wanted
