"""Branching rules of the search with partial occupancy.

The states are those of :mod:`optsched.packing.kernels.partial_moves`.

Example: a buffer occupies bytes 0 to 8 in section 0, and only bytes 4 to 8 in section 1. At offset
0 it lies flat on the floors 0 and 4, and leaves no hole in either section.
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
"""Row of `PackingState.buffers`: 1 if the buffer would lie on the floor of all its sections."""


@inner
def choose_partial(state: PackingState, occupied: IntArray, rule: int) -> int:
    """Return the section to branch on, or DEAD if a section cannot be filled or skipped.

    Sketch: mark each buffer that would lie flat on the floors of all its sections. Count the
    branches of each section: the buffers that can start on its floor, and the skip if there is
    slack. Return the section of lowest score among those whose children all lie flat, because these
    leave no holes. Without such a section, return the one with the lowest floor.
    """
    buffers, sections = state.buffers, state.sections
    for i in range(buffers.shape[1]):
        flat = 1
        for t in range(buffers[B.first, i], buffers[B.last, i]):
            at = buffers[B.parts, i] + t
            bottom = buffers[B.min_offset, i] + occupied[0, at]
            # A section in which the buffer has no occupied byte cannot leave a hole under it.
            if occupied[0, at] < occupied[1, at] and bottom != sections[S.floor, t]:
                flat = 0
        buffers[FLAT, i] = flat
    best = NEVER * 4
    chosen = NO_SECTION
    for t in range(sections.shape[1] - 2):
        # Nothing is left to place in this section.
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
        # No child and no slack: the section cannot be filled.
        if branches == 0:
            return DEAD
        score = score_section(state, t, branches, slack, rule)
        if flat == 0:
            # Every section with flat children comes before all others.
            score = NEVER + sections[S.floor, t]
        if score < best:
            best = score
            chosen = t
    return chosen


@inner
def next_support(state: PackingState, occupied: IntArray, i: int, t: int) -> int:
    """Return an offset above the minimum offset of a buffer, below which the buffer cannot rest.

    The buffer is the lowest one of section `t` and does not lie at its minimum offset. In a packing
    pushed down it rests on a part of another buffer. If that buffer is placed, the top of its part
    is known. If it is unplaced, it lies at its minimum offset or above. If it is also occupied in
    `t`, it lies above the given buffer there. It can then support the given buffer in another
    section only if the bounds of their parts in the two sections allow the opposite order there.
    """
    buffers, sections = state.buffers, state.sections
    lowest, span = buffers[B.min_offset, i], buffers[B.parts, i]
    best = NEVER
    for s in range(buffers[B.first, i], buffers[B.last, i]):
        low = occupied[0, span + s]
        # Not occupied here, so that it cannot rest here.
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
            # In `t` the other buffer lies above this one; the same must not be forced the other
            # way around.
            if there and occupied[1, at + s] + occupied[1, span + t] > low + occupied[0, at + t]:
                continue
            start = buffers[B.min_offset, j] + occupied[1, at + s] - low
            # The unplaced supporter may still rise, so the offset is only known to be larger.
            start = start if start > lowest else lowest + 1
            best = start if start < best else best
    return best


@inner
def partial_floor_after_skip(state: PackingState, occupied: IntArray, t: int, level: int) -> int:
    """Return the lowest floor of a section if no part begins at `level`.

    One of the buffers there is the lowest. Either its minimum start is higher than `level`, or it
    must rest on a part above its minimum offset. If the rule `far_skip` is off, that is the next
    offset.
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
    """Raise the floor of a section; return False if the state is infeasible."""
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
    """Return True if a placed buffer lies above the floor of an unfinished section.

    Only an exhausted state without obstacles may be remembered. The room above floors that are
    nowhere lower, minus any obstacles, is then part of the room that was not enough. Buffers with a
    single admissible offset are not counted as obstacles, since they are placed in every state.
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
