"""What the search decides where buffers have windows; see :mod:`window_moves` for the states."""

from __future__ import annotations

from types import FunctionType
from typing import cast

from optsched.packing.kernels import failures as table
from optsched.packing.kernels import search as plain
from optsched.packing.kernels.branch import DEAD, NO_SECTION, may_start, score_section
from optsched.packing.kernels.failures import Failures
from optsched.packing.kernels.moves import enqueue, note
from optsched.packing.kernels.partial_moves import (
    SPAN,
    has_one_place,
    lift,
    place,
    raise_least,
    settle,
    start_board,
    undo,
)
from optsched.packing.kernels.state import (
    CAP,
    COVER,
    FAR,
    FIRST,
    FLOOR,
    LAST,
    LATEST,
    LEAST,
    NEVER,
    OFFSET,
    PLACED,
    RANK,
    REST,
    WATCHES,
    WEIGHT,
    Board,
)
from optsched.runtime.kernel import inner, kernel

FLAT = WATCHES
"""Row of `Board.buffers`: whether it would lie on the floor of all its sections."""


@inner
def starts_at(board: Board, i: int, t: int, level: int) -> bool:
    """Whether an unplaced buffer's window could begin at `level` of a section."""
    buffers = board.buffers
    low = board.zones[0, buffers[SPAN, i] + t]
    return bool(buffers[PLACED, i] == 0 and buffers[LEAST, i] + low == level)


@inner
def must_start(board: Board, t: int, level: int) -> int:
    """Return a buffer of the section that has to start at the level, or -1."""
    buffers = board.buffers
    for k in range(board.sections[COVER, t], board.sections[COVER, t + 1]):
        i = board.cover[k]
        if starts_at(board, i, t, level) and buffers[LATEST, i] == buffers[LEAST, i]:
            return int(i)
    return -1


@inner
def next_child(board: Board, t: int, level: int, rank: int) -> int:
    """Return the buffer of least rank above `rank` that may start at the level, or -1."""
    best = NEVER
    child = -1
    for k in range(board.sections[COVER, t], board.sections[COVER, t + 1]):
        i = board.cover[k]
        if not starts_at(board, i, t, level) or not may_start(board, i):
            continue
        if rank < board.buffers[RANK, i] < best:
            best = board.buffers[RANK, i]
            child = i
    return child


@inner
def choose_section(board: Board, low: int, high: int, begin: int, end: int, rule: int) -> int:
    """Return the section to branch on.

    One whose children all lie flat leaves no holes; where there is none, the lowest floor is next.
    """
    buffers, sections, windows = board.buffers, board.sections, board.zones
    for i in range(begin, end):
        flat = 1
        for t in range(buffers[FIRST, i], buffers[LAST, i]):
            at = buffers[SPAN, i] + t
            bottom = buffers[LEAST, i] + windows[0, at]
            if windows[0, at] < windows[1, at] and bottom != sections[FLOOR, t]:
                flat = 0
        buffers[FLAT, i] = flat
    best = NEVER * 4
    chosen = NO_SECTION
    for t in range(low, high):
        if sections[REST, t] == 0:
            continue
        slack = sections[CAP, t] - sections[FLOOR, t] - sections[REST, t]
        branches = 1 if slack > 0 else 0
        flat = 1
        for k in range(sections[COVER, t], sections[COVER, t + 1]):
            i = board.cover[k]
            if starts_at(board, i, t, sections[FLOOR, t]) and may_start(board, i):
                branches += 1
                flat &= buffers[FLAT, i]
        if branches == 0:
            return DEAD
        score = score_section(board, t, branches, slack, rule)
        if flat == 0:
            score = NEVER + sections[FLOOR, t]
        if score < best:
            best = score
            chosen = t
    return chosen


@inner
def next_support(board: Board, i: int, t: int) -> int:
    """Return an offset above a buffer's least start that it can not rest below.

    It is the lowest of section `t` and does not lie at its least start. Pushed down it rests on a
    window: of a placed buffer, whose top is known; or of an unplaced one, which lies at its least
    start or above. One that is there in `t` as well lies above it there: no support unless the
    windows of the two sections let it be below in the other.
    """
    buffers, windows, sections = board.buffers, board.zones, board.sections
    least, span = buffers[LEAST, i], buffers[SPAN, i]
    best = NEVER
    for s in range(buffers[FIRST, i], buffers[LAST, i]):
        low = windows[0, span + s]
        if low == windows[1, span + s]:
            continue
        for k in range(sections[COVER, s], sections[COVER, s + 1]):
            j = board.cover[k]
            at = buffers[SPAN, j]
            if buffers[PLACED, j]:
                start = buffers[OFFSET, j] + windows[1, at + s] - low
                if least < start < best:
                    best = start
                continue
            if j == i:
                continue
            there = buffers[FIRST, j] <= t < buffers[LAST, j]
            there = there and windows[0, at + t] < windows[1, at + t]
            if there and windows[1, at + s] + windows[1, span + t] > low + windows[0, at + t]:
                continue
            start = buffers[LEAST, j] + windows[1, at + s] - low
            start = start if start > least else least + 1
            best = start if start < best else best
    return best


@inner
def floor_after_skip(board: Board, t: int, level: int, begin: int, end: int) -> int:
    """Return the least level in a section in which no window begins at `level`.

    Of the buffers there one is the lowest: it begins above anyway, or it has to rest on something
    above its least start. Not FAR: on the next offset.
    """
    buffers, windows = board.buffers, board.zones
    floor = NEVER
    for k in range(board.sections[COVER, t], board.sections[COVER, t + 1]):
        i = board.cover[k]
        if buffers[PLACED, i]:
            continue
        start = buffers[LEAST, i]
        if starts_at(board, i, t, level):
            start = next_support(board, i, t) if board.counters[FAR] != 0 else start + 1
            start = lift(board, i, start)
        bottom = start + windows[0, buffers[SPAN, i] + t]
        floor = bottom if bottom < floor else floor
    return floor


@inner
def skip(board: Board, t: int, floor: int) -> bool:
    """Raise the floor of a section; False if nothing can follow."""
    buffers, sections, windows = board.buffers, board.sections, board.zones
    if floor + sections[REST, t] > sections[CAP, t]:
        sections[WEIGHT, t] += 1
        return False
    note(board, t, sections[FLOOR, t])
    sections[FLOOR, t] = floor
    for k in range(sections[COVER, t], sections[COVER, t + 1]):
        i = board.cover[k]
        low = buffers[LEAST, i] + windows[0, buffers[SPAN, i] + t]
        if buffers[PLACED, i] == 0 and low < floor and not raise_least(board, i, buffers[LEAST, i]):
            return False
    enqueue(board, t)
    return settle(board)


@inner
def remember_failure(
    board: Board, failures: Failures, low: int, high: int, begin: int, end: int
) -> None:
    """Store a scope that was exhausted, if it had no obstacles above its floors.

    Then the room above floors nowhere lower, less obstacles, is part of the room that did not do.
    Obstacles with one place only do not count: they are there in every state.
    """
    buffers, sections, windows = board.buffers, board.sections, board.zones
    for t in range(low, high):
        if sections[REST, t] == 0:
            continue
        for k in range(sections[COVER, t], sections[COVER, t + 1]):
            j = board.cover[k]
            above = buffers[OFFSET, j] + windows[1, buffers[SPAN, j] + t] > sections[FLOOR, t]
            if buffers[PLACED, j] and above and not has_one_place(board, j):
                return
    remember(board, failures, low, high, begin, end)


remember = table.remember_failure


def _with_these_moves() -> FunctionType:
    """Return the code of the search, which calls the moves for windows by the same names."""
    loop = cast(FunctionType, plain.search.function)
    moves = {
        "start_board": start_board,
        "choose_section": choose_section,
        "must_start": must_start,
        "next_child": next_child,
        "place": place,
        "undo": undo,
        "floor_after_skip": floor_after_skip,
        "skip": skip,
        "remember_failure": remember_failure,
    }
    return FunctionType(loop.__code__, {**loop.__globals__, **moves}, loop.__name__)


search_windows = kernel(_with_these_moves())
"""As :func:`optsched.packing.kernels.search.search`, on a board with windows."""
