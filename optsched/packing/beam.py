"""Beam search: for capacities with much slack in most sections and hardly any in some.

Branch and bound meets such capacities late, because slack makes the skip a possible choice almost
everywhere. A beam keeps the best partial packings of each size: every layer places exactly one more
buffer in each of them, rates the children by the slack left in all sections, and keeps the best.
It refutes nothing.
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
"""Of the random numbers in codes: times any offset they fit 64 bits."""


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
    """Search for a packing within a capacity; SOLVED, or LIMIT: a beam refutes nothing.

    Parameters
    ----------
    engine, capacity
        The engine's `offsets` returns the packing; bytes.
    width
        Nodes that live on in each layer.
    softness
        Share of the capacity at which slack weighs 1/e of none.
    rule, random
        How to choose sections; of the noise in the ratings.
    """
    state = engine.prepare(capacity)
    if state is None:
        return LIMIT
    n, m, effort = len(engine.component), engine.component.sections.count, engine.effort
    state = state._replace(cover=short_first(engine))
    units = int(state.sections[S.cap].max())
    shift = max(0, units.bit_length() - effort.beam_bits)
    scale = (units >> shift) * softness + 1e-9
    beam = Beam(
        heap=np.zeros(SLOTS + width, np.int64),
        ratings=np.zeros(width + 1),
        births=np.zeros((width + 1, BIRTH_COLUMNS), np.int64),
        seen=np.full(1 << (8 * width).bit_length(), -1),
        factors=random.integers(1, 1 << FACTOR_BITS, n + m),
        weights=np.exp(-np.arange((units >> shift) + 1) / scale),
        noise=1 + effort.beam_noise * random.random(effort.beam_factors),
        knobs=np.array([rule, effort.beam_skips, shift], np.int64),
    )
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
        parents = beam.heap[SLOTS : SLOTS + beam.heap[KEPT]][::-1].copy()
        layers.append(beam.births.copy())
        nodes, following = following, nodes
    engine.set_offsets(trace_back(layers, int(parents[0])))
    return SOLVED


def short_first(engine: PackingEngine) -> IntArray:
    """Return the buffers of each section, one section after another, short ones first.

    When a floor loses its supporter, a buffer of few sections is most likely not affected.
    """
    starts, cover = engine.component.cover
    section = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    length = engine.component.sections.last - engine.component.sections.first
    return cover[np.lexsort((length[cover], section))]


def make_nodes(slots: int, buffers: int, sections: int) -> Nodes:
    """Return room for the nodes of a layer."""
    return Nodes(
        np.zeros((slots, BUFFER_ROWS, buffers), np.int64),
        np.zeros((slots, SECTION_ROWS, sections), np.int64),
        np.zeros(slots, np.int64),
    )


def trace_back(layers: list[IntArray], slot: int) -> IntArray:
    """Return the offsets of a node of the last layer."""
    offsets = np.zeros(len(layers), np.int64)
    for births in reversed(layers):
        offsets[births[slot, BUFFER]] = births[slot, LEVEL]
        slot = int(births[slot, PARENT])
    return offsets
