"""The packing state: which buffers are placed, how low the others could start, and a trail.

Time is cut into sections, the maximal cliques of the live ranges
(:mod:`optsched.packing.cliques`). Per section the state keeps a floor, below which no unplaced
buffer that covers the section can start, and the remaining size still to be placed there. Per
buffer it keeps the minimum offset: the first admissible one at or above all floors of its sections.
Every change goes to a trail, which is undone from its newest entry::

    capacity  +-----------------------------+
              |  remaining size per section |
    floors    |####|        |#########|#####|   <- a gap of the skyline: a run of equal floors
              |####|########|#########|#####|      with higher ones (or the border) on both sides
              +-----------------------------+  sections ->

Buffers are sorted by first section. Arrays have few dimensions and many rows because numba
compiles and calls functions of few arguments much faster.
"""

from __future__ import annotations

from typing import NamedTuple

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import inner

NEVER = 1 << 60
"""Above every offset."""

# Rows of `PackingState.buffers`: given.
FIRST, LAST, SIZE, ALIGNMENT, BEFORE_ME, RELEASE, MAX_OFFSET, RANK = 0, 1, 2, 3, 4, 5, 6, 7
ZONE, ZONE_END, PARTS = 8, 9, 10
# Rows of `PackingState.buffers`: state.
MIN_OFFSET, PLACED, SUPPORTS, OFFSET, STACK = 11, 12, 13, 14, 15
BUFFER_ROWS = 16

# Rows of `PackingState.sections`.
FLOOR, REMAINING, CAP, SUPPORTER, AFTER, BEFORE = 0, 1, 2, 3, 4, 5
RUN, TALLY, QUEUE, QUEUED, WEIGHT, ENTRY, COVER = 6, 7, 8, 9, 10, 11, 12
SECTION_ROWS = 13

# Entries of `PackingState.counters`; those before PLAIN are reset at the start of a search.
NODES, TRAILED, STACKED, WAITING, REFUTED, SPLITS, DEPTH, PLAIN, GAPPED, FAR = range(10)
COUNTERS = 10


class PackingState(NamedTuple):
    """Everything about `n` buffers and `m` sections.

    Parameters
    ----------
    buffers
        Shape `(BUFFER_ROWS, n)`. FIRST, LAST: half-open range of sections. BEFORE_ME: the identical
        buffer that must be placed before, or -1. RELEASE, MAX_OFFSET: lowest and highest offset.
        RANK: place in the order of trial. ZONE, ZONE_END: its range of zones. PARTS: where its
        entries of `occupied` begin, less FIRST. SUPPORTS: head of the list of sections whose floor
        it supports, or -1. STACK: buffers in the order they were placed.
    sections
        Shape `(SECTION_ROWS, m + 2)`. CAP: no buffer that covers the section may end above.
        SUPPORTER: an unplaced buffer whose minimum offset is the floor. AFTER, BEFORE: the list of
        sections of one supporter. RUN: end of the run of equal floors. QUEUE: sections whose floor
        must be updated. WEIGHT: failures met. ENTRY: the first buffer that starts there or later.
        COVER: where its buffers begin in `cover`.
    cover
        Buffers of each section, one section after another.
    zones
        Shape `(2, z)`. Per buffer, ascending and disjoint: starts strictly between `zones[0]` and
        `zones[1]` would meet a pinned buffer.
    masks
        Shape `(n, words)`: the sections that each buffer covers as bits, 60 a word; no words if
        each covers all sections from FIRST to LAST.
    trail
        Shape `(2, t)`: what changed, and what it was.
    counters
        DEPTH: the frame to resume with, plus one, or 0. PLAIN: neither alignment nor release nor
        zones. GAPPED: `masks` has words. FAR: whether a skip goes to the next top.
    """

    buffers: IntArray
    sections: IntArray
    cover: IntArray
    zones: IntArray
    masks: IntArray
    trail: IntArray
    counters: IntArray


@inner
def admissible(state: PackingState, i: int, offset: int) -> int:
    """Return the first offset from `offset` on at which the buffer may start.

    It is aligned, at or above the release, and in no zone.
    """
    buffers, zones = state.buffers, state.zones
    if offset < buffers[RELEASE, i]:  # noqa: PLR1730
        offset = buffers[RELEASE, i]
    step = buffers[ALIGNMENT, i]
    if step > 1:
        offset += -offset % step
    for k in range(buffers[ZONE, i], buffers[ZONE_END, i]):
        if offset <= zones[0, k]:
            break
        if offset < zones[1, k]:
            offset = zones[1, k]
            if step > 1:
                offset += -offset % step
    return offset


@inner
def covers(state: PackingState, i: int, t: int) -> bool:
    """Whether the buffer, whose range has section `t`, is there in it."""
    return bool((state.masks[i, t // 60] >> (t % 60)) & 1)


@inner
def share_section(state: PackingState, i: int, j: int) -> bool:
    """Whether two buffers are ever live together."""
    buffers = state.buffers
    if buffers[LAST, j] <= buffers[FIRST, i] or buffers[LAST, i] <= buffers[FIRST, j]:
        return False
    if state.counters[GAPPED] == 0:
        return True
    for word in range(state.masks.shape[1]):
        if state.masks[i, word] & state.masks[j, word] != 0:
            return True
    return False


@inner
def bottom_in(state: PackingState, occupied: IntArray | None, i: int, t: int) -> int:
    """Return the first byte of section `t` that the buffer would fill at its minimum offset."""
    start = state.buffers[MIN_OFFSET, i]
    if occupied is not None:
        start += occupied[0, state.buffers[PARTS, i] + t]
    return int(start)


@inner
def size_in(state: PackingState, occupied: IntArray | None, i: int, t: int) -> int:
    """Return how many bytes of the buffer are there in section `t`."""
    if occupied is not None:
        at = state.buffers[PARTS, i] + t
        return int(occupied[1, at] - occupied[0, at])
    if state.counters[GAPPED] != 0 and not covers(state, i, t):
        return 0
    return int(state.buffers[SIZE, i])
