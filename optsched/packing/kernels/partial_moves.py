"""The moves of the search where buffers have windows: in some sections only a part is there.

The search is the one of :mod:`search`; what a state is differs. A buffer at offset `x` fills
`[x + low, x + high)` of a section, with bounds of that section, so it may lie above a floor
although no other buffer could go below it elsewhere, and two buffers may lie one above the other
in one section and the other way round in the next. Hence:

* A placed buffer lies at its least start. Where its window is then above the floor, it is an
  obstacle that others stay below or above of; only what lies below the floor is forgotten.
* The floor of a section is the least `LEAST + low` of the unplaced buffers there. Either one of
  them has its window's bottom there, and then it lies at its least start: a child; or none has:
  the skip. That is complete for every section, flat or not.
* Pinned buffers, and others with one place only, are placed before the search.
* A packing above floors and obstacles can be pushed down: keep who is above whom in each section,
  and take the least offsets that satisfy these differences. Each buffer then lies at its release,
  on a floor, or with its window on another's, placed or not, and on the next aligned offset.

Of the rules `twins`, `forced`, `decompose`, `pieces` and `cliques` hold word for word, with
windows in place of buffers; two buffers are twins only if all windows are equal, and sections are
cut where a window changes. `far_skip` is proved anew at :func:`floor_after_skip`, `failures` at
:func:`remember_failure`; `units` counts the windows' bounds in. `heights` is off: a chain of
buffers adds and subtracts parts of them. A beam is not run: it stores no obstacles.

The rows of the board are read as they are elsewhere, but for `zones`: pins need none here, and the
rows hold `low` and `high` of each buffer in each section from FIRST to LAST (equal: it is not
there). Those of buffer `i` and section `t` are at `buffers[SPAN, i] + t`.
"""

from __future__ import annotations

from optsched.packing.kernels.moves import enqueue, forget_queue, note
from optsched.packing.kernels.state import (
    ALIGNMENT,
    CAP,
    COVER,
    FIRST,
    FLOOR,
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
    STACK,
    STACKED,
    TRAILED,
    WAITING,
    WEIGHT,
    ZONE,
    Board,
)
from optsched.runtime.kernel import inner

SPAN = ZONE
"""Row of `Board.buffers`: where a buffer's windows are, less its first section."""


@inner
def aligned(board: Board, i: int, offset: int) -> int:
    """Return the least multiple of the buffer's alignment from `offset` and its release on."""
    release = board.buffers[RELEASE, i]
    offset = offset if offset > release else release
    return int(offset + -offset % board.buffers[ALIGNMENT, i])


@inner
def lift(board: Board, i: int, offset: int) -> int:
    """Return the least start from `offset` on above all floors and apart from all placed.

    Past the latest start any offset that is no larger.
    """
    buffers, sections, windows = board.buffers, board.sections, board.zones
    first, last, span = buffers[FIRST, i], buffers[LAST, i], buffers[SPAN, i]
    x = aligned(board, i, offset)
    before = -1
    while before != x and x <= buffers[LATEST, i]:
        before = x
        for t in range(first, last):
            low, high = windows[0, span + t], windows[1, span + t]
            if low == high:
                continue
            if x + low < sections[FLOOR, t]:
                x = aligned(board, i, sections[FLOOR, t] - low)
            for k in range(sections[COVER, t], sections[COVER, t + 1]):
                j = board.cover[k]
                if buffers[PLACED, j] == 0:
                    continue
                bottom = buffers[OFFSET, j] + windows[0, buffers[SPAN, j] + t]
                top = buffers[OFFSET, j] + windows[1, buffers[SPAN, j] + t]
                if x + low < top and bottom < x + high:
                    x = aligned(board, i, top - low)
    return x


@inner
def raise_least(board: Board, i: int, offset: int) -> bool:
    """Lift a buffer to `offset` or above and queue its sections; False if past its latest start."""
    buffers, sections = board.buffers, board.sections
    least = lift(board, i, offset)
    if least > buffers[LATEST, i]:
        forget_queue(board)
        return False
    note(board, sections.shape[1] - 2 + i, buffers[LEAST, i])
    buffers[LEAST, i] = least
    for t in range(buffers[FIRST, i], buffers[LAST, i]):
        enqueue(board, t)
    return True


@inner
def settle(board: Board) -> bool:
    """Raise the floors of queued sections to the lowest window; False if one overflows.

    What is unplaced, and the obstacles above the floor, have to fit between floor and cap.
    """
    buffers, sections, counters = board.buffers, board.sections, board.counters
    windows = board.zones
    fits = True
    while counters[WAITING] > 0:
        counters[WAITING] -= 1
        t = sections[QUEUE, counters[WAITING]]
        sections[QUEUED, t] = 0
        if not fits or sections[REST, t] == 0:
            continue
        lowest = NEVER
        for k in range(sections[COVER, t], sections[COVER, t + 1]):
            j = board.cover[k]
            if buffers[PLACED, j] == 0:
                bottom = buffers[LEAST, j] + windows[0, buffers[SPAN, j] + t]
                lowest = bottom if bottom < lowest else lowest
        if lowest > sections[FLOOR, t]:
            note(board, t, sections[FLOOR, t])
            sections[FLOOR, t] = lowest
        top = lowest + sections[REST, t]
        for k in range(sections[COVER, t], sections[COVER, t + 1]):
            j = board.cover[k]
            at = buffers[SPAN, j] + t
            if buffers[PLACED, j] and buffers[OFFSET, j] + windows[0, at] >= lowest:
                top += windows[1, at] - windows[0, at]
        if top > sections[CAP, t]:
            sections[WEIGHT, t] += 1
            fits = False
    return fits


@inner
def place(board: Board, i: int, level: int, begin: int, end: int) -> bool:
    """Put a buffer at its least start; False if nothing can follow.

    The other arguments are those of the plain move, which has no need of the least start.
    """
    buffers, sections, windows = board.buffers, board.sections, board.zones
    x = buffers[LEAST, i]
    buffers[PLACED, i] = 1
    buffers[OFFSET, i] = x
    buffers[STACK, board.counters[STACKED]] = i
    board.counters[STACKED] += 1
    for t in range(buffers[FIRST, i], buffers[LAST, i]):
        at = buffers[SPAN, i] + t
        sections[REST, t] -= windows[1, at] - windows[0, at]
    for t in range(buffers[FIRST, i], buffers[LAST, i]):
        low, high = x + windows[0, buffers[SPAN, i] + t], x + windows[1, buffers[SPAN, i] + t]
        if low == high:
            continue
        enqueue(board, t)
        for k in range(sections[COVER, t], sections[COVER, t + 1]):
            j = board.cover[k]
            least, at = buffers[LEAST, j], buffers[SPAN, j] + t
            meets = least + windows[0, at] < high and low < least + windows[1, at]
            if buffers[PLACED, j] == 0 and meets and not raise_least(board, j, least):
                return False
    return settle(board)


@inner
def undo(board: Board, trailed: int, stacked: int) -> None:
    """Go back to a state with that much on trail and stack."""
    buffers, sections, trail = board.buffers, board.sections, board.trail
    counters, windows = board.counters, board.zones
    m = sections.shape[1] - 2
    for k in range(counters[TRAILED] - 1, trailed - 1, -1):
        if trail[0, k] < m:
            sections[FLOOR, trail[0, k]] = trail[1, k]
        else:
            buffers[LEAST, trail[0, k] - m] = trail[1, k]
    counters[TRAILED] = trailed
    for k in range(counters[STACKED] - 1, stacked - 1, -1):
        i = buffers[STACK, k]
        buffers[PLACED, i] = 0
        for t in range(buffers[FIRST, i], buffers[LAST, i]):
            at = buffers[SPAN, i] + t
            sections[REST, t] += windows[1, at] - windows[0, at]
    counters[STACKED] = stacked


@inner
def start_board(board: Board) -> bool:
    """Take every buffer off the board, put down those with one place; False if nothing follows."""
    buffers, sections, counters = board.buffers, board.sections, board.counters
    n, m = buffers.shape[1], sections.shape[1] - 2
    windows = board.zones
    for t in range(m + 1):
        sections[FLOOR, t] = 0
        sections[REST, t] = 0
        sections[QUEUED, t] = 0
    for k in range(PLAIN):
        counters[k] = 0
    for i in range(n):
        buffers[LEAST, i] = aligned(board, i, 0)
        buffers[PLACED, i] = 0
        if buffers[LEAST, i] > buffers[LATEST, i]:
            return False
        for t in range(buffers[FIRST, i], buffers[LAST, i]):
            at = buffers[SPAN, i] + t
            sections[REST, t] += windows[1, at] - windows[0, at]
    for i in range(n):
        if has_one_place(board, i) and not place(board, i, 0, 0, n):
            return False
    for t in range(m):
        enqueue(board, t)
    return settle(board)


@inner
def has_one_place(board: Board, i: int) -> bool:
    """Whether a buffer is pinned, or as good as that; such are placed in all states."""
    return bool(aligned(board, i, 0) == board.buffers[LATEST, i])
