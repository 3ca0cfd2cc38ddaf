"""Sets of ops as bits, 60 per 64-bit word, so that no word is ever negative.

Example: op 61 is bit 1 of word 1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy import int64

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.max_flow import Int
from optsched.runtime.kernel import inner

# Bit 63 would be the sign, which shifts to the right would copy.
WORD = 60


@inner
def has_bit(row: IntArray, i: Int) -> Int:
    """Return 1 if `i` is in the set, else 0."""
    return (row[i // WORD] >> (i % WORD)) & 1


@inner
def set_bit(row: IntArray, i: Int) -> None:
    """Add `i` to the set."""
    row[i // WORD] |= int64(1) << (i % WORD)


@inner
def clear_bit(row: IntArray, i: Int) -> None:
    """Remove `i` from the set."""
    row[i // WORD] &= ~(int64(1) << (i % WORD))


@inner
def first_bit(word: Int) -> Int:
    """Return the position of the lowest bit of a word that is not 0, by bisection."""
    # Halves of the remaining 60 bits: 30, 15, 8, 4, 2 and 1.
    place = 0
    if word & 0x3FFFFFFF == 0:
        place = 30
        word = word >> 30
    if word & 0x7FFF == 0:
        place += 15
        word = word >> 15
    if word & 0xFF == 0:
        place += 8
        word = word >> 8
    if word & 0xF == 0:
        place += 4
        word = word >> 4
    if word & 0x3 == 0:
        place += 2
        word = word >> 2
    return place + (word & 1 == 0)


def words(count: int) -> int:
    """Return the number of words of a set of up to `count` members."""
    return (count + WORD - 1) // WORD


def pack(matrix: npt.NDArray[np.bool_]) -> IntArray:
    """Return the rows of a Boolean matrix as sets."""
    rows = [
        matrix[:, i : i + WORD] @ (int64(1) << np.arange(min(WORD, matrix.shape[1] - i)))
        for i in range(0, matrix.shape[1], WORD)
    ]
    return np.ascontiguousarray(np.array(rows, np.int64).reshape(len(rows), len(matrix)).T)


def unpack(rows: IntArray, count: int) -> npt.NDArray[np.bool_]:
    """Return sets as the rows of a Boolean matrix with `count` columns."""
    at = np.arange(count)
    return (rows[:, at // WORD] >> (at % WORD) & 1).astype(np.bool_)
