"""States that are known to fail: a set of unplaced buffers and the floors they failed on.

A state with the same unplaced set and floors that are nowhere lower fails too, since each of its
packings would have been one of the failed state. Keys are compared in full: the hash only finds
the place, so that a refutation does not rest on luck.
"""

from __future__ import annotations

from typing import NamedTuple

from optsched.model.arrays import IntArray
from optsched.packing.kernels.state import WORD_BITS, B, PackingState, S
from optsched.runtime.kernel import inner

WAYS = 4
"""Entries per place of the table."""

HASH_BITS = (1 << 40) - 1


class Failures(NamedTuple):
    """The table."""

    rows: IntArray
    """Shape `(WAYS * places, words + m + 1)`, places a power of two. An entry: 1 (0: empty), the
    unplaced buffers as bits, and the floor of each section."""
    key: IntArray
    """Shape `(words,)`: scratch."""
    victim: IntArray
    """Shape `(1,)`: turns around to choose what to overwrite."""


@inner
def find_place(state: PackingState, failures: Failures) -> int:
    """Write the bits of the unplaced buffers to the key; return its first entry."""
    placed, key = state.buffers[B.placed], failures.key
    for word in range(len(key)):
        key[word] = 0
    for i in range(len(placed)):
        if placed[i] == 0:
            key[i // WORD_BITS] |= 1 << (i % WORD_BITS)
    code = 0
    for word in range(len(key)):
        code = ((code * 1000003) ^ key[word] ^ (key[word] >> 31)) & HASH_BITS
    code ^= code >> 17
    return int(WAYS * (code % (failures.rows.shape[0] // WAYS)))


@inner
def same_buffers(failures: Failures, row: int) -> bool:
    """Whether an entry is about the buffers of the key."""
    for word in range(len(failures.key)):
        if failures.rows[row, 1 + word] != failures.key[word]:
            return False
    return bool(failures.rows[row, 0])


@inner
def is_refuted(state: PackingState, failures: Failures) -> bool:
    """Whether these unplaced buffers failed on floors nowhere higher."""
    floors, rest = state.sections[S.floor], state.sections[S.remaining]
    m = len(floors) - 2
    rows = failures.rows
    place = find_place(state, failures)
    at = 1 + len(failures.key)
    for row in range(place, place + WAYS):
        if same_buffers(failures, row):
            t = 0
            while t < m and (rest[t] == 0 or floors[t] >= rows[row, at + t]):
                t += 1
            if t == m:
                return True
    return False


@inner
def remember_failure(state: PackingState, failures: Failures) -> None:
    """Store a state whose search was exhausted; it must be as it was on entry."""
    floors, rest = state.sections[S.floor], state.sections[S.remaining]
    m = len(floors) - 2
    rows = failures.rows
    place = find_place(state, failures)
    at = 1 + len(failures.key)
    goal = -1
    for row in range(place, place + WAYS):
        if rows[row, 0] == 0:
            goal = row
        elif same_buffers(failures, row):
            t = 0
            while t < m and (rest[t] == 0 or rows[row, at + t] >= floors[t]):
                t += 1
            if t == m:
                goal = row
                break
    if goal < 0:
        failures.victim[0] = (failures.victim[0] + 1) % WAYS
        goal = place + failures.victim[0]
    rows[goal, 0] = 1
    for word in range(len(failures.key)):
        rows[goal, 1 + word] = failures.key[word]
    for t in range(m):
        rows[goal, at + t] = floors[t]
