"""States of a beam, a row each: place a buffer, skip a section, rate.

A row is copied for each child: as most states have one or two, that is less work than taking
moves back.

::

    floors | rests | supporters | least starts | hash | unplaced buffers
      m        m         m             n           1        up to n
"""

from __future__ import annotations

from optsched.model.arrays import IntArray
from optsched.packing.kernels.beam_heap import SHIFT, Beam
from optsched.packing.kernels.branch import floor_after_skip
from optsched.packing.kernels.failures import HASH_BITS
from optsched.packing.kernels.moves import start_board
from optsched.packing.kernels.state import (
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
    PLACED,
    PLAIN,
    REST,
    SIZE,
    WATCHED,
    Board,
    admissible,
    covers,
    share_section,
)
from optsched.runtime.kernel import inner, kernel

OVERFLOW = -1.0
"""Rating of a state that nothing can follow."""


@kernel
def start_state(board: Board, state: IntArray) -> bool:
    """Store the empty board as a state; False if nothing can follow.

    Per section its floor, its rest and a buffer that supports the floor; per buffer its least
    start, NEVER once placed; a hash of what is placed; the unplaced buffers.
    """
    n, m = board.buffers.shape[1], board.sections.shape[1] - 2
    if not start_board(board):
        return False
    for t in range(m):
        state[t] = board.sections[FLOOR, t]
        state[m + t] = board.sections[REST, t]
        state[2 * m + t] = board.sections[WATCHED, t]
    for i in range(n):
        state[3 * m + i] = board.buffers[LEAST, i]
        state[3 * m + n + 1 + i] = i
    state[3 * m + n] = 0
    return True


@inner
def show_state(board: Board, state: IntArray) -> None:
    """Set the rows of the board that choices are made by."""
    buffers, sections = board.buffers, board.sections
    n, m = buffers.shape[1], sections.shape[1] - 2
    for t in range(m):
        sections[FLOOR, t] = state[t]
        sections[REST, t] = state[m + t]
    for i in range(n):
        buffers[LEAST, i] = state[3 * m + i]
        buffers[PLACED, i] = state[3 * m + i] == NEVER


@inner
def settle_state(board: Board, beam: Beam, state: IntArray) -> tuple[float, int]:
    """Raise floors to the least start in their section; return the rating and the code.

    A floor may be too low, never too high.
    """
    n, m = board.buffers.shape[1], board.sections.shape[1] - 2
    caps, starts = board.sections[CAP], board.sections[COVER]
    shift = beam.knobs[SHIFT]
    rating = 0.0
    code = state[3 * m + n]
    for t in range(m):
        rest = state[m + t]
        if rest == 0:
            continue
        floor = state[t]
        if state[3 * m + state[2 * m + t]] != floor:
            least = NEVER
            for k in range(starts[t], starts[t + 1]):
                start = state[3 * m + board.cover[k]]
                if start < least:
                    least = start
                    state[2 * m + t] = board.cover[k]
                    if least <= floor:
                        break
            floor = least
            state[t] = floor
        slack = caps[t] - floor - rest
        if slack < 0:
            return OVERFLOW, 0
        rating += beam.weights[slack >> shift]
        code = (code + beam.factors[n + t] * floor) & HASH_BITS
    return rating, code


@inner
def place_in_state(
    board: Board, beam: Beam, state: IntArray, unplaced: int, i: int, offset: int
) -> tuple[float, int]:
    """Put a buffer where all floors of its sections are at `offset`; return rating and code.

    The state's list of `unplaced` buffers is already without it.
    """
    buffers = board.buffers
    n, m = buffers.shape[1], board.sections.shape[1] - 2
    firsts, lasts = buffers[FIRST], buffers[LAST]
    first, last, size = firsts[i], lasts[i], buffers[SIZE, i]
    gapped, plain = board.counters[GAPPED] != 0, board.counters[PLAIN] != 0
    top = offset + size
    state[3 * m + i] = NEVER
    state[3 * m + n] = (state[3 * m + n] + beam.factors[i]) & HASH_BITS
    for t in range(first, last):
        if gapped and not covers(board, i, t):
            continue
        state[m + t] -= size
        # A finished section is a wall: no unplaced buffer reaches across it.
        state[t] = top if state[m + t] > 0 else NEVER
        state[2 * m + t] = i
    ahead = first
    ids = 3 * m + n + 1
    for k in range(ids, ids + unplaced):
        j = state[k]
        if firsts[j] >= last:
            break
        if lasts[j] <= first or (gapped and not share_section(board, i, j)):
            continue
        least = state[3 * m + j]
        if least < top:
            least = top if plain else admissible(board, j, top)
            if least > buffers[LATEST, j]:
                return OVERFLOW, 0
            state[3 * m + j] = least
        if least == top and not gapped and lasts[j] > ahead:
            # What this one covers has a supporter.
            ahead = firsts[j] if firsts[j] > ahead else ahead
            until = lasts[j] if lasts[j] < last else last
            while ahead < until:
                state[2 * m + ahead] = j
                ahead += 1
    return settle_state(board, beam, state)


@inner
def skip_in_state(board: Board, beam: Beam, state: IntArray, t: int) -> float:
    """Let nobody start at the floor of a section of the board's state; return the rating."""
    sections, n = board.sections, board.buffers.shape[1]
    m = sections.shape[1] - 2
    floor, rest, cap = state[t], state[m + t], sections[CAP, t]
    if floor + rest >= cap:
        return OVERFLOW
    floor = floor_after_skip(board, t, floor, sections[ENTRY, 0], n)
    if floor + rest > cap:
        return OVERFLOW
    state[t] = floor
    for k in range(sections[COVER, t], sections[COVER, t + 1]):
        j = board.cover[k]
        if state[3 * m + j] < floor:
            state[3 * m + j] = admissible(board, j, floor)
            if state[3 * m + j] > board.buffers[LATEST, j]:
                return OVERFLOW
    rating, _ = settle_state(board, beam, state)
    return rating
