"""Beam search: for capacities with much slack in most sections and hardly any in some."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optsched.model.arrays import IntArray
from optsched.packing.engine import Engine
from optsched.packing.kernels.beam import expand
from optsched.packing.kernels.beam_heap import (
    BIRTH_COLUMNS,
    BUFFER,
    FREE,
    KEPT,
    LEVEL,
    PARENT,
    SLOTS,
    Beam,
)
from optsched.packing.kernels.beam_state import start_state
from optsched.packing.kernels.search import LIMIT, SOLVED
from optsched.packing.kernels.state import CAP

WEIGHT_BITS = 13
"""Slack is measured to so many binary digits."""

FACTOR_BITS = 22
"""Of the random numbers in codes: times any offset they fit 64 bits."""

NOISE_FACTORS = 1024

CHUNK = 64
"""States that are expanded between two looks at the clock."""


def search_beam(
    engine: Engine,
    capacity: int,
    *,
    width: int,
    rule: int,
    softness: float,
    noise: float,
    skips: int,
    random: np.random.Generator,
    in_time: Callable[[], bool],
) -> int:
    """Search for a packing within a capacity; SOLVED, or LIMIT: a beam refutes nothing.

    Parameters
    ----------
    engine
        The piece; its `offsets` returns the packing.
    capacity
        Bytes.
    width
        States that live on in each layer.
    rule
        How to choose sections.
    softness
        Share of the capacity at which slack weighs 1/e of none.
    noise
        By how much, as a share, ratings are raised at most.
    skips
        Sections that may be skipped in a row.
    random
        Of the noise.
    in_time
        Whether there is time left.
    """
    board = engine.prepare(capacity)
    if board is None:
        return LIMIT
    n, m = len(engine.piece), engine.piece.sections.count
    board = board._replace(cover=short_first(engine))
    units = int(board.sections[CAP].max())
    shift = max(0, units.bit_length() - WEIGHT_BITS)
    beam = Beam(
        heap=np.zeros(SLOTS + width, np.int64),
        ratings=np.zeros(width + 1),
        births=np.zeros((width + 1, BIRTH_COLUMNS), np.int64),
        seen=np.full(1 << (8 * width).bit_length(), -1),
        factors=random.integers(1, 1 << FACTOR_BITS, n + m),
        weights=np.exp(-np.arange((units >> shift) + 1) / ((units >> shift) * softness + 1e-9)),
        noise=1 + noise * random.random(NOISE_FACTORS),
        scratch=np.zeros(3 * m + 2 * n + 1, np.int64),
        knobs=np.array([rule, skips, shift], np.int64),
    )
    states = np.zeros((width + 1, len(beam.scratch)), np.int64)
    following = np.zeros_like(states)
    if not start_state.compiled(board, states[0]):
        return LIMIT
    parents = np.zeros(1, np.int64)
    layers: list[IntArray] = []
    for placed in range(n):
        beam.heap[KEPT] = beam.heap[FREE] = 0
        for begin in range(0, len(parents), CHUNK):
            chunk = parents[begin : begin + CHUNK]
            made = expand.compiled(board, beam, states, chunk, n - placed, following)
            engine.nodes += made
            if not in_time():
                return LIMIT
        if not beam.heap[KEPT]:
            return LIMIT
        parents = beam.heap[SLOTS : SLOTS + beam.heap[KEPT]][::-1].copy()
        layers.append(beam.births.copy())
        states, following = following, states
    engine.set_offsets(trace_back(layers, int(parents[0])))
    return SOLVED


def short_first(engine: Engine) -> IntArray:
    """Return the buffers of each section, one section after another, short ones first.

    When a floor loses its supporter, a buffer of few sections is most likely not affected.
    """
    starts, cover = engine.piece.cover
    section = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    length = engine.piece.sections.last - engine.piece.sections.first
    return cover[np.lexsort((length[cover], section))]


def trace_back(layers: list[IntArray], slot: int) -> IntArray:
    """Return the offsets of a state of the last layer."""
    offsets = np.zeros(len(layers), np.int64)
    for births in reversed(layers):
        offsets[births[slot, BUFFER]] = births[slot, LEVEL]
        slot = int(births[slot, PARENT])
    return offsets
