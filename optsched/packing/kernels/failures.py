"""Table of failed states: sets of unplaced buffers with the floors on which they failed.

A state with the same set of unplaced buffers and with floors at least as high in every section
fails too, since each of its packings would also be a packing of the failed state. Keys are compared
in full. The hash code only determines the place in the table, so a refutation never depends on the
absence of hash collisions.

Example: buffers `a` and `b` are unplaced and fail on the floors (4, 2). A state with the same two
buffers on (4, 3) is pruned. One on (3, 9) is not, since its first floor is lower.
"""

from __future__ import annotations

from typing import NamedTuple

from optsched.model.arrays import IntArray
from optsched.packing.kernels.state import WORD_BITS, B, PackingState, S
from optsched.runtime.kernel import inner

WAYS = 4
"""Number of entries per place of the table."""

HASH_BITS = (1 << 40) - 1


class Failures(NamedTuple):
    """Hash table of failed states."""

    rows: IntArray
    """Shape `(WAYS * places, words + m + 1)`, places a power of two. An entry consists of 1 (0 if
    empty), the bit set of unplaced buffers, and the floor of each section.
    """
    key: IntArray
    """Shape `(words,)`: work space."""
    victim: IntArray
    """Shape `(1,)`: cyclic counter that chooses the entry to overwrite."""


@inner
def find_place(state: PackingState, failures: Failures) -> int:
    """Write the bit set of unplaced buffers to the key; return the first entry of its place."""
    placed, key = state.buffers[B.placed], failures.key
    for word in range(len(key)):
        key[word] = 0
    for i in range(len(placed)):
        if placed[i] == 0:
            key[i // WORD_BITS] |= 1 << (i % WORD_BITS)
    code = 0
    for word in range(len(key)):
        # A polynomial in the words, shortened to 40 bits so that no product overflows 64 bits.
        code = ((code * 1000003) ^ key[word] ^ (key[word] >> 31)) & HASH_BITS
    # The low bits choose the place, so the high ones are mixed into them.
    code ^= code >> 17
    return int(WAYS * (code % (failures.rows.shape[0] // WAYS)))


@inner
def same_buffers(failures: Failures, row: int) -> bool:
    """Return True if an entry has the set of buffers in the key."""
    for word in range(len(failures.key)):
        if failures.rows[row, 1 + word] != failures.key[word]:
            return False
    return bool(failures.rows[row, 0])


@inner
def is_refuted(state: PackingState, failures: Failures) -> bool:
    """Return True if the unplaced buffers failed before on floors that were nowhere higher."""
    floors, rest = state.sections[S.floor], state.sections[S.remaining]
    m = len(floors) - 2
    rows = failures.rows
    place = find_place(state, failures)
    at = 1 + len(failures.key)
    for row in range(place, place + WAYS):
        if same_buffers(failures, row):
            t = 0
            # Finished sections do not matter: nothing will be placed in them.
            while t < m and (rest[t] == 0 or floors[t] >= rows[row, at + t]):
                t += 1
            if t == m:
                return True
    return False


@inner
def remember_failure(state: PackingState, failures: Failures) -> None:
    """Store a state whose search was exhausted; the state must be as it was on entry.

    An entry for the same buffers with floors at least as high is overwritten, as the new entry
    implies it; otherwise an empty entry is used, or else one of the others in turn.
    """
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
            # The old entry is implied by the new one if its floors are at least as high.
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
