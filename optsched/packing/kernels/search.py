"""The search: branch on a section of a niche, split into independent parts, undo, go on.

Frames are kept in arrays, not on Python's stack. A part frame solves independent parts one after
another: success moves on to the next part without undoing, failure of any part fails them all. A
branch frame tries its children one after another, then the skip, which moves it to another section.
"""

from __future__ import annotations

from typing import NamedTuple

from optsched.model.arrays import IntArray
from optsched.packing.kernels.branch import (
    choose_section,
    floor_after_skip,
    must_start,
    next_child,
    skip,
    split_scope,
)
from optsched.packing.kernels.failures import Failures, is_refuted, remember_failure
from optsched.packing.kernels.moves import (
    place,
    start_board,
    undo,
)
from optsched.packing.kernels.state import (
    CAP,
    DEPTH,
    ENTRY,
    FLOOR,
    NODES,
    RANK,
    REFUTED,
    REST,
    SPLITS,
    STACKED,
    TRAILED,
    Board,
)
from optsched.runtime.kernel import kernel

EXHAUSTED, SOLVED, LIMIT = 0, 1, 2

# Columns of `Frames.rows`.
IS_SPLIT, NEXT_PART, END_PART, LOW, HIGH, PARTS = 0, 1, 2, 3, 4, 5
ENTERED, TRAIL, STACK, SECTION, LEVEL, LAST_RANK = 6, 7, 8, 9, 10, 11
FRAME_COLUMNS = 12

# Entries of `switches`.
DECOMPOSE, FORCED, REMEMBER = 0, 1, 2

ENTER, NEXT, SUCCEED, FAIL = 0, 1, 2, 3


class Frames(NamedTuple):
    """Room for the frames.

    Parameters
    ----------
    rows
        Shape `(depth, FRAME_COLUMNS)`.
    parts
        Shape `(2, 4 * n)`: section ranges of parts. Pending parts have different buffers, as
        have solved ones and those on the way to the current one: no more than `3 * n`.
    """

    rows: IntArray
    parts: IntArray


@kernel
def search(
    board: Board, frames: Frames, failures: Failures, switches: IntArray, rule: int, limit: int
) -> int:
    """Pack all buffers within their latest starts.

    Parameters
    ----------
    board
        With DEPTH 0 it is started anew; as a search that met its limit has left it, it goes on.
        Solved, its OFFSET row is the packing.
    frames
        Work space.
    failures
        States known to fail at this capacity or a larger one.
    switches
        Shape `(3,)`: which pruning rules are on.
    rule
        How to choose the section to branch on.
    limit
        Nodes since the start.

    Returns
    -------
    int
        SOLVED; EXHAUSTED: there is no such packing; LIMIT: not known.
    """
    sections, counters = board.sections, board.counters
    n, m = board.buffers.shape[1], sections.shape[1] - 2
    rows, parts = frames.rows, frames.parts
    entry = sections[ENTRY]
    trail_room = board.trail.shape[1] - 4 * (n + m) - 16
    depth = -1
    low, high = 0, m
    part_top = 0
    step = ENTER
    if counters[DEPTH] == 0:
        if not start_board(board):
            return EXHAUSTED
    else:
        depth = counters[DEPTH] - 1
        part_top = rows[depth, PARTS]
        step = NEXT
    while True:
        if step == ENTER:
            begin, end = entry[low], entry[high]
            count = split_scope(board, begin, end, parts, part_top, switches[DECOMPOSE] == 0)
            if count == 0:
                step = SUCCEED
                continue
            low, high = parts[0, part_top], parts[1, part_top]
            depth += 1
            if count > 1:
                counters[SPLITS] += 1
                rows[depth, IS_SPLIT] = 1
                rows[depth, NEXT_PART] = part_top + 1
                part_top += count
                rows[depth, END_PART] = part_top
                depth += 1
            begin, end = entry[low], entry[high]
            rows[depth, IS_SPLIT] = 0
            rows[depth, LOW] = low
            rows[depth, HIGH] = high
            rows[depth, PARTS] = part_top
            rows[depth, ENTERED] = counters[TRAILED]
            rows[depth, TRAIL] = counters[TRAILED]
            rows[depth, STACK] = counters[STACKED]
            if switches[REMEMBER] and is_refuted(board, failures, low, high, begin, end):
                counters[REFUTED] += 1
                counters[NODES] += 1
                depth -= 1
                step = FAIL
                continue
            section = choose_section(board, low, high, begin, end, rule)
            if section < 0:
                counters[NODES] += 1
                depth -= 1
                step = FAIL
                continue
            rows[depth, SECTION] = section
            rows[depth, LEVEL] = sections[FLOOR, section]
            rows[depth, LAST_RANK] = -1
            step = NEXT
        elif step == NEXT:
            low, high = rows[depth, LOW], rows[depth, HIGH]
            begin, end = entry[low], entry[high]
            section, level = rows[depth, SECTION], rows[depth, LEVEL]
            rank = rows[depth, LAST_RANK]
            forced = must_start(board, section, level) if switches[FORCED] else -1
            child = -1
            if forced < 0:
                child = next_child(board, section, level, rank)
            elif rank < 0:
                child = forced
            if counters[NODES] >= limit or counters[TRAILED] > trail_room:
                counters[DEPTH] = depth + 1
                return LIMIT
            counters[NODES] += 1
            if child >= 0:
                rows[depth, LAST_RANK] = board.buffers[RANK, child]
                if place(board, child, level, begin, end):
                    step = ENTER
                else:
                    undo(board, rows[depth, TRAIL], rows[depth, STACK])
                continue
            moved = False
            if forced < 0 and level + sections[REST, section] < sections[CAP, section]:
                floor = floor_after_skip(board, section, level, begin, end)
                moved = skip(board, section, floor)
            if moved:
                # The frame goes on with another section; its children undo to here.
                rows[depth, TRAIL] = counters[TRAILED]
                section = choose_section(board, low, high, begin, end, rule)
                if section >= 0:
                    rows[depth, SECTION] = section
                    rows[depth, LEVEL] = sections[FLOOR, section]
                    rows[depth, LAST_RANK] = -1
                    continue
            if switches[REMEMBER]:
                undo(board, rows[depth, ENTERED], rows[depth, STACK])
                remember_failure(board, failures, low, high, begin, end)
            depth -= 1
            step = FAIL
        elif step == SUCCEED:
            while depth >= 0 and not (
                rows[depth, IS_SPLIT] and rows[depth, NEXT_PART] < rows[depth, END_PART]
            ):
                depth -= 1
            if depth < 0:
                return SOLVED
            part = rows[depth, NEXT_PART]
            rows[depth, NEXT_PART] = part + 1
            part_top = rows[depth, END_PART]
            low, high = parts[0, part], parts[1, part]
            step = ENTER
        else:
            while depth >= 0 and rows[depth, IS_SPLIT]:
                depth -= 1
            if depth < 0:
                return EXHAUSTED
            undo(board, rows[depth, TRAIL], rows[depth, STACK])
            part_top = rows[depth, PARTS]
            step = NEXT
