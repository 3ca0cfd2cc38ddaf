"""Nodes of a beam, a row each: place a buffer, skip a section, rate.

A row is copied for each child: as most nodes have one or two, that is less work than taking
moves back.

::

    floors | remaining | supporters | minimum offsets | hash | unplaced buffers
      m         m            m              n            1        up to n
"""

from __future__ import annotations

from optsched.model.arrays import IntArray
from optsched.packing.kernels.beam_heap import SHIFT, Beam
from optsched.packing.kernels.branch import floor_after_skip
from optsched.packing.kernels.failures import HASH_BITS
from optsched.packing.kernels.moves import reset, settle
from optsched.packing.kernels.state import (
    NEVER,
    B,
    C,
    PackingState,
    S,
    admissible,
    covers,
    share_section,
)
from optsched.runtime.kernel import inner, kernel

OVERFLOW = -1.0
"""Rating of a node that nothing can follow."""


@kernel
def start_node(state: PackingState, node: IntArray) -> bool:
    """Store the state without placements as a node; False if nothing can follow.

    Per section its floor, its remaining size and a buffer that supports the floor; per buffer its
    minimum offset, NEVER once placed; a hash of what is placed; the unplaced buffers.
    """
    n, m = state.buffers.shape[1], state.sections.shape[1] - 2
    if not reset(state, None) or not settle(state):
        return False
    for t in range(m):
        node[t] = state.sections[S.floor, t]
        node[m + t] = state.sections[S.remaining, t]
        node[2 * m + t] = state.sections[S.supporter, t]
    for i in range(n):
        node[3 * m + i] = state.buffers[B.min_offset, i]
        node[3 * m + n + 1 + i] = i
    node[3 * m + n] = 0
    return True


@inner
def show_node(state: PackingState, node: IntArray) -> None:
    """Set the rows of the packing state that choices are made by."""
    buffers, sections = state.buffers, state.sections
    n, m = buffers.shape[1], sections.shape[1] - 2
    for t in range(m):
        sections[S.floor, t] = node[t]
        sections[S.remaining, t] = node[m + t]
    for i in range(n):
        buffers[B.min_offset, i] = node[3 * m + i]
        buffers[B.placed, i] = node[3 * m + i] == NEVER


@inner
def settle_node(state: PackingState, beam: Beam, node: IntArray) -> tuple[float, int]:
    """Raise floors to the lowest start in their section; return the rating and the code.

    A floor may be too low, never too high.
    """
    n, m = state.buffers.shape[1], state.sections.shape[1] - 2
    caps, starts = state.sections[S.cap], state.sections[S.cover]
    shift = beam.knobs[SHIFT]
    rating = 0.0
    code = node[3 * m + n]
    for t in range(m):
        left = node[m + t]
        if left == 0:
            continue
        floor = node[t]
        if node[3 * m + node[2 * m + t]] != floor:
            lowest = NEVER
            for k in range(starts[t], starts[t + 1]):
                start = node[3 * m + state.cover[k]]
                if start < lowest:
                    lowest = start
                    node[2 * m + t] = state.cover[k]
                    if lowest <= floor:
                        break
            floor = lowest
            node[t] = floor
        slack = caps[t] - floor - left
        if slack < 0:
            return OVERFLOW, 0
        rating += beam.weights[slack >> shift]
        code = (code + beam.factors[n + t] * floor) & HASH_BITS
    return rating, code


@inner
def place_in_node(
    state: PackingState, beam: Beam, node: IntArray, unplaced: int, i: int, offset: int
) -> tuple[float, int]:
    """Put a buffer where all floors of its sections are at `offset`; return rating and code.

    The node's list of `unplaced` buffers is already without it.
    """
    buffers = state.buffers
    n, m = buffers.shape[1], state.sections.shape[1] - 2
    firsts, lasts = buffers[B.first], buffers[B.last]
    first, last, size = firsts[i], lasts[i], buffers[B.size, i]
    gapped, plain = state.counters[C.gapped] != 0, state.counters[C.plain] != 0
    top = offset + size
    node[3 * m + i] = NEVER
    node[3 * m + n] = (node[3 * m + n] + beam.factors[i]) & HASH_BITS
    for t in range(first, last):
        if gapped and not covers(state, i, t):
            continue
        node[m + t] -= size
        # A finished section is a wall: no unplaced buffer reaches across it.
        node[t] = top if node[m + t] > 0 else NEVER
        node[2 * m + t] = i
    ahead = first
    ids = 3 * m + n + 1
    for k in range(ids, ids + unplaced):
        j = node[k]
        if firsts[j] >= last:
            break
        if lasts[j] <= first or (gapped and not share_section(state, i, j)):
            continue
        lowest = node[3 * m + j]
        if lowest < top:
            lowest = top if plain else admissible(state, j, top)
            if lowest > buffers[B.max_offset, j]:
                return OVERFLOW, 0
            node[3 * m + j] = lowest
        if lowest == top and not gapped and lasts[j] > ahead:
            # What this one covers has a supporter.
            ahead = firsts[j] if firsts[j] > ahead else ahead
            until = lasts[j] if lasts[j] < last else last
            while ahead < until:
                node[2 * m + ahead] = j
                ahead += 1
    return settle_node(state, beam, node)


@inner
def skip_in_node(state: PackingState, beam: Beam, node: IntArray, t: int) -> float:
    """Let nobody start at the floor of a section of the node shown; return the rating."""
    sections, n = state.sections, state.buffers.shape[1]
    m = sections.shape[1] - 2
    floor, left, cap = node[t], node[m + t], sections[S.cap, t]
    if floor + left >= cap:
        return OVERFLOW
    floor = floor_after_skip(state, t, floor, sections[S.entry, 0], n)
    if floor + left > cap:
        return OVERFLOW
    node[t] = floor
    for k in range(sections[S.cover, t], sections[S.cover, t + 1]):
        j = state.cover[k]
        if node[3 * m + j] < floor:
            node[3 * m + j] = admissible(state, j, floor)
            if node[3 * m + j] > state.buffers[B.max_offset, j]:
                return OVERFLOW
    rating, _ = settle_node(state, beam, node)
    return rating
