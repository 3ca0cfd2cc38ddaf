"""Beam search over partial packings.

Branch and bound is slow at capacities that leave much slack in most sections and hardly any in a
few: with slack, skipping a floor remains possible almost everywhere, so few branches are pruned. A
beam search keeps the best partial packings of each size instead. Layer k holds partial packings of
k buffers. Each of them is extended by one buffer in all ways, the children are rated by the slack
left in all sections, and the best `width` children form layer k + 1. The last layer holds complete
packings. A beam search can find a packing, but it cannot refute a capacity.

Example: width 2, three buffers. The first layer places one buffer in each of its nodes, and keeps
the two nodes with the best ratings. Both are expanded by one more buffer, and the two best of all
their children make the second layer. A node of the third layer is a packing.
"""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.packing.engine import PackingEngine
from optsched.packing.kernels.beam import (
    BIRTH_COLUMNS,
    BUFFER,
    BUFFER_ROWS,
    FREE,
    KEPT,
    LEVEL,
    PARENT,
    SECTION_ROWS,
    SLOTS,
    Beam,
    Nodes,
    expand,
    start_node,
)
from optsched.packing.kernels.search import LIMIT, SOLVED
from optsched.packing.kernels.state import S
from optsched.runtime.clock import Clock

FACTOR_BITS = 22
"""Bits of the random factors in hash codes; a factor times any offset fits in 64 bits."""


def search_beam(
    engine: PackingEngine,
    capacity: int,
    *,
    width: int,
    softness: float,
    rule: int,
    random: np.random.Generator,
    clock: Clock,
) -> int:
    """Search for a packing within a capacity; return SOLVED, or LIMIT if none was found.

    Parameters
    ----------
    engine
        Engine of the component; its `offsets` method returns the packing that was found.
    capacity
        Maximum slab in bytes.
    width
        Number of nodes kept in each layer.
    softness
        Slack, as a share of the capacity, at which the weight of a section has fallen to 1/e.
    rule
        Rule that chooses the section to branch on.
    random
        Source of the noise in the ratings.
    clock
        Time and work limits of the search.
    """
    state = engine.prepare(capacity)
    if state is None:
        return LIMIT
    n, m, effort = len(engine.component), engine.component.sections.count, engine.effort
    state = state._replace(cover=short_first(engine))
    units = int(state.sections[S.cap].max())
    # Slack is measured in `beam_bits` binary digits, so that the table of weights stays small.
    shift = max(0, units.bit_length() - effort.beam_bits)
    scale = (units >> shift) * softness + 1e-9
    beam = Beam(
        heap=np.zeros(SLOTS + width, np.int64),
        ratings=np.zeros(width + 1),
        births=np.zeros((width + 1, BIRTH_COLUMNS), np.int64),
        # Eight slots per node and more: few codes of a layer share a place.
        seen=np.full(1 << (8 * width).bit_length(), -1),
        factors=random.integers(1, 1 << FACTOR_BITS, n + m),
        weights=np.exp(-np.arange((units >> shift) + 1) / scale),
        noise=1 + effort.beam_noise * random.random(effort.beam_factors),
        knobs=np.array([rule, effort.beam_skips, shift], np.int64),
    )
    # One slot more than the width: a child is written before it is known whether it displaces one.
    nodes, following = make_nodes(width + 1, n, m), make_nodes(width + 1, n, m)
    if not start_node.for_work(n)(state, nodes):
        return LIMIT
    parents = np.zeros(1, np.int64)
    layers: list[IntArray] = []
    for _ in range(n):
        beam.heap[KEPT] = beam.heap[FREE] = 0
        for begin in range(0, len(parents), effort.beam_chunk):
            chunk = parents[begin : begin + effort.beam_chunk]
            run = expand.for_work(effort.beam_work * len(chunk))
            made = run(state, beam, nodes, chunk, following)
            engine.nodes += made
            clock.spend(made)
            if clock.expired():
                return LIMIT
        if not beam.heap[KEPT]:
            return LIMIT
        # The worst child is first in the heap; reversed, good parents come before bad ones.
        parents = beam.heap[SLOTS : SLOTS + beam.heap[KEPT]][::-1].copy()
        layers.append(beam.births.copy())
        nodes, following = following, nodes
    engine.set_offsets(trace_back(layers, int(parents[0])))
    return SOLVED


def short_first(engine: PackingEngine) -> IntArray:
    """Return the buffers of each section, section by section, those with few sections first.

    If a section loses the buffer that supports its floor, the search for a new supporter starts
    with buffers of few sections: these are the least likely to have been raised by the same move.
    """
    starts, cover = engine.component.cover
    section = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    length = engine.component.sections.last - engine.component.sections.first
    return cover[np.lexsort((length[cover], section))]


def make_nodes(slots: int, buffers: int, sections: int) -> Nodes:
    """Return empty arrays for the nodes of a layer."""
    return Nodes(
        np.zeros((slots, BUFFER_ROWS, buffers), np.int64),
        np.zeros((slots, SECTION_ROWS, sections), np.int64),
        np.zeros(slots, np.int64),
    )


def trace_back(layers: list[IntArray], slot: int) -> IntArray:
    """Return the offsets of the packing in a slot of the last layer."""
    offsets = np.zeros(len(layers), np.int64)
    for births in reversed(layers):
        offsets[births[slot, BUFFER]] = births[slot, LEVEL]
        slot = int(births[slot, PARENT])
    return offsets
