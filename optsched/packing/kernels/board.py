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

from optsched.arrays import IntArray
from optsched.packing.kernels.inner import inner

NEVER = 1 << 60
"""Above every offset."""

# Rows of `Board.buffers`: given.
FIRST, LAST, SIZE, ALIGNMENT, TWIN, RELEASE, LATEST, RANK = 0, 1, 2, 3, 4, 5, 6, 7
# Rows of `Board.buffers`: state.
LEAST, PLACED, WATCHES, OFFSET, STACK = 8, 9, 10, 11, 12
BUFFER_ROWS = 13

# Rows of `Board.sections`.
FLOOR, REST, CAP, WATCHED, AFTER, BEFORE = 0, 1, 2, 3, 4, 5
RUN, TALLY, QUEUE, QUEUED, WEIGHT, ENTRY = 6, 7, 8, 9, 10, 11
SECTION_ROWS = 12

# Entries of `Board.counters`.
NODES, TRAILED, STACKED, WAITING, PLAIN, GAPPED, REFUTED, SPLITS, DEPTH = 0, 1, 2, 3, 4, 5, 6, 7, 8
COUNTERS = 9


class Board(NamedTuple):
    """Everything about `n` buffers and `m` sections.

    Parameters
    ----------
    buffers
        Shape `(BUFFER_ROWS, n)`. FIRST, LAST: half-open range of sections. TWIN: the identical
        buffer that must be placed before, or -1. RELEASE, LATEST: least and greatest offset.
        RANK: place in the order of trial. WATCHES: a section watched by the buffer, or -1.
        STACK: buffers in the order they were placed.
    sections
        Shape `(SECTION_ROWS, m + 2)`. CAP: no buffer that covers the section may end above.
        WATCHED: the unplaced buffer whose least start is the floor. AFTER, BEFORE: sections
        watched by the same buffer. RUN: end of the run of equal floors. QUEUE: sections whose
        floor must be looked at. WEIGHT: failures met. ENTRY: first buffer from there on.
    cover_start, cover
        Buffers of each section, in rows.
    zone_start, zones
        Per buffer, ascending and disjoint: starts strictly between `zones[0]` and `zones[1]`
        would meet a pinned buffer.
    masks
        Shape `(n, words)`: sections that each buffer covers, 60 a word; no words if each covers
        all sections from FIRST to LAST.
    trail
        Shape `(2, t)`: what changed, and what it was.
    counters
        DEPTH: the frame to resume with, one up, or 0. PLAIN: neither alignment nor release nor
        zones. GAPPED: `masks` has words.
    """

    buffers: IntArray
    sections: IntArray
    cover_start: IntArray
    cover: IntArray
    zone_start: IntArray
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
    for k in range(board.zone_start[i], board.zone_start[i + 1]):
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


@inner
def set_watch(board: Board, t: int, j: int) -> None:
    """Let buffer `j` (or none, -1) support the floor of section `t`."""
    watched = board.sections[WATCHED]
    after, before = board.sections[AFTER], board.sections[BEFORE]
    watches = board.buffers[WATCHES]
    old = watched[t]
    if old >= 0:
        if before[t] >= 0:
            after[before[t]] = after[t]
        else:
            watches[old] = after[t]
        if after[t] >= 0:
            before[after[t]] = before[t]
    watched[t] = j
    if j >= 0:
        head = watches[j]
        after[t] = head
        before[t] = -1
        if head >= 0:
            before[head] = t
        watches[j] = t


@inner
def note(board: Board, what: int, value: int) -> None:
    """Remember an old value: of floor `t`, of least start `m + i`, of watch `m + n + t`."""
    top = board.counters[TRAILED]
    board.trail[0, top] = what
    board.trail[1, top] = value
    board.counters[TRAILED] = top + 1


@inner
def undo(board: Board, trailed: int, stacked: int) -> None:
    """Go back to a state with that much on trail and stack."""
    buffers, sections, trail, counters = board.buffers, board.sections, board.trail, board.counters
    n, m = buffers.shape[1], sections.shape[1] - 2
    for k in range(counters[TRAILED] - 1, trailed - 1, -1):
        what = trail[0, k]
        if what < m:
            sections[FLOOR, what] = trail[1, k]
        elif what < m + n:
            buffers[LEAST, what - m] = trail[1, k]
        else:
            set_watch(board, what - m - n, trail[1, k])
    counters[TRAILED] = trailed
    gapped = counters[GAPPED] != 0
    for k in range(counters[STACKED] - 1, stacked - 1, -1):
        i = buffers[STACK, k]
        buffers[PLACED, i] = 0
        for t in range(buffers[FIRST, i], buffers[LAST, i]):
            if not gapped or covers(board, i, t):
                sections[REST, t] += buffers[SIZE, i]
    counters[STACKED] = stacked


@inner
def enqueue(board: Board, t: int) -> None:
    """Have a section's floor looked at."""
    sections, counters = board.sections, board.counters
    if sections[QUEUED, t] == 0:
        sections[QUEUED, t] = 1
        sections[QUEUE, counters[WAITING]] = t
        counters[WAITING] += 1


@inner
def forget_queue(board: Board) -> None:
    """Empty the queue after a failure."""
    sections, counters = board.sections, board.counters
    for k in range(counters[WAITING]):
        sections[QUEUED, sections[QUEUE, k]] = 0
    counters[WAITING] = 0


@inner
def settle(board: Board) -> bool:
    """Raise the floors of queued sections to the least start there; False if one overflows.

    A floor raised to the least of some least starts raises none of these: one pass is enough.
    """
    buffers, sections, counters = board.buffers, board.sections, board.counters
    n, m = buffers.shape[1], sections.shape[1] - 2
    fits = True
    while counters[WAITING] > 0:
        counters[WAITING] -= 1
        t = sections[QUEUE, counters[WAITING]]
        sections[QUEUED, t] = 0
        if not fits or sections[REST, t] == 0:
            continue
        floor = sections[FLOOR, t]
        least = NEVER
        supporter = -1
        for k in range(board.cover_start[t], board.cover_start[t + 1]):
            j = board.cover[k]
            if buffers[PLACED, j] == 0 and buffers[LEAST, j] < least:
                least = buffers[LEAST, j]
                supporter = j
                if least <= floor:
                    break
        if least > floor:
            note(board, t, floor)
            sections[FLOOR, t] = least
        if sections[WATCHED, t] != supporter:
            note(board, m + n + t, sections[WATCHED, t])
            set_watch(board, t, supporter)
        if least + sections[REST, t] > sections[CAP, t]:
            sections[WEIGHT, t] += 1
            fits = False
    return fits


@inner
def raise_least(board: Board, j: int, offset: int) -> bool:
    """Set a higher least start and queue the sections it supported; False if past the latest."""
    buffers, sections = board.buffers, board.sections
    note(board, sections.shape[1] - 2 + j, buffers[LEAST, j])
    buffers[LEAST, j] = offset
    t = buffers[WATCHES, j]
    while t >= 0:
        if sections[FLOOR, t] != offset:
            enqueue(board, t)
        t = sections[AFTER, t]
    return bool(offset <= buffers[LATEST, j])


@inner
def place(board: Board, i: int, offset: int, begin: int, end: int) -> bool:
    """Put a buffer where all floors of its sections are at `offset`; False if nothing can follow.

    Parameters
    ----------
    begin, end
        The buffers of the scope: no other is raised.
    """
    buffers, sections, counters = board.buffers, board.sections, board.counters
    n, m = buffers.shape[1], sections.shape[1] - 2
    first, last, size = buffers[FIRST, i], buffers[LAST, i], buffers[SIZE, i]
    top = offset + size
    gapped, plain = counters[GAPPED] != 0, counters[PLAIN] != 0
    buffers[PLACED, i] = 1
    buffers[OFFSET, i] = offset
    buffers[STACK, counters[STACKED]] = i
    counters[STACKED] += 1
    fits = True
    for t in range(first, last):
        if gapped and not covers(board, i, t):
            continue
        note(board, t, sections[FLOOR, t])
        sections[FLOOR, t] = top
        sections[REST, t] -= size
        if sections[REST, t] > 0 and top + sections[REST, t] > sections[CAP, t]:
            sections[WEIGHT, t] += 1
            fits = False
    if not fits:
        return False
    ahead = first
    beyond = sections[ENTRY, last] if sections[ENTRY, last] < end else end
    for j in range(begin, beyond):
        if buffers[PLACED, j] or buffers[LAST, j] <= first:
            continue
        if gapped and not share_section(board, i, j):
            continue
        least = buffers[LEAST, j]
        if least < top:
            least = top if plain else admissible(board, j, top)
            if not raise_least(board, j, least):
                forget_queue(board)
                return False
        if least == top and not gapped and buffers[LAST, j] > ahead:
            # Buffers come by first section: what lies between `ahead` and this one has no
            # supporter at the new floor yet, what this one covers has.
            while ahead < buffers[FIRST, j]:
                enqueue(board, ahead)
                ahead += 1
            until = buffers[LAST, j] if buffers[LAST, j] < last else last
            while ahead < until:
                if sections[WATCHED, ahead] != j:
                    note(board, m + n + ahead, sections[WATCHED, ahead])
                    set_watch(board, ahead, j)
                ahead += 1
    while ahead < last:
        enqueue(board, ahead)
        ahead += 1
    return settle(board)


@inner
def start_board(board: Board) -> bool:
    """Take every buffer off the board and settle the floors; False if nothing can follow."""
    buffers, sections, counters = board.buffers, board.sections, board.counters
    n, m = buffers.shape[1], sections.shape[1] - 2
    plain, gaps = counters[PLAIN], counters[GAPPED]
    gapped = gaps != 0
    for t in range(m + 1):
        sections[FLOOR, t] = 0
        sections[REST, t] = 0
        sections[WATCHED, t] = -1
        sections[QUEUED, t] = 0
    for k in range(len(counters)):
        counters[k] = 0
    counters[PLAIN] = plain
    counters[GAPPED] = gaps
    fits = True
    for i in range(n):
        buffers[LEAST, i] = admissible(board, i, 0)
        buffers[PLACED, i] = 0
        buffers[WATCHES, i] = -1
        if buffers[LEAST, i] > buffers[LATEST, i]:
            fits = False
        for t in range(buffers[FIRST, i], buffers[LAST, i]):
            if not gapped or covers(board, i, t):
                sections[REST, t] += buffers[SIZE, i]
    if not fits:
        return False
    for t in range(m):
        enqueue(board, t)
    return settle(board)
