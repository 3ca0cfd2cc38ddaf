"""Moves on the packing state: place a buffer, raise minimum offsets and floors, undo.

These are the moves for buffers that are there as a whole or not at all; where only some of a
buffer's bytes are there, :mod:`optsched.packing.kernels.partial_moves` has other ones. What both
have in common takes `occupied`, which is None for the first kind: numba compiles each kind by
itself and leaves the other's branches out.
"""

from __future__ import annotations

from optsched.model.arrays import IntArray
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
    MAX_OFFSET,
    MIN_OFFSET,
    NEVER,
    OFFSET,
    PLACED,
    PLAIN,
    QUEUE,
    QUEUED,
    RELEASE,
    REMAINING,
    SIZE,
    STACK,
    STACKED,
    SUPPORTER,
    SUPPORTS,
    TRAILED,
    WAITING,
    WEIGHT,
    PackingState,
    admissible,
    covers,
    share_section,
    size_in,
)
from optsched.runtime.kernel import inner


@inner
def set_supporter(state: PackingState, t: int, j: int) -> None:
    """Let buffer `j` (or none, -1) support the floor of section `t`."""
    supporter = state.sections[SUPPORTER]
    after, before = state.sections[AFTER], state.sections[BEFORE]
    heads = state.buffers[SUPPORTS]
    old = supporter[t]
    if old >= 0:
        if before[t] >= 0:
            after[before[t]] = after[t]
        else:
            heads[old] = after[t]
        if after[t] >= 0:
            before[after[t]] = before[t]
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
    """Remember an old value: of floor `t`, minimum offset `m + i`, supporter `m + n + t`."""
    top = state.counters[TRAILED]
    state.trail[0, top] = what
    state.trail[1, top] = value
    state.counters[TRAILED] = top + 1


@inner
def undo(state: PackingState, occupied: IntArray | None, trailed: int, stacked: int) -> None:
    """Go back to the state that had `trailed` entries on the trail, `stacked` buffers placed."""
    buffers, sections, trail, counters = state.buffers, state.sections, state.trail, state.counters
    n, m = buffers.shape[1], sections.shape[1] - 2
    for k in range(counters[TRAILED] - 1, trailed - 1, -1):
        what = trail[0, k]
        if what < m:
            sections[FLOOR, what] = trail[1, k]
        elif what < m + n:
            buffers[MIN_OFFSET, what - m] = trail[1, k]
        else:
            set_supporter(state, what - m - n, trail[1, k])
    counters[TRAILED] = trailed
    for k in range(counters[STACKED] - 1, stacked - 1, -1):
        i = buffers[STACK, k]
        buffers[PLACED, i] = 0
        for t in range(buffers[FIRST, i], buffers[LAST, i]):
            sections[REMAINING, t] += size_in(state, occupied, i, t)
    counters[STACKED] = stacked


@inner
def enqueue(state: PackingState, t: int) -> None:
    """Mark a section whose floor must be updated."""
    sections, counters = state.sections, state.counters
    if sections[QUEUED, t] == 0:
        sections[QUEUED, t] = 1
        sections[QUEUE, counters[WAITING]] = t
        counters[WAITING] += 1


@inner
def forget_queue(state: PackingState) -> None:
    """Empty the queue after a failure."""
    sections, counters = state.sections, state.counters
    for k in range(counters[WAITING]):
        sections[QUEUED, sections[QUEUE, k]] = 0
    counters[WAITING] = 0


@inner
def settle(state: PackingState) -> bool:
    """Raise the floors of queued sections to the lowest start there; False if one overflows.

    A floor raised to the minimum of some minimum offsets raises none of these: one pass is enough.
    """
    buffers, sections, counters = state.buffers, state.sections, state.counters
    n, m = buffers.shape[1], sections.shape[1] - 2
    fits = True
    while counters[WAITING] > 0:
        counters[WAITING] -= 1
        t = sections[QUEUE, counters[WAITING]]
        sections[QUEUED, t] = 0
        if not fits or sections[REMAINING, t] == 0:
            continue
        floor = sections[FLOOR, t]
        lowest = NEVER
        supporter = -1
        for k in range(state.sections[COVER, t], state.sections[COVER, t + 1]):
            j = state.cover[k]
            if buffers[PLACED, j] == 0 and buffers[MIN_OFFSET, j] < lowest:
                lowest = buffers[MIN_OFFSET, j]
                supporter = j
                if lowest <= floor:
                    break
        if lowest > floor:
            note(state, t, floor)
            sections[FLOOR, t] = lowest
        if sections[SUPPORTER, t] != supporter:
            note(state, m + n + t, sections[SUPPORTER, t])
            set_supporter(state, t, supporter)
        if lowest + sections[REMAINING, t] > sections[CAP, t]:
            sections[WEIGHT, t] += 1
            fits = False
    return fits


@inner
def raise_offset(state: PackingState, j: int, offset: int) -> bool:
    """Set a higher minimum offset, queue the sections it supported; False if above the maximum."""
    buffers, sections = state.buffers, state.sections
    note(state, sections.shape[1] - 2 + j, buffers[MIN_OFFSET, j])
    buffers[MIN_OFFSET, j] = offset
    t = buffers[SUPPORTS, j]
    while t >= 0:
        if sections[FLOOR, t] != offset:
            enqueue(state, t)
        t = sections[AFTER, t]
    return bool(offset <= buffers[MAX_OFFSET, j])


@inner
def place(state: PackingState, i: int, offset: int, begin: int, end: int) -> bool:
    """Put a buffer where all floors of its sections are at `offset`; False if nothing can follow.

    Parameters
    ----------
    begin, end
        The buffers of the scope: no other is raised.
    """
    buffers, sections, counters = state.buffers, state.sections, state.counters
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
        if gapped and not covers(state, i, t):
            continue
        note(state, t, sections[FLOOR, t])
        sections[FLOOR, t] = top
        sections[REMAINING, t] -= size
        if sections[REMAINING, t] > 0 and top + sections[REMAINING, t] > sections[CAP, t]:
            sections[WEIGHT, t] += 1
            fits = False
    if not fits:
        return False
    ahead = first
    beyond = sections[ENTRY, last] if sections[ENTRY, last] < end else end
    for j in range(begin, beyond):
        if buffers[PLACED, j] or buffers[LAST, j] <= first:
            continue
        if gapped and not share_section(state, i, j):
            continue
        lowest = buffers[MIN_OFFSET, j]
        if lowest < top:
            lowest = top if plain else admissible(state, j, top)
            if not raise_offset(state, j, lowest):
                forget_queue(state)
                return False
        if lowest == top and not gapped and buffers[LAST, j] > ahead:
            # Buffers come by first section: what lies between `ahead` and this one has no
            # supporter at the new floor yet, what this one covers has.
            while ahead < buffers[FIRST, j]:
                enqueue(state, ahead)
                ahead += 1
            until = buffers[LAST, j] if buffers[LAST, j] < last else last
            while ahead < until:
                if sections[SUPPORTER, ahead] != j:
                    note(state, m + n + ahead, sections[SUPPORTER, ahead])
                    set_supporter(state, ahead, j)
                ahead += 1
    while ahead < last:
        enqueue(state, ahead)
        ahead += 1
    return settle(state)


@inner
def reset(state: PackingState, occupied: IntArray | None) -> bool:
    """Take back all placements and queue all sections; False if some buffer has no place."""
    buffers, sections, counters = state.buffers, state.sections, state.counters
    n, m = buffers.shape[1], sections.shape[1] - 2
    for t in range(m + 1):
        sections[FLOOR, t] = 0
        sections[REMAINING, t] = 0
        sections[SUPPORTER, t] = -1
        sections[QUEUED, t] = 0
    for k in range(PLAIN):
        counters[k] = 0
    fits = True
    for i in range(n):
        buffers[MIN_OFFSET, i] = admissible(state, i, buffers[RELEASE, i])
        buffers[PLACED, i] = 0
        buffers[SUPPORTS, i] = -1
        if buffers[MIN_OFFSET, i] > buffers[MAX_OFFSET, i]:
            fits = False
        for t in range(buffers[FIRST, i], buffers[LAST, i]):
            sections[REMAINING, t] += size_in(state, occupied, i, t)
    for t in range(m):
        enqueue(state, t)
    return fits
