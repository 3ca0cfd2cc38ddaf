"""One layer of a beam: every state places one more buffer, the best children live on.

A state is rated by the sum over its unfinished sections of a weight that falls with the slack
there. Placing a buffer flat leaves the slack of its own sections; only floors that rise further
change the sum, and these stand on the trail.
"""

from __future__ import annotations

import numpy.typing as npt
from numpy import float64

from optsched.arrays import IntArray
from optsched.jit import inner, kernel
from optsched.packing.kernels.board import (
    CAP,
    COVER,
    ENTRY,
    FIRST,
    FLOOR,
    GAPPED,
    LAST,
    LEAST,
    NEVER,
    PLACED,
    QUEUED,
    REST,
    SIZE,
    STACKED,
    TALLY,
    TRAILED,
    WAITING,
    WATCHED,
    WATCHES,
    Board,
    covers,
)
from optsched.packing.kernels.branch import (
    choose_section,
    floor_after_skip,
    may_start,
    must_start,
    skip,
)
from optsched.packing.kernels.failures import HASH_BITS
from optsched.packing.kernels.moves import (
    place,
    set_watch,
    start_board,
    undo,
)

FloatArray = npt.NDArray[float64]

# Columns of children.
PARENT, BUFFER, SKIPS, CODE, LEVEL = 0, 1, 2, 3, 4
CHILD_COLUMNS = 5


@inner
def load_state(board: Board, state: IntArray) -> None:
    """Set the board to a stored state: floors, rests, watches, least starts, placed buffers."""
    buffers, sections, counters = board.buffers, board.sections, board.counters
    n, m = buffers.shape[1], sections.shape[1] - 2
    for i in range(n):
        buffers[LEAST, i] = state[3 * m + i]
        buffers[PLACED, i] = state[3 * m + n + i]
        buffers[WATCHES, i] = -1
    for t in range(m):
        sections[FLOOR, t] = state[t]
        sections[REST, t] = state[m + t]
        sections[WATCHED, t] = -1
        sections[QUEUED, t] = 0
        if state[m + t] == 0:
            # A finished section is a wall: no unplaced buffer reaches across it.
            sections[FLOOR, t] = NEVER
        elif state[2 * m + t] >= 0:
            set_watch(board, t, state[2 * m + t])
    counters[TRAILED] = 0
    counters[STACKED] = 0
    counters[WAITING] = 0


@inner
def save_state(board: Board, state: IntArray) -> None:
    """Store the board."""
    buffers, sections = board.buffers, board.sections
    n, m = buffers.shape[1], sections.shape[1] - 2
    for t in range(m):
        state[t] = sections[FLOOR, t]
        state[m + t] = sections[REST, t]
        state[2 * m + t] = sections[WATCHED, t]
    for i in range(n):
        state[3 * m + i] = buffers[LEAST, i]
        state[3 * m + n + i] = buffers[PLACED, i]


@inner
def weight_of(board: Board, t: int, floor: int, shift: int, weights: FloatArray) -> float:
    """Return the weight of a section with such a floor and the board's rest."""
    sections = board.sections
    return float(weights[(sections[CAP, t] - floor - sections[REST, t]) >> shift])


@inner
def sum_weights(board: Board, shift: int, weights: FloatArray) -> float:
    """Rate the board."""
    sections = board.sections
    total = 0.0
    for t in range(sections.shape[1] - 2):
        if sections[REST, t] > 0:
            total += weight_of(board, t, sections[FLOOR, t], shift, weights)
    return total


@inner
def change_of_weights(board: Board, mark: int, i: int, shift: int, weights: FloatArray) -> float:
    """Return how the rating has changed since a place on the trail, where `i` was placed."""
    buffers, sections, trail = board.buffers, board.sections, board.trail
    m = sections.shape[1] - 2
    size, gapped = buffers[SIZE, i], board.counters[GAPPED] != 0
    top = board.counters[TRAILED]
    change = 0.0
    for k in range(mark, top):
        t = trail[0, k]
        if t >= m or sections[TALLY, t] == -1:
            continue
        # The first entry of a section holds its old floor.
        sections[TALLY, t] = -1
        old = trail[1, k]
        if buffers[FIRST, i] <= t < buffers[LAST, i] and (not gapped or covers(board, i, t)):
            old += size
        if sections[REST, t] == 0:
            change -= weight_of(board, t, old, shift, weights)
        elif old != sections[FLOOR, t]:
            change += weight_of(board, t, sections[FLOOR, t], shift, weights)
            change -= weight_of(board, t, old, shift, weights)
    for k in range(mark, top):
        if trail[0, k] < m:
            sections[TALLY, trail[0, k]] = 0
    return change


@inner
def state_code(board: Board) -> int:
    """Return a hash of the unplaced buffers and their floors."""
    buffers, sections = board.buffers, board.sections
    code = 0
    for i in range(buffers.shape[1]):
        if buffers[PLACED, i] == 0:
            code = ((code * 1000003) ^ i) & HASH_BITS
    for t in range(sections.shape[1] - 2):
        if sections[REST, t] > 0:
            code = ((code * 1000003) ^ sections[FLOOR, t]) & HASH_BITS
    return code


@inner
def skip_section(board: Board, t: int) -> bool:
    """Let nobody start at the floor of a section; False if that is impossible."""
    sections, n = board.sections, board.buffers.shape[1]
    floor = sections[FLOOR, t]
    if floor + sections[REST, t] >= sections[CAP, t]:
        return False
    return skip(board, t, floor_after_skip(board, t, floor, sections[ENTRY, 0], n))


@kernel
def expand(
    board: Board,
    states: IntArray,
    begin: int,
    end: int,
    rule: int,
    skips: int,
    shift: int,
    weights: FloatArray,
    children: IntArray,
    scores: FloatArray,
) -> int:
    """Rate the children of states `begin` to `end`.

    Parameters
    ----------
    board
        Work space.
    states
        One row each.
    rule
        How to choose the section that is filled next.
    skips
        Sections that may be skipped in a row.
    weights
        By slack shifted right by `shift` bits.
    children, scores
        Shape `(c, CHILD_COLUMNS)` and `(c,)`: filled.

    Returns
    -------
    int
        Number of children.
    """
    buffers, sections, counters = board.buffers, board.sections, board.counters
    n, m = buffers.shape[1], sections.shape[1] - 2
    # Read, not written as 0: for numba a literal is a type of its own, and calls for new code.
    zero = sections[ENTRY, 0]
    count = 0
    for parent in range(begin, end):
        load_state(board, states[parent])
        for skipped in range(skips + 1):
            t = choose_section(board, zero, m, zero, n, rule)
            if t < 0:
                break
            for s in range(m):
                sections[TALLY, s] = 0
            floor = sections[FLOOR, t]
            forced = must_start(board, t, floor)
            total = sum_weights(board, shift, weights)
            mark = counters[TRAILED]
            for k in range(board.sections[COVER, t], board.sections[COVER, t + 1]):
                i = board.cover[k]
                if buffers[PLACED, i] or buffers[LEAST, i] != floor or not may_start(board, i):
                    continue
                if (forced >= 0 and i != forced) or count == len(scores):
                    continue
                if place(board, i, floor, zero, n):
                    children[count, PARENT] = parent
                    children[count, BUFFER] = i
                    children[count, SKIPS] = skipped
                    children[count, CODE] = state_code(board)
                    children[count, LEVEL] = floor
                    scores[count] = total + change_of_weights(board, mark, i, shift, weights)
                    count += 1
                undo(board, mark, zero)
            if forced >= 0 or skipped == skips or not skip_section(board, t):
                break
    return count


@kernel
def advance(
    board: Board, states: IntArray, children: IntArray, rule: int, following: IntArray
) -> bool:
    """Store the chosen children of the states, one row each; False if nothing can be packed.

    A child with PARENT -1 is the empty board.
    """
    n, m = board.buffers.shape[1], board.sections.shape[1] - 2
    zero = board.sections[ENTRY, 0]
    for c in range(len(children)):
        if children[c, PARENT] < 0:
            if not start_board(board):
                return False
        else:
            load_state(board, states[children[c, PARENT]])
            for _ in range(children[c, SKIPS]):
                skip_section(board, choose_section(board, zero, m, zero, n, rule))
            place(board, children[c, BUFFER], children[c, LEVEL], zero, n)
        save_state(board, following[c])
    return True
