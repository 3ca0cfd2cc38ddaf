"""Moves on the board: place, raise, settle, undo."""

from __future__ import annotations

from optsched.packing.kernels.state import (
    AFTER,
    BEFORE,
    CAP,
    COVER,
    ENTRY,
    FIRST,
    FLOOR,
    GAPPED,
    LAST,
    LATEST,
    LEAST,
    NEVER,
    OFFSET,
    PLACED,
    PLAIN,
    QUEUE,
    QUEUED,
    RELEASE,
    REST,
    SIZE,
    STACK,
    STACKED,
    TRAILED,
    WAITING,
    WATCHED,
    WATCHES,
    WEIGHT,
    Board,
    admissible,
    covers,
    share_section,
)
from optsched.runtime.kernel import inner


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
        for k in range(board.sections[COVER, t], board.sections[COVER, t + 1]):
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
    gapped = counters[GAPPED] != 0
    for t in range(m + 1):
        sections[FLOOR, t] = 0
        sections[REST, t] = 0
        sections[WATCHED, t] = -1
        sections[QUEUED, t] = 0
    for k in range(PLAIN):
        counters[k] = 0
    fits = True
    for i in range(n):
        buffers[LEAST, i] = admissible(board, i, buffers[RELEASE, i])
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
