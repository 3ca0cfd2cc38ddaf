"""The board: which buffers are placed, how low the others could start, and how to take it back.

Time is cut into sections, the maximal cliques of the live ranges. Per section the board keeps a
floor, below which no unplaced buffer that covers the section can start, and the rest, the sum of
the sizes still to be placed there. Per buffer it keeps the least start: the first admissible
offset at or above all floors of its sections. Every change goes to a trail, newest first to undo.

::

    capacity  +-----------------------------+
              |      rest of each section   |
    floors    |####|        |#########|#####|   <- a niche: a run of equal floors, higher ones
              |####|########|#########|#####|      (or the border of the scope) on both sides
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

# Rows of `Board.buffers`: given.
FIRST, LAST, SIZE, ALIGNMENT, TWIN, RELEASE, LATEST, RANK = 0, 1, 2, 3, 4, 5, 6, 7
ZONE, ZONE_END = 8, 9
# Rows of `Board.buffers`: state.
LEAST, PLACED, WATCHES, OFFSET, STACK = 10, 11, 12, 13, 14
BUFFER_ROWS = 15

# Rows of `Board.sections`.
FLOOR, REST, CAP, WATCHED, AFTER, BEFORE = 0, 1, 2, 3, 4, 5
RUN, TALLY, QUEUE, QUEUED, WEIGHT, ENTRY, COVER = 6, 7, 8, 9, 10, 11, 12
SECTION_ROWS = 13

# Entries of `Board.counters`.
NODES, TRAILED, STACKED, WAITING, REFUTED, SPLITS, DEPTH, PLAIN, GAPPED, FAR = range(10)
COUNTERS = 10


class Board(NamedTuple):
    """Everything about `n` buffers and `m` sections.

    Parameters
    ----------
    buffers
        Shape `(BUFFER_ROWS, n)`. FIRST, LAST: half-open range of sections. TWIN: the identical
        buffer that must be placed before, or -1. RELEASE, LATEST: least and greatest offset.
        RANK: place in the order of trial. WATCHES: a section watched by the buffer, or -1.
        STACK: buffers in the order they were placed. ZONE, ZONE_END: its range of zones.
    sections
        Shape `(SECTION_ROWS, m + 2)`. CAP: no buffer that covers the section may end above.
        WATCHED: the unplaced buffer whose least start is the floor. AFTER, BEFORE: sections
        watched by the same buffer. RUN: end of the run of equal floors. QUEUE: sections whose
        floor must be looked at. WEIGHT: failures met. ENTRY: first buffer from there on.
        COVER: where its buffers begin in `cover`.
    cover
        Buffers of each section, one section after another.
    zones
        Shape `(2, z)`. Per buffer, ascending and disjoint: starts strictly between `zones[0]` and
        `zones[1]` would meet a pinned buffer.
    masks
        Shape `(n, words)`: sections that each buffer covers, 60 a word; no words if each covers
        all sections from FIRST to LAST.
    trail
        Shape `(2, t)`: what changed, and what it was.
    counters
        DEPTH: the frame to resume with, one up, or 0. PLAIN: neither alignment nor release nor
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
def admissible(board: Board, i: int, offset: int) -> int:
    """Return the least offset from `offset` on where the buffer may start: aligned, past zones."""
    buffers, zones = board.buffers, board.zones
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
def covers(board: Board, i: int, t: int) -> bool:
    """Whether the buffer, whose hull has section `t`, is there in it."""
    return bool((board.masks[i, t // 60] >> (t % 60)) & 1)


@inner
def share_section(board: Board, i: int, j: int) -> bool:
    """Whether two buffers are ever live together."""
    buffers = board.buffers
    if buffers[LAST, j] <= buffers[FIRST, i] or buffers[LAST, i] <= buffers[FIRST, j]:
        return False
    if board.counters[GAPPED] == 0:
        return True
    for word in range(board.masks.shape[1]):
        if board.masks[i, word] & board.masks[j, word] != 0:
            return True
    return False
