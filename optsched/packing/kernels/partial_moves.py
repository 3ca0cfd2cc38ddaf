"""Moves where a buffer may be there in part: an occupied byte range for each of its sections.

The loop is that of :mod:`optsched.packing.kernels.search`; what a state is differs. A buffer at
offset `x` fills `[x + low, x + high)` of a section, with the bounds of that section. So it may lie
above a floor although no other buffer could go below it elsewhere, and two buffers may lie one
above the other in one section and the other way round in the next. Hence:

* A placed buffer lies at its minimum offset. Where its part is then above the floor it is an
  obstacle, which others stay below or above; only what lies below the floor is forgotten.
* The floor of a section is the lowest `min_offset` + low` of the unplaced buffers there. Either one
  of them has the bottom of its part there, and then it lies at its minimum offset: a child; or none
  has: the skip. That is complete for every section, in a gap of the skyline or not.
* Buffers with one admissible offset only, such as pinned ones, are placed before the search.
* A packing above floors and obstacles can be pushed down: keep who is above whom in each section,
  and take the lowest offsets that satisfy these differences. Each buffer then lies at its release,
  on a floor, or with its part on another's, placed or not, and on the next aligned offset.

The rules `identical`, `components` and `cliques` hold word for word, with parts in
place of buffers: two buffers are identical only if all their parts are, and sections are cut where
a part changes. `far_skip` is proved anew at `floor_after_skip` and `failures` at `has_obstacles`,
both in :mod:`optsched.packing.kernels.partial_branch`. `units` divides the bounds of the parts as
well. Beams are not run: their states hold no obstacles.

`occupied` has shape `(2, pairs)`: `low` and `high` of each buffer in each section from `first` to
`last` (equal: nothing of it is there). Those of buffer `i` and section `t` stand in the column
`buffers[`parts`, i] + t`.
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
def lift(state: PackingState, occupied: IntArray, i: int, offset: int) -> int:
    """Return the lowest start from `offset` on, above all floors and apart from all placed.

    If there is none up to the maximum offset, any offset above that.
    """
    buffers, sections = state.buffers, state.sections
    first, last, span = buffers[B.first, i], buffers[B.last, i], buffers[B.parts, i]
    x = admissible(state, i, offset)
    before = -1
    while before != x and x <= buffers[B.max_offset, i]:
        before = x
        for t in range(first, last):
            low, high = occupied[0, span + t], occupied[1, span + t]
            if low == high:
                continue
            if x + low < sections[S.floor, t]:
                x = admissible(state, i, sections[S.floor, t] - low)
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
    """Raise a minimum offset to `offset` or above; False if that is past the maximum."""
    buffers, sections = state.buffers, state.sections
    lowest = lift(state, occupied, i, offset)
    if lowest > buffers[B.max_offset, i]:
        forget_queue(state)
        return False
    note(state, sections.shape[1] - 2 + i, buffers[B.min_offset, i])
    buffers[B.min_offset, i] = lowest
    for t in range(buffers[B.first, i], buffers[B.last, i]):
        enqueue(state, t)
    return True


@inner
def settle_partial(state: PackingState, occupied: IntArray) -> bool:
    """Raise the floors of queued sections to the lowest bottom; False if one overflows.

    What is unplaced, and the obstacles above the floor, have to fit between floor and cap.
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
        for k in range(sections[S.cover, t], sections[S.cover, t + 1]):
            j = state.cover[k]
            if buffers[B.placed, j] == 0:
                bottom = bottom_in(state, occupied, j, t)
                lowest = bottom if bottom < lowest else lowest
        if lowest > sections[S.floor, t]:
            note(state, t, sections[S.floor, t])
            sections[S.floor, t] = lowest
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
    """Place a buffer at its minimum offset; False if nothing can follow."""
    buffers, sections = state.buffers, state.sections
    x = buffers[B.min_offset, i]
    buffers[B.placed, i] = 1
    buffers[B.offset, i] = x
    buffers[B.stack, state.counters[C.stacked]] = i
    state.counters[C.stacked] += 1
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
        for k in range(sections[S.cover, t], sections[S.cover, t + 1]):
            j = state.cover[k]
            start, at = buffers[B.min_offset, j], buffers[B.parts, j] + t
            meets = start + occupied[0, at] < high and low < start + occupied[1, at]
            if buffers[B.placed, j] == 0 and meets and not raise_partial(state, occupied, j, start):
                return False
    return settle_partial(state, occupied)


@inner
def place_fixed(state: PackingState, occupied: IntArray) -> bool:
    """Place the buffers with one admissible offset and settle; False if nothing can follow."""
    for i in range(state.buffers.shape[1]):
        if has_one_place(state, i) and not place_partial(state, occupied, i):
            return False
    return settle_partial(state, occupied)


@inner
def has_one_place(state: PackingState, i: int) -> bool:
    """Whether a buffer is pinned, or as good as that; such are placed in all states."""
    return bool(admissible(state, i, 0) == state.buffers[B.max_offset, i])
