"""The packing state: placed buffers, lower bounds on the offsets of the others, and a trail.

Time is cut into sections, the maximal cliques of the live ranges (:mod:`optsched.packing.cliques`).
For each section the state keeps a floor, below which no unplaced buffer of the section can start,
and the total size that remains to be placed there. For each buffer it keeps the minimum offset: the
first admissible one at or above all floors of its sections. Every change is pushed on a trail, and
undone from the newest entry back::

    capacity  +-----------------------------+
              |  remaining size per section |
    floors    |####|        |#########|#####|   <- a gap of the skyline: a run of equal floors
              |####|########|#########|#####|      with higher ones (or the border) on both sides
              +-----------------------------+  sections ->

Buffers are sorted by first section. Arrays have few dimensions and many rows, because numba
compiles and calls functions with few arguments much faster.
"""

from __future__ import annotations

from typing import NamedTuple

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import inner

# Twice or four times this value still fits in 64 bits.
NEVER = 1 << 60
"""Value above every offset."""
WORD_BITS = 60
"""Number of bits in a word of a bit set of buffers or sections."""


class BufferRows(NamedTuple):
    """Rows of `PackingState.buffers`; from `min_offset` on they change during a search.

    `first`, `last`: half-open range of sections. `before_me`: the identical buffer that must be
    placed before, or -1. `release`, `max_offset`: lowest and highest offset. `rank`: position in
    the order of trial. `zone`, `zone_end`: range of its columns in `zones`. `parts`: first column
    of its entries of `occupied`, minus `first`. `supports`: head of the list of sections whose
    floor it supports, or -1. `stack`: buffers in the order they were placed.
    """

    first: int = 0
    last: int = 1
    size: int = 2
    alignment: int = 3
    before_me: int = 4
    release: int = 5
    max_offset: int = 6
    rank: int = 7
    zone: int = 8
    zone_end: int = 9
    parts: int = 10
    min_offset: int = 11
    placed: int = 12
    supports: int = 13
    offset: int = 14
    stack: int = 15


class SectionRows(NamedTuple):
    """Rows of `PackingState.sections`.

    `cap`: upper limit on the end of every buffer that covers the section. `supporter`: an unplaced
    buffer whose minimum offset is the floor. `after`, `before`: links in the list of sections of
    one supporter. `run`: end of the run of equal floors. `queue`: sections whose floor must be
    updated. `weight`: number of failures. `entry`: the first buffer that starts there or later.
    `cover`: start of its buffers in `PackingState.cover`.
    """

    floor: int = 0
    remaining: int = 1
    cap: int = 2
    supporter: int = 3
    after: int = 4
    before: int = 5
    run: int = 6
    tally: int = 7
    queue: int = 8
    queued: int = 9
    weight: int = 10
    entry: int = 11
    cover: int = 12


class CounterRows(NamedTuple):
    """Entries of `PackingState.counters`; those before `plain` are reset when a search starts.

    `depth`: the frame to resume at, plus one, or 0 to start. `plain`: 1 if alignments, releases and
    zones are absent. `gapped`: 1 if `masks` has words. `far`: 1 if a skip goes to the next top.
    `scanned`: pairs of a buffer and a section that partial moves of this call have scanned.
    """

    nodes: int = 0
    trailed: int = 1
    stacked: int = 2
    waiting: int = 3
    refuted: int = 4
    depth: int = 5
    plain: int = 6
    gapped: int = 7
    far: int = 8
    scanned: int = 9


B, S, C = BufferRows(), SectionRows(), CounterRows()
"""Row numbers; numba treats the fields of a tuple of integers as constants."""


class PackingState(NamedTuple):
    """State of the search over `n` buffers and `m` sections."""

    buffers: IntArray
    """Shape `(len(B), n)`."""
    sections: IntArray
    """Shape `(len(S), m + 2)`."""
    cover: IntArray
    """The buffers of each section, section by section."""
    zones: IntArray
    """Shape `(2, z)`. Per buffer, ascending and disjoint: offsets strictly between `zones[0]` and
    `zones[1]` would overlap a pinned buffer.
    """
    masks: IntArray
    """Shape `(n, words)`: bit set of the sections that each buffer covers; no words if each buffer
    covers its whole range.
    """
    trail: IntArray
    """Shape `(2, t)`: the entries that changed, and their old values."""
    counters: IntArray
    """Shape `(len(C),)`."""


@inner
def admissible(state: PackingState, i: int, offset: int) -> int:
    """Return the first offset at or above `offset` at which the buffer may start.

    It is aligned, at least the release, and outside all zones.
    """
    buffers, zones = state.buffers, state.zones
    if offset < buffers[B.release, i]:  # noqa: PLR1730
        offset = buffers[B.release, i]
    step = buffers[B.alignment, i]
    if step > 1:
        # Python's and numba's remainder of a negative number is not negative: this rounds up.
        offset += -offset % step
    for k in range(buffers[B.zone, i], buffers[B.zone_end, i]):
        # Zones are sorted and disjoint: an offset below one is below all later ones.
        if offset <= zones[0, k]:
            break
        if offset < zones[1, k]:
            offset = zones[1, k]
            if step > 1:
                offset += -offset % step
    return offset


@inner
def covers(state: PackingState, i: int, t: int) -> bool:
    """Return True if a buffer covers section `t`, which must be in its range."""
    return bool((state.masks[i, t // WORD_BITS] >> (t % WORD_BITS)) & 1)


@inner
def share_section(state: PackingState, i: int, j: int) -> bool:
    """Return True if two buffers are ever live together."""
    buffers = state.buffers
    if buffers[B.last, j] <= buffers[B.first, i] or buffers[B.last, i] <= buffers[B.first, j]:
        return False
    if state.counters[C.gapped] == 0:
        return True
    for word in range(state.masks.shape[1]):
        if state.masks[i, word] & state.masks[j, word] != 0:
            return True
    return False


@inner
def bottom_in(state: PackingState, occupied: IntArray | None, i: int, t: int) -> int:
    """Return the first byte that the buffer would occupy in section `t` at its minimum offset."""
    start = state.buffers[B.min_offset, i]
    if occupied is not None:
        start += occupied[0, state.buffers[B.parts, i] + t]
    return int(start)


@inner
def size_in(state: PackingState, occupied: IntArray | None, i: int, t: int) -> int:
    """Return the number of bytes that the buffer occupies in section `t`."""
    if occupied is not None:
        at = state.buffers[B.parts, i] + t
        return int(occupied[1, at] - occupied[0, at])
    if state.counters[C.gapped] != 0 and not covers(state, i, t):
        return 0
    return int(state.buffers[B.size, i])
