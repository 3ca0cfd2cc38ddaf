"""One layer of a beam search: place one more buffer in each node, keep the best children.

A node is a copy of the part of the packing state that changes during a search. Children are made
and undone by the moves of the exact search, and the children that are kept are copied to a free
slot. The rating of a child is a sum over its unfinished sections of a weight that falls with the
slack of the section. A buffer placed flat on equal floors leaves the slack of its own sections
unchanged. Every floor that rises higher than necessary costs slack.

Example: a section has 4 bytes to place below a cap of 10. With its floor at 3 the slack is 3. A
buffer of 2 bytes placed flat on the floor leaves 2 bytes above floor 5, which is slack 3 again. A
floor raised to 4 without a buffer leaves slack 2 and a worse rating.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy.typing as npt
from numpy import float64

from optsched.model.arrays import IntArray
from optsched.packing.kernels.branch import choose_section, floor_after_skip, may_start, skip
from optsched.packing.kernels.failures import HASH_BITS
from optsched.packing.kernels.moves import place, reset, settle, undo
from optsched.packing.kernels.state import B, C, PackingState, S
from optsched.runtime.kernel import inner, kernel

FloatArray = npt.NDArray[float64]

BUFFER_ROWS, SECTION_ROWS = B.supports - B.min_offset + 1, S.before + 1
"""Numbers of rows of the state stored in a node: the rows of buffers from `min_offset` on, and the
rows of sections up to `before`.
"""

# Entries of `Beam.heap`.
KEPT, FREE, SLOTS = 0, 1, 2

# Columns of `Beam.births`.
PARENT, BUFFER, LEVEL = 0, 1, 2
BIRTH_COLUMNS = 3

# Entries of `Beam.knobs`.
RULE, SKIPS, SHIFT = 0, 1, 2


class Nodes(NamedTuple):
    """The nodes of a layer, by slot."""

    buffers: IntArray
    sections: IntArray
    """Shapes `(width + 1, BUFFER_ROWS, n)` and `(width + 1, SECTION_ROWS, m)`."""
    codes: IntArray
    """Shape `(width + 1,)`: hash codes of the placed buffers."""


class Beam(NamedTuple):
    """The best children of a layer, in `width + 1` slots, one of them free."""

    heap: IntArray
    """Shape `(SLOTS + width,)`. KEPT: number of children kept. FREE: the free slot, which is
    written next. From SLOTS on: the slots of the children kept, as a heap with the worst one at the
    root.
    """
    ratings: FloatArray
    """Shape `(width + 1,)`, by slot."""
    births: IntArray
    """Shape `(width + 1, BIRTH_COLUMNS)`, by slot: slot of the parent, buffer placed, offset."""
    seen: IntArray
    """Shape `(s,)`, s a power of two: hash codes of children, each at the index given by its low
    bits.
    """
    factors: IntArray
    """Shape `(n + m,)`: random numbers from which hash codes are computed."""
    weights: FloatArray
    """Weight of a section, by its slack shifted right by SHIFT bits."""
    noise: FloatArray
    """Shape `(z,)`, z a power of two: random factors of the ratings, by hash code."""
    knobs: IntArray
    """RULE: how to choose sections. SKIPS: maximum number of sections skipped in a row. SHIFT:
    number of low bits of slack that are ignored.
    """


@inner
def save_node(state: PackingState, nodes: Nodes, slot: int, code: int) -> None:
    """Copy the state to a node."""
    for row in range(BUFFER_ROWS):
        for i in range(state.buffers.shape[1]):
            nodes.buffers[slot, row, i] = state.buffers[B.min_offset + row, i]
    for row in range(SECTION_ROWS):
        for t in range(nodes.sections.shape[2]):
            nodes.sections[slot, row, t] = state.sections[row, t]
    nodes.codes[slot] = code


@inner
def load_node(state: PackingState, nodes: Nodes, slot: int) -> None:
    """Restore the state from a node, with an empty trail."""
    for row in range(BUFFER_ROWS):
        for i in range(state.buffers.shape[1]):
            state.buffers[B.min_offset + row, i] = nodes.buffers[slot, row, i]
    for row in range(SECTION_ROWS):
        for t in range(nodes.sections.shape[2]):
            state.sections[row, t] = nodes.sections[slot, row, t]
    # The trail of the last child does not belong to this node.
    state.counters[C.trailed] = state.counters[C.stacked] = 0


@kernel
def start_node(state: PackingState, nodes: Nodes) -> bool:
    """Make the state without placements the first node; return False if it is infeasible."""
    ready = reset(state, None) and settle(state)
    save_node(state, nodes, 0, 0)
    return bool(ready)


@inner
def rate(state: PackingState, beam: Beam, code: int) -> tuple[float, int]:
    """Return the rating of the state, lower is better, and its hash code.

    `code` is the hash code of the placed buffers; the result combines it with the floors.
    """
    sections = state.sections
    n, m = state.buffers.shape[1], sections.shape[1] - 2
    rating = 0.0
    for t in range(m):
        left, floor = sections[S.remaining, t], sections[S.floor, t]
        if left > 0:
            # Slack of a section: what stays free between floor and cap once all its buffers are
            # placed.
            rating += beam.weights[(sections[S.cap, t] - floor - left) >> beam.knobs[SHIFT]]
            code = (code + beam.factors[n + t] * floor) & HASH_BITS
    return rating, code


@inner
def is_kept(beam: Beam, rating: float) -> bool:
    """Return True if a child with this rating is among the best so far."""
    heap = beam.heap
    return bool(heap[KEPT] < len(heap) - SLOTS or rating < beam.ratings[heap[SLOTS]])


@inner
def keep(beam: Beam, rating: float, code: int) -> int:
    """Reserve the free slot for a child and return it.

    Return -1 if the child is not among the best, or if an equal child was kept before.
    """
    heap, ratings, seen = beam.heap, beam.ratings, beam.seen
    width = len(heap) - SLOTS
    place = code & (len(seen) - 1)
    # An equal child was made from another parent, so only one of them is kept.
    if seen[place] == code or not is_kept(beam, rating):
        return -1
    # A direct-mapped table forgets codes that share a place, at the cost of a duplicate node.
    seen[place] = code
    free = heap[FREE]
    ratings[free] = rating
    if heap[KEPT] < width:
        # Sift up: the root of the heap is the child with the worst rating.
        at = heap[KEPT]
        heap[KEPT] += 1
        heap[FREE] = heap[KEPT]
        while at > 0 and ratings[heap[SLOTS + ((at - 1) >> 1)]] < rating:
            heap[SLOTS + at] = heap[SLOTS + ((at - 1) >> 1)]
            at = (at - 1) >> 1
    else:
        # Replace the worst child, whose slot becomes free, and sift down.
        heap[FREE] = heap[SLOTS]
        at = 0
        below = 1
        while below < width:
            if below + 1 < width and (
                ratings[heap[SLOTS + below + 1]] > ratings[heap[SLOTS + below]]
            ):
                below += 1
            if ratings[heap[SLOTS + below]] <= rating:
                break
            heap[SLOTS + at] = heap[SLOTS + below]
            at = below
            below = 2 * at + 1
    heap[SLOTS + at] = free
    return int(free)


@kernel
def expand(
    state: PackingState, beam: Beam, nodes: Nodes, parents: IntArray, following: Nodes
) -> int:
    """Place one more buffer in each parent, in all ways, and keep the best children.

    Sketch: for each parent, restore its state and choose a section. For each unplaced buffer that
    can start on the floor of the section, place it, rate the child, save it if it is among the
    best, and undo. Then skip the floor of the section, as the exact search does, and choose again,
    up to SKIPS times.

    The best children carry over from earlier calls for the same layer. Work is saved if `parents`
    lists slots of good rating first. Return the number of children created, kept or not.
    """
    buffers, sections, counters = state.buffers, state.sections, state.counters
    made = 0
    for parent in parents:
        load_node(state, nodes, parent)
        for skipped in range(beam.knobs[SKIPS] + 1):
            t = choose_section(state, beam.knobs[RULE])
            if t < 0:
                break
            floor = sections[S.floor, t]
            # Marks to which each child is undone.
            trailed, stacked = counters[C.trailed], counters[C.stacked]
            for c in range(sections[S.cover, t], sections[S.cover, t + 1]):
                i = state.cover[c]
                if buffers[B.placed, i] or buffers[B.min_offset, i] != floor:
                    continue
                if not may_start(state, i):
                    continue
                # Children that do not fit cost as much time as those that do, so both count as
                # work.
                made += 1
                if place(state, i, floor):
                    placed = (nodes.codes[parent] + beam.factors[i]) & HASH_BITS
                    rating, code = rate(state, beam, placed)
                    # Noise is a function of the hash code, so that equal states get equal ratings.
                    slot = keep(beam, rating * beam.noise[code & (len(beam.noise) - 1)], code)
                    if slot >= 0:
                        beam.births[slot, PARENT] = parent
                        beam.births[slot, BUFFER] = i
                        beam.births[slot, LEVEL] = floor
                        save_node(state, following, slot, placed)
                undo(state, None, trailed, stacked)
            if skipped == beam.knobs[SKIPS]:
                break
            # No slack is left: the floor cannot be skipped.
            if floor + sections[S.remaining, t] >= sections[S.cap, t]:
                break
            if not skip(state, t, floor_after_skip(state, t, floor)):
                break
            # Children hardly ever rate better than the state they are made from.
            if not is_kept(beam, rate(state, beam, nodes.codes[parent])[0]):
                break
    return made
