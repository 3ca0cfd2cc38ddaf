"""Sets as bits against Python's sets and matrices of truths."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.ordering.kernels.bits import (
    WORD,
    clear_bit,
    first_bit,
    has_bit,
    pack,
    set_bit,
    unpack,
    words,
)


def members(row: np.ndarray, count: int) -> set[int]:
    return {i for i in range(count) if has_bit(row, i)}


@pytest.mark.parametrize("count", [1, WORD - 1, WORD, WORD + 1, 3 * WORD, 200])
def test_members_come_and_go_as_in_a_set(count: int) -> None:
    rng = np.random.default_rng(count)
    row, kept = np.zeros(words(count), np.int64), set[int]()
    for i in rng.integers(0, count, 4 * count).tolist():
        if i in kept:
            clear_bit(row, i)
            kept.discard(i)
        else:
            set_bit(row, i)
            kept.add(i)
        assert members(row, count) == kept
        assert (row >= 0).all()


@pytest.mark.parametrize("count", [0, 1, WORD, WORD + 1, 137])
def test_packed_rows_say_what_the_matrix_says(count: int) -> None:
    matrix = np.random.default_rng(count).random((7, count)) < 0.5
    rows = pack(matrix)
    assert rows.shape == (7, words(count))
    assert [members(row, count) for row in rows] == [set(np.flatnonzero(x)) for x in matrix]
    assert (unpack(rows, count) == matrix).all()


def test_first_bit_of_every_place() -> None:
    rng = np.random.default_rng(0)
    for place in range(WORD):
        higher = int(rng.integers(0, 2**WORD)) >> place << place
        assert first_bit(np.int64(1 << place)) == place
        assert first_bit(np.int64(higher | 1 << place)) == place
