"""Moves on the packing state: place a buffer, raise minimum offsets and floors, undo.

These moves apply to buffers that are always either fully occupied or absent. With partial
occupancy, :mod:`optsched.packing.kernels.partial_moves` replaces some of them. Functions shared by
both kinds take `occupied`, which is None for the first kind. Numba compiles each kind separately
and leaves out the branches of the other kind.

Example: two sections with floors 0 and 0; buffers `a` (3 bytes) and `b` (2 bytes) cover both.
Placing `a` at 0 raises the minimum offset of `b` and both floors to 3. The trail keeps the old
values 0, and :func:`undo` writes them back, newest first.
"""

from __future__ import annotations

from optsched.model.arrays import IntArray
from optsched.packing.kernels.state import (
    NEVER,
    B,
    C,
    PackingState,
    S,
    admissible,
    covers,
    share_section,
    size_in,
)
from optsched.runtime.kernel import inner


@inner
def set_supporter(state: PackingState, t: int, j: int) -> None:
    """Make buffer `j` (-1 for none) the supporter of the floor of section `t`."""
    supporter = state.sections[S.supporter]
    after, before = state.sections[S.after], state.sections[S.before]
    heads = state.buffers[B.supports]
    # Out of the list of the old supporter.
    old = supporter[t]
    if old >= 0:
        if before[t] >= 0:
            after[before[t]] = after[t]
        else:
            heads[old] = after[t]
        if after[t] >= 0:
            before[after[t]] = before[t]
    # To the front of the list of the new supporter.
    supporter[t] = j
    if j >= 0:
        head = heads[j]
        after[t] = head
        before[t] = -1
        if head >= 0:
            before[head] = t
        heads[j] = t


@inner
def note(state: PackingState, what: int, value: int) -> None:
    """Push an old value on the trail: floor `t`, minimum offset `m + i`, supporter `m + n + t`."""
    top = state.counters[C.trailed]
    state.trail[0, top] = what
    state.trail[1, top] = value
    state.counters[C.trailed] = top + 1


@inner
def undo(state: PackingState, occupied: IntArray | None, trailed: int, stacked: int) -> None:
    """Restore the state that had `trailed` entries on the trail and `stacked` buffers placed."""
    buffers, sections, trail, counters = state.buffers, state.sections, state.trail, state.counters
    n, m = buffers.shape[1], sections.shape[1] - 2
    # An entry may occur several times, so the oldest value must be written last.
    for k in range(counters[C.trailed] - 1, trailed - 1, -1):
        what = trail[0, k]
        if what < m:
            sections[S.floor, what] = trail[1, k]
        elif what < m + n:
            buffers[B.min_offset, what - m] = trail[1, k]
        else:
            set_supporter(state, what - m - n, trail[1, k])
    counters[C.trailed] = trailed
    # Buffers are taken off in reverse, so that the stack is as it was.
    for k in range(counters[C.stacked] - 1, stacked - 1, -1):
        i = buffers[B.stack, k]
        buffers[B.placed, i] = 0
        for t in range(buffers[B.first, i], buffers[B.last, i]):
            sections[S.remaining, t] += size_in(state, occupied, i, t)
    counters[C.stacked] = stacked


@inner
def enqueue(state: PackingState, t: int) -> None:
    """Mark a section whose floor must be updated."""
    sections, counters = state.sections, state.counters
    if sections[S.queued, t] == 0:
        sections[S.queued, t] = 1
        sections[S.queue, counters[C.waiting]] = t
        counters[C.waiting] += 1


@inner
def forget_queue(state: PackingState) -> None:
    """Empty the queue after a failure."""
    sections, counters = state.sections, state.counters
    for k in range(counters[C.waiting]):
        sections[S.queued, sections[S.queue, k]] = 0
    counters[C.waiting] = 0


@inner
def settle(state: PackingState) -> bool:
    """Raise the floor of each queued section to its lowest start; return False if one overflows.

    A section overflows if its remaining size does not fit between floor and cap. Sketch: take a
    section off the queue and find its unplaced buffer of lowest minimum offset. That buffer becomes
    the supporter of the section, and its minimum offset the floor. A floor raised to the minimum of
    some minimum offsets leaves all of them unchanged, so one pass is enough.
    """
    buffers, sections, counters = state.buffers, state.sections, state.counters
    n, m = buffers.shape[1], sections.shape[1] - 2
    fits = True
    while counters[C.waiting] > 0:
        counters[C.waiting] -= 1
        t = sections[S.queue, counters[C.waiting]]
        sections[S.queued, t] = 0
        # After a failure the queue is still emptied, since the flags in `queued` outlive the call.
        if not fits or sections[S.remaining, t] == 0:
            continue
        floor = sections[S.floor, t]
        lowest = NEVER
        supporter = -1
        for k in range(state.sections[S.cover, t], state.sections[S.cover, t + 1]):
            j = state.cover[k]
            if buffers[B.placed, j] == 0 and buffers[B.min_offset, j] < lowest:
                lowest = buffers[B.min_offset, j]
                supporter = j
                # No buffer starts below the floor, so the first one at the floor is the lowest.
                if lowest <= floor:
                    break
        if lowest > floor:
            note(state, t, floor)
            sections[S.floor, t] = lowest
        if sections[S.supporter, t] != supporter:
            note(state, m + n + t, sections[S.supporter, t])
            set_supporter(state, t, supporter)
        # A section that overflows cannot be filled in any way from here.
        if lowest + sections[S.remaining, t] > sections[S.cap, t]:
            sections[S.weight, t] += 1
            fits = False
    return fits


@inner
def raise_offset(state: PackingState, j: int, offset: int) -> bool:
    """Raise a minimum offset and queue the sections that the buffer supported.

    Return False if the new minimum offset exceeds the maximum offset.
    """
    buffers, sections = state.buffers, state.sections
    note(state, sections.shape[1] - 2 + j, buffers[B.min_offset, j])
    buffers[B.min_offset, j] = offset
    t = buffers[B.supports, j]
    while t >= 0:
        # A floor that has risen to the new offset needs no other supporter.
        if sections[S.floor, t] != offset:
            enqueue(state, t)
        t = sections[S.after, t]
    return bool(offset <= buffers[B.max_offset, j])


@inner
def place(state: PackingState, i: int, offset: int) -> bool:
    """Place a buffer at `offset`, the floor of all its sections; return False if infeasible.

    Sketch: raise the floors of its sections to its top and reduce their remaining sizes. Raise the
    minimum offset of each unplaced buffer that shares a section with it to the top. A section whose
    new floor equals the minimum offset of such a buffer has a supporter and is done; the sections
    without one are queued. Buffers are sorted by first section, so `ahead` sweeps over the sections
    once. Finally settle the queue.
    """
    buffers, sections, counters = state.buffers, state.sections, state.counters
    n, m = buffers.shape[1], sections.shape[1] - 2
    first, last, size = buffers[B.first, i], buffers[B.last, i], buffers[B.size, i]
    top = offset + size
    gapped, plain = counters[C.gapped] != 0, counters[C.plain] != 0
    buffers[B.placed, i] = 1
    buffers[B.offset, i] = offset
    buffers[B.stack, counters[C.stacked]] = i
    counters[C.stacked] += 1
    fits = True
    for t in range(first, last):
        if gapped and not covers(state, i, t):
            continue
        note(state, t, sections[S.floor, t])
        sections[S.floor, t] = top
        sections[S.remaining, t] -= size
        if sections[S.remaining, t] > 0 and top + sections[S.remaining, t] > sections[S.cap, t]:
            sections[S.weight, t] += 1
            fits = False
    if not fits:
        return False
    # `ahead` is the first section of the placed buffer that may lack a supporter.
    ahead = first
    for j in range(sections[S.entry, last]):
        # Buffers from `entry[last]` on start after the placed one has ended.
        if buffers[B.placed, j] or buffers[B.last, j] <= first:
            continue
        if gapped and not share_section(state, i, j):
            continue
        lowest = buffers[B.min_offset, j]
        if lowest < top:
            lowest = top if plain else admissible(state, j, top)
            if not raise_offset(state, j, lowest):
                forget_queue(state)
                return False
        if lowest == top and not gapped and buffers[B.last, j] > ahead:
            # Sections from `ahead` to the first one of buffer `j` are not covered by any buffer
            # at the new floor so far; the sections of `j` are supported by it.
            while ahead < buffers[B.first, j]:
                enqueue(state, ahead)
                ahead += 1
            until = buffers[B.last, j] if buffers[B.last, j] < last else last
            while ahead < until:
                if sections[S.supporter, ahead] != j:
                    note(state, m + n + ahead, sections[S.supporter, ahead])
                    set_supporter(state, ahead, j)
                ahead += 1
    while ahead < last:
        enqueue(state, ahead)
        ahead += 1
    return settle(state)


@inner
def reset(state: PackingState, occupied: IntArray | None) -> bool:
    """Undo all placements and queue all sections; return False if some buffer does not fit."""
    buffers, sections, counters = state.buffers, state.sections, state.counters
    n, m = buffers.shape[1], sections.shape[1] - 2
    for t in range(m + 1):
        sections[S.floor, t] = 0
        sections[S.remaining, t] = 0
        sections[S.supporter, t] = -1
        sections[S.queued, t] = 0
    # Counters before `plain` belong to a search, the others to the problem.
    for k in range(C.plain):
        counters[k] = 0
    fits = True
    for i in range(n):
        buffers[B.min_offset, i] = admissible(state, i, buffers[B.release, i])
        buffers[B.placed, i] = 0
        buffers[B.supports, i] = -1
        if buffers[B.min_offset, i] > buffers[B.max_offset, i]:
            fits = False
        for t in range(buffers[B.first, i], buffers[B.last, i]):
            sections[S.remaining, t] += size_in(state, occupied, i, t)
    for t in range(m):
        enqueue(state, t)
    return fits
