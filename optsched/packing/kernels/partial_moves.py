"""Moves with partial occupancy: a buffer occupies a range of its bytes in each of its sections.

The loop is that of :mod:`optsched.packing.kernels.search`, but states differ. A buffer at offset
`x` occupies `[x + low, x + high)` in a section, with the bounds of that section. It can therefore
lie above a floor in one section although no other buffer fits below it in another, and of two
buffers, each can lie above the other in some section. This has four consequences:

* A placed buffer lies at its minimum offset. If its part in a section is above the floor, it is an
  obstacle: other buffers stay below or above it. Only parts below the floor are forgotten.
* The floor of a section is the lowest `min_offset + low` of its unplaced buffers. Either the part
  of some buffer begins at the floor, and this buffer lies at its minimum offset (a child), or no
  part does (the skip). These branches are complete for every section, also outside gaps of the
  skyline.
* Buffers with a single admissible offset, such as pinned ones, are placed before the search.
* A packing above floors and obstacles can be pushed down: keep the vertical order of the parts in
  each section, and take the lowest offsets that satisfy these differences. Each buffer then lies at
  its release, on a floor, or with its part on a part of another buffer, placed or not, rounded up
  to the next aligned offset.

The rules `identical`, `components` and `cliques` hold unchanged, with parts in place of buffers:
two buffers are identical only if all their parts are, and sections are cut where a part changes.
Separate proofs are given for `far_skip` at `partial_floor_after_skip` and for `failures` at
`has_obstacles`, both in :mod:`optsched.packing.kernels.partial_branch`. `units` divides the bounds
of the parts as well. Beam search is not used, because its states have no obstacles.

`occupied` has shape `(2, pairs)`: `low` and `high` of each buffer in each section from `first` to
`last`; equal bounds mean that the buffer is not occupied there. The values of buffer `i` in section
`t` are in column `buffers[B.parts, i] + t`.

Example: buffer `a` occupies `[0, 4)` in section 0 and `[0, 1)` in section 1; buffer `b` of 3 bytes
covers section 1 only. With `a` at 0, `b` starts at 1, and the slab is 4.
"""

from __future__ import annotations

from optsched.model.arrays import IntArray
from optsched.packing.kernels.moves import enqueue, forget_queue, note
from optsched.packing.kernels.state import (
    NEVER,
    B,
    C,
    PackingState,
    S,
    admissible,
    bottom_in,
    size_in,
)
from optsched.runtime.kernel import inner


@inner
def count_scan(state: PackingState, t: int) -> None:
    """Count a scan of the buffers of a section.

    Moves scan sections again and again until no offset rises, so that one node takes between
    microseconds and milliseconds: calls of the search are ended by these scans, not by nodes alone.
    """
    cover = state.sections[S.cover]
    state.counters[C.scanned] += cover[t + 1] - cover[t]


@inner
def lift(state: PackingState, occupied: IntArray, i: int, offset: int) -> int:
    """Return the lowest start from `offset` on, above all floors and clear of placed buffers.

    If no start up to the maximum offset exists, return any offset above that maximum.
    """
    buffers, sections = state.buffers, state.sections
    first, last, span = buffers[B.first, i], buffers[B.last, i], buffers[B.parts, i]
    x = admissible(state, i, offset)
    before = -1
    while before != x and x <= buffers[B.max_offset, i]:
        # Raising the start for one section may lead to a conflict in another, so repeat until
        # nothing moves.
        before = x
        for t in range(first, last):
            low, high = occupied[0, span + t], occupied[1, span + t]
            if low == high:
                continue
            if x + low < sections[S.floor, t]:
                x = admissible(state, i, sections[S.floor, t] - low)
            count_scan(state, t)
            for k in range(sections[S.cover, t], sections[S.cover, t + 1]):
                j = state.cover[k]
                if buffers[B.placed, j] == 0:
                    continue
                bottom = buffers[B.offset, j] + occupied[0, buffers[B.parts, j] + t]
                top = buffers[B.offset, j] + occupied[1, buffers[B.parts, j] + t]
                if x + low < top and bottom < x + high:
                    x = admissible(state, i, top - low)
    return x


@inner
def raise_partial(state: PackingState, occupied: IntArray, i: int, offset: int) -> bool:
    """Raise a minimum offset to `offset` or above; return False if it exceeds the maximum."""
    buffers, sections = state.buffers, state.sections
    lowest = lift(state, occupied, i, offset)
    if lowest > buffers[B.max_offset, i]:
        forget_queue(state)
        return False
    note(state, sections.shape[1] - 2 + i, buffers[B.min_offset, i])
    buffers[B.min_offset, i] = lowest
    # Its bottom may have been the floor of any of its sections.
    for t in range(buffers[B.first, i], buffers[B.last, i]):
        enqueue(state, t)
    return True


@inner
def settle_partial(state: PackingState, occupied: IntArray) -> bool:
    """Raise the floors of queued sections to their lowest bottoms; return False if one overflows.

    The unplaced parts and the obstacles above the floor must fit between floor and cap.
    """
    buffers, sections, counters = state.buffers, state.sections, state.counters
    fits = True
    while counters[C.waiting] > 0:
        counters[C.waiting] -= 1
        t = sections[S.queue, counters[C.waiting]]
        sections[S.queued, t] = 0
        if not fits or sections[S.remaining, t] == 0:
            continue
        lowest = NEVER
        count_scan(state, t)
        for k in range(sections[S.cover, t], sections[S.cover, t + 1]):
            j = state.cover[k]
            if buffers[B.placed, j] == 0:
                bottom = bottom_in(state, occupied, j, t)
                lowest = bottom if bottom < lowest else lowest
        if lowest > sections[S.floor, t]:
            note(state, t, sections[S.floor, t])
            sections[S.floor, t] = lowest
        # Obstacles above the floor take room of the section although they are placed.
        top = lowest + sections[S.remaining, t]
        for k in range(sections[S.cover, t], sections[S.cover, t + 1]):
            j = state.cover[k]
            at = buffers[B.parts, j] + t
            if buffers[B.placed, j] and buffers[B.offset, j] + occupied[0, at] >= lowest:
                top += size_in(state, occupied, j, t)
        if top > sections[S.cap, t]:
            sections[S.weight, t] += 1
            fits = False
    return fits


@inner
def place_partial(state: PackingState, occupied: IntArray, i: int) -> bool:
    """Place a buffer at its minimum offset; return False if the state becomes infeasible."""
    buffers, sections = state.buffers, state.sections
    x = buffers[B.min_offset, i]
    buffers[B.placed, i] = 1
    buffers[B.offset, i] = x
    buffers[B.stack, state.counters[C.stacked]] = i
    state.counters[C.stacked] += 1
    # First all remaining sizes, since `settle_partial` looks at several sections at once.
    for t in range(buffers[B.first, i], buffers[B.last, i]):
        sections[S.remaining, t] -= size_in(state, occupied, i, t)
    for t in range(buffers[B.first, i], buffers[B.last, i]):
        low, high = (
            x + occupied[0, buffers[B.parts, i] + t],
            x + occupied[1, buffers[B.parts, i] + t],
        )
        if low == high:
            continue
        enqueue(state, t)
        count_scan(state, t)
        for k in range(sections[S.cover, t], sections[S.cover, t + 1]):
            j = state.cover[k]
            start, at = buffers[B.min_offset, j], buffers[B.parts, j] + t
            meets = start + occupied[0, at] < high and low < start + occupied[1, at]
            if buffers[B.placed, j] == 0 and meets and not raise_partial(state, occupied, j, start):
                return False
    return settle_partial(state, occupied)


@inner
def place_fixed(state: PackingState, occupied: IntArray) -> bool:
    """Place all buffers with a single admissible offset; return False if that is infeasible."""
    for i in range(state.buffers.shape[1]):
        if has_one_place(state, i) and not place_partial(state, occupied, i):
            return False
    return settle_partial(state, occupied)


@inner
def has_one_place(state: PackingState, i: int) -> bool:
    """Return True if a buffer has a single admissible offset, as pinned buffers do.

    Such buffers are placed in all states.
    """
    return bool(admissible(state, i, 0) == state.buffers[B.max_offset, i])
