"""The packing state: which buffers are placed, how low the others could start, and a trail.

Time is cut into sections, the maximal cliques of the live ranges
(:mod:`optsched.packing.cliques`). Per section the state keeps a floor, below which no unplaced
buffer that covers the section can start, and the remaining size still to be placed there. Per
buffer it keeps the minimum offset: the first admissible one at or above all floors of its sections.
Every change goes to a trail, which is undone from its newest entry::

    capacity  +-----------------------------+
              |  remaining size per section |
    floors    |####|        |#########|#####|   <- a gap of the skyline: a run of equal floors
              |####|########|#########|#####|      with higher ones (or the border) on both sides
              +-----------------------------+  sections ->

Buffers are sorted by first section. Arrays have few dimensions and many rows because numba
compiles and calls functions of few arguments much faster.
"""

from __future__ import annotations

from typing import NamedTuple

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import inner

NEVER = 1 << 60
"""Above every offset."""
WORD_BITS = 60
"""Bits in a word of a set, of buffers or of sections."""


class BufferRows(NamedTuple):
    """Rows of `PackingState.buffers`; from `min_offset` on they change during a search.

    `first`, `last`: half-open range of sections. `before_me`: the identical buffer that must be
    placed before, or -1. `release`, `max_offset`: lowest and highest offset. `rank`: place in the
    order of trial. `zone`, `zone_end`: its range of zones. `parts`: where its entries of `occupied`
    begin, less `first`. `supports`: head of the list of sections whose floor it supports, or -1.
    `stack`: buffers in the order they were placed.
    """

    first: int = 0
    last: int = 1
    size: int = 2
    alignment: int = 3
    before_me: int = 4
    release: int = 5
    max_offset: int = 6
    rank: int = 7
    zone: int = 8
    zone_end: int = 9
    parts: int = 10
    min_offset: int = 11
    placed: int = 12
    supports: int = 13
    offset: int = 14
    stack: int = 15


class SectionRows(NamedTuple):
    """Rows of `PackingState.sections`.

    `cap`: no buffer that covers the section may end above. `supporter`: an unplaced buffer whose
    minimum offset is the floor. `after`, `before`: the list of sections of one supporter. `run`:
    end of the run of equal floors. `queue`: sections whose floor must be updated. `weight`:
    failures met. `entry`: the first buffer that starts there or later. `cover`: where its buffers
    begin in `PackingState.cover`.
    """

    floor: int = 0
    remaining: int = 1
    cap: int = 2
    supporter: int = 3
    after: int = 4
    before: int = 5
    run: int = 6
    tally: int = 7
    queue: int = 8
    queued: int = 9
    weight: int = 10
    entry: int = 11
    cover: int = 12


class CounterRows(NamedTuple):
    """Entries of `PackingState.counters`; those before `plain` are reset when a search starts.

    `depth`: the frame to resume with, plus one, or 0. `plain`: neither alignment nor release nor
    zones. `gapped`: `masks` has words. `far`: whether a skip goes to the next top.
    """

    nodes: int = 0
    trailed: int = 1
    stacked: int = 2
    waiting: int = 3
    refuted: int = 4
    depth: int = 5
    plain: int = 6
    gapped: int = 7
    far: int = 8


B, S, C = BufferRows(), SectionRows(), CounterRows()
"""Numba takes the fields of a tuple of integers for constants."""


class PackingState(NamedTuple):
    """Everything about `n` buffers and `m` sections."""

    buffers: IntArray
    """Shape `(len(B), n)`."""
    sections: IntArray
    """Shape `(len(S), m + 2)`."""
    cover: IntArray
    """Buffers of each section, one section after another."""
    zones: IntArray
    """Shape `(2, z)`. Per buffer, ascending and disjoint: starts strictly between `zones[0]` and
    `zones[1]` would meet a pinned buffer."""
    masks: IntArray
    """Shape `(n, words)`: the sections that each buffer covers as bits; no words if
    each covers its whole range."""
    trail: IntArray
    """Shape `(2, t)`: what changed, and what it was."""
    counters: IntArray
    """Shape `(len(C),)`."""


@inner
def admissible(state: PackingState, i: int, offset: int) -> int:
    """Return the first offset from `offset` on at which the buffer may start.

    It is aligned, at or above the release, and in no zone.
    """
    buffers, zones = state.buffers, state.zones
    if offset < buffers[B.release, i]:  # noqa: PLR1730
        offset = buffers[B.release, i]
    step = buffers[B.alignment, i]
    if step > 1:
        offset += -offset % step
    for k in range(buffers[B.zone, i], buffers[B.zone_end, i]):
        if offset <= zones[0, k]:
            break
        if offset < zones[1, k]:
            offset = zones[1, k]
            if step > 1:
                offset += -offset % step
    return offset


@inner
def covers(state: PackingState, i: int, t: int) -> bool:
    """Whether the buffer, whose range has section `t`, is there in it."""
    return bool((state.masks[i, t // WORD_BITS] >> (t % WORD_BITS)) & 1)


@inner
def share_section(state: PackingState, i: int, j: int) -> bool:
    """Whether two buffers are ever live together."""
    buffers = state.buffers
    if buffers[B.last, j] <= buffers[B.first, i] or buffers[B.last, i] <= buffers[B.first, j]:
        return False
    if state.counters[C.gapped] == 0:
        return True
    for word in range(state.masks.shape[1]):
        if state.masks[i, word] & state.masks[j, word] != 0:
            return True
    return False


@inner
def bottom_in(state: PackingState, occupied: IntArray | None, i: int, t: int) -> int:
    """Return the first byte of section `t` that the buffer would fill at its minimum offset."""
    start = state.buffers[B.min_offset, i]
    if occupied is not None:
        start += occupied[0, state.buffers[B.parts, i] + t]
    return int(start)


@inner
def size_in(state: PackingState, occupied: IntArray | None, i: int, t: int) -> int:
    """Return how many bytes of the buffer are there in section `t`."""
    if occupied is not None:
        at = state.buffers[B.parts, i] + t
        return int(occupied[1, at] - occupied[0, at])
    if state.counters[C.gapped] != 0 and not covers(state, i, t):
        return 0
    return int(state.buffers[B.size, i])
