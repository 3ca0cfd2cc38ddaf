"""What the search decides where a buffer may be there in part; the states are those of
:mod:`optsched.packing.kernels.partial_moves`.
"""

from __future__ import annotations

from optsched.model.arrays import IntArray
from optsched.packing.kernels.branch import DEAD, NO_SECTION, may_start, score_section
from optsched.packing.kernels.moves import enqueue, note
from optsched.packing.kernels.partial_moves import (
    has_one_place,
    lift,
    raise_partial,
    settle_partial,
)
from optsched.packing.kernels.state import NEVER, B, C, PackingState, S, bottom_in
from optsched.runtime.kernel import inner

FLAT = B.supports
"""Row of `PackingState.buffers`: whether it would lie on the floor of all its sections."""


@inner
def choose_partial(state: PackingState, occupied: IntArray, rule: int) -> int:
    """Return the section to branch on.

    One whose children all lie flat leaves no holes; where there is none, the lowest floor is next.
    """
    buffers, sections = state.buffers, state.sections
    for i in range(buffers.shape[1]):
        flat = 1
        for t in range(buffers[B.first, i], buffers[B.last, i]):
            at = buffers[B.parts, i] + t
            bottom = buffers[B.min_offset, i] + occupied[0, at]
            if occupied[0, at] < occupied[1, at] and bottom != sections[S.floor, t]:
                flat = 0
        buffers[FLAT, i] = flat
    best = NEVER * 4
    chosen = NO_SECTION
    for t in range(sections.shape[1] - 2):
        if sections[S.remaining, t] == 0:
            continue
        slack = sections[S.cap, t] - sections[S.floor, t] - sections[S.remaining, t]
        branches = 1 if slack > 0 else 0
        flat = 1
        for k in range(sections[S.cover, t], sections[S.cover, t + 1]):
            i = state.cover[k]
            if buffers[B.placed, i] or bottom_in(state, occupied, i, t) != sections[S.floor, t]:
                continue
            if may_start(state, i):
                branches += 1
                flat &= buffers[FLAT, i]
        if branches == 0:
            return DEAD
        score = score_section(state, t, branches, slack, rule)
        if flat == 0:
            score = NEVER + sections[S.floor, t]
        if score < best:
            best = score
            chosen = t
    return chosen


@inner
def next_support(state: PackingState, occupied: IntArray, i: int, t: int) -> int:
    """Return an offset above a buffer's minimum below which it can not rest.

    It is the lowest of section `t` and does not lie at its minimum offset. Pushed down it rests on
    a part: of a placed buffer, whose top is known; or of an unplaced one, which lies at its minimum
    offset or above. One that is there in `t` as well lies above it there: no support unless the
    parts in the two sections let it be below in the other.
    """
    buffers, sections = state.buffers, state.sections
    lowest, span = buffers[B.min_offset, i], buffers[B.parts, i]
    best = NEVER
    for s in range(buffers[B.first, i], buffers[B.last, i]):
        low = occupied[0, span + s]
        if low == occupied[1, span + s]:
            continue
        for k in range(sections[S.cover, s], sections[S.cover, s + 1]):
            j = state.cover[k]
            at = buffers[B.parts, j]
            if buffers[B.placed, j]:
                start = buffers[B.offset, j] + occupied[1, at + s] - low
                if lowest < start < best:
                    best = start
                continue
            if j == i:
                continue
            there = buffers[B.first, j] <= t < buffers[B.last, j]
            there = there and occupied[0, at + t] < occupied[1, at + t]
            if there and occupied[1, at + s] + occupied[1, span + t] > low + occupied[0, at + t]:
                continue
            start = buffers[B.min_offset, j] + occupied[1, at + s] - low
            start = start if start > lowest else lowest + 1
            best = start if start < best else best
    return best


@inner
def partial_floor_after_skip(state: PackingState, occupied: IntArray, t: int, level: int) -> int:
    """Return the lowest floor of a section in which no part begins at `level`.

    Of the buffers there one is the lowest: it begins above anyway, or it has to rest on something
    above its minimum offset. Not `far`: on the next offset.
    """
    buffers = state.buffers
    floor = NEVER
    for k in range(state.sections[S.cover, t], state.sections[S.cover, t + 1]):
        i = state.cover[k]
        if buffers[B.placed, i]:
            continue
        start = buffers[B.min_offset, i]
        if bottom_in(state, occupied, i, t) == level:
            start = next_support(state, occupied, i, t) if state.counters[C.far] != 0 else start + 1
            start = lift(state, occupied, i, start)
        bottom = start + occupied[0, buffers[B.parts, i] + t]
        floor = bottom if bottom < floor else floor
    return floor


@inner
def skip_partial(state: PackingState, occupied: IntArray, t: int, floor: int) -> bool:
    """Raise the floor of a section; False if nothing can follow."""
    buffers, sections = state.buffers, state.sections
    if floor + sections[S.remaining, t] > sections[S.cap, t]:
        sections[S.weight, t] += 1
        return False
    note(state, t, sections[S.floor, t])
    sections[S.floor, t] = floor
    for k in range(sections[S.cover, t], sections[S.cover, t + 1]):
        i = state.cover[k]
        if buffers[B.placed, i] or bottom_in(state, occupied, i, t) >= floor:
            continue
        if not raise_partial(state, occupied, i, buffers[B.min_offset, i]):
            return False
    enqueue(state, t)
    return settle_partial(state, occupied)


@inner
def has_obstacles(state: PackingState, occupied: IntArray) -> bool:
    """Whether placed buffers lie above the floors of unfinished sections.

    A state that was exhausted without any may be remembered: the room above floors nowhere lower,
    less obstacles, is part of the room that did not do. Obstacles with one admissible offset do
    not count: they are there in every state.
    """
    buffers, sections = state.buffers, state.sections
    for t in range(sections.shape[1] - 2):
        if sections[S.remaining, t] == 0:
            continue
        for k in range(sections[S.cover, t], sections[S.cover, t + 1]):
            j = state.cover[k]
            above = (
                buffers[B.offset, j] + occupied[1, buffers[B.parts, j] + t] > sections[S.floor, t]
            )
            if buffers[B.placed, j] and above and not has_one_place(state, j):
                return True
    return False
