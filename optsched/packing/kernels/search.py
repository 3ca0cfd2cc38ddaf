"""Branch and bound: branch on a section, split into components, undo, go on.

Frames are kept in arrays, not on Python's stack. A split frame solves the components of the
unplaced buffers one after another: success moves on to the next one without undoing, failure of
any fails them all. A branch frame tries its children one after another, then the skip, which moves
it to another section.

One loop serves two kinds of problems. With `occupied` None each buffer is there as a whole or not
at all (:mod:`optsched.packing.kernels.moves`, :mod:`optsched.packing.kernels.branch`); with an
array, parts of them may be (:mod:`optsched.packing.kernels.partial_moves`). Numba compiles a
branch on `occupied is None` for the kind that it is called with, and leaves the other one out.
"""

from __future__ import annotations

from typing import NamedTuple

from optsched.model.arrays import IntArray
from optsched.packing.kernels.branch import (
    choose_section,
    floor_after_skip,
    next_child,
    skip,
    split_components,
)
from optsched.packing.kernels.failures import Failures, is_refuted, remember_failure
from optsched.packing.kernels.moves import place, reset, settle, undo
from optsched.packing.kernels.partial_branch import (
    choose_partial,
    has_obstacles,
    partial_floor_after_skip,
    skip_partial,
)
from optsched.packing.kernels.partial_moves import place_fixed, place_partial
from optsched.packing.kernels.state import B, C, PackingState, S
from optsched.runtime.kernel import inner, kernel

EXHAUSTED, SOLVED, LIMIT = 0, 1, 2

# Columns of `Frames.rows`.
IS_SPLIT, NEXT_RANGE, END_RANGE, LOW, HIGH, TOP_RANGE = 0, 1, 2, 3, 4, 5
ENTERED, TRAIL, STACK, SECTION, LEVEL, LAST_RANK = 6, 7, 8, 9, 10, 11
FRAME_COLUMNS = 12

# Entries of `switches`.
DECOMPOSE, REMEMBER = 0, 1

ENTER, NEXT, SUCCEED, FAIL = 0, 1, 2, 3


class Frames(NamedTuple):
    """Room for the frames.

    Parameters
    ----------
    rows
        Shape `(depth, FRAME_COLUMNS)`.
    ranges
        Shape `(2, 8 * n)`: section ranges of components. Pending components have different
        buffers, as have solved ones and those on the way to the current one: at most `3 * n`.
    """

    rows: IntArray
    ranges: IntArray


@inner
def choose(
    state: PackingState,
    occupied: IntArray | None,
    rows: IntArray,
    depth: int,
    rule: int,
) -> bool:
    """Write the section to branch on to a branch frame; False if its scope is dead."""
    low, high = rows[depth, LOW], rows[depth, HIGH]
    begin, end = state.sections[S.entry, low], state.sections[S.entry, high]
    if occupied is None:
        section = choose_section(state, low, high, begin, end, rule)
    else:
        section = choose_partial(state, occupied, low, high, begin, end, rule)
    rows[depth, SECTION] = section
    rows[depth, LEVEL] = state.sections[S.floor, section] if section >= 0 else 0
    rows[depth, LAST_RANK] = -1
    return bool(section >= 0)


@inner
def try_skip(
    state: PackingState, occupied: IntArray | None, section: int, level: int, begin: int, end: int
) -> bool:
    """Raise the floor of a section to the next start possible there; False if nothing follows."""
    if level + state.sections[S.remaining, section] >= state.sections[S.cap, section]:
        return False
    if occupied is None:
        floor = floor_after_skip(state, section, level, begin, end)
        return bool(skip(state, section, floor))
    floor = partial_floor_after_skip(state, occupied, section, level)
    return bool(skip_partial(state, occupied, section, floor))


@kernel
def search(
    state: PackingState,
    occupied: IntArray | None,
    frames: Frames,
    failures: Failures,
    switches: IntArray,
    rule: int,
    limit: int,
) -> int:
    """Pack all buffers, each at its maximum offset or below.

    Parameters
    ----------
    state
        With `depth` 0 it is started anew; as a search that met its limit has left it, it goes on.
        Solved, its OFFSET row is the packing.
    occupied
        Which bytes of each buffer are there in each of its sections; None if always all.
    frames
        Work space.
    failures
        States known to fail at this capacity or a larger one.
    switches
        Shape `(2,)`: which pruning rules are on.
    rule
        How to choose the section to branch on.
    limit
        Nodes since the start.

    Returns
    -------
    int
        SOLVED; EXHAUSTED: there is no such packing; LIMIT: not known.
    """
    sections, counters = state.sections, state.counters
    n, m = state.buffers.shape[1], sections.shape[1] - 2
    rows, ranges = frames.rows, frames.ranges
    entry = sections[S.entry]
    trail_room = state.trail.shape[1] - 4 * (n + m) - 16
    depth = -1
    low, high = 0, m
    top = 0
    step = ENTER
    if counters[C.depth] == 0:
        ready = reset(state, occupied)
        if ready and occupied is None:
            ready = settle(state)
        if ready and occupied is not None:
            ready = place_fixed(state, occupied)
        if not ready:
            return EXHAUSTED
    else:
        depth = counters[C.depth] - 1
        top = rows[depth, TOP_RANGE]
        step = NEXT
    while True:
        if step == ENTER:
            whole = switches[DECOMPOSE] == 0
            count = split_components(state, entry[low], entry[high], ranges, top, whole)
            if count == 0:
                step = SUCCEED
                continue
            low, high = ranges[0, top], ranges[1, top]
            depth += 1
            if count > 1:
                counters[C.splits] += 1
                rows[depth, IS_SPLIT] = 1
                rows[depth, NEXT_RANGE] = top + 1
                top += count
                rows[depth, END_RANGE] = top
                depth += 1
            rows[depth, IS_SPLIT] = 0
            rows[depth, LOW] = low
            rows[depth, HIGH] = high
            rows[depth, TOP_RANGE] = top
            rows[depth, ENTERED] = counters[C.trailed]
            rows[depth, TRAIL] = counters[C.trailed]
            rows[depth, STACK] = counters[C.stacked]
            dead = False
            if switches[REMEMBER]:
                dead = is_refuted(state, failures, low, high, entry[low], entry[high])
                counters[C.refuted] += dead
            if not dead:
                dead = not choose(state, occupied, rows, depth, rule)
            step = NEXT
            if dead:
                counters[C.nodes] += 1
                depth -= 1
                step = FAIL
        elif step == NEXT:
            low, high = rows[depth, LOW], rows[depth, HIGH]
            begin, end = entry[low], entry[high]
            section, level = rows[depth, SECTION], rows[depth, LEVEL]
            child = next_child(state, occupied, section, level, rows[depth, LAST_RANK])
            if counters[C.nodes] >= limit or counters[C.trailed] > trail_room:
                counters[C.depth] = depth + 1
                return LIMIT
            counters[C.nodes] += 1
            if child >= 0:
                rows[depth, LAST_RANK] = state.buffers[B.rank, child]
                if occupied is None:
                    fits = place(state, child, level, begin, end)
                else:
                    fits = place_partial(state, occupied, child)
                if fits:
                    step = ENTER
                else:
                    undo(state, occupied, rows[depth, TRAIL], rows[depth, STACK])
                continue
            if try_skip(state, occupied, section, level, begin, end):
                # The frame goes on with another section; its children undo to here.
                rows[depth, TRAIL] = counters[C.trailed]
                if choose(state, occupied, rows, depth, rule):
                    continue
            if switches[REMEMBER]:
                undo(state, occupied, rows[depth, ENTERED], rows[depth, STACK])
                known = True
                if occupied is not None:
                    known = not has_obstacles(state, occupied, low, high)
                if known:
                    remember_failure(state, failures, low, high, begin, end)
            depth -= 1
            step = FAIL
        elif step == SUCCEED:
            while depth >= 0 and not (
                rows[depth, IS_SPLIT] and rows[depth, NEXT_RANGE] < rows[depth, END_RANGE]
            ):
                depth -= 1
            if depth < 0:
                return SOLVED
            following = rows[depth, NEXT_RANGE]
            rows[depth, NEXT_RANGE] = following + 1
            top = rows[depth, END_RANGE]
            low, high = ranges[0, following], ranges[1, following]
            step = ENTER
        else:
            while depth >= 0 and rows[depth, IS_SPLIT]:
                depth -= 1
            if depth < 0:
                return EXHAUSTED
            undo(state, occupied, rows[depth, TRAIL], rows[depth, STACK])
            top = rows[depth, TOP_RANGE]
            step = NEXT
