"""Beam search: for capacities with much slack in most sections and hardly any in some."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optsched.arrays import IntArray
from optsched.packing.engine import Engine
from optsched.packing.kernels.beam import BUFFER as CHILD_BUFFER
from optsched.packing.kernels.beam import (
    CHILD_COLUMNS,
    CODE,
    LEVEL,
    PARENT,
    advance,
    expand,
)
from optsched.packing.kernels.board import CAP
from optsched.packing.kernels.search import LIMIT, SOLVED

WEIGHT_BITS = 13
"""Slack is measured to so many binary digits."""

CHILDREN_PER_STATE = 24
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
        Standard deviation of the factor on each rating.
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
    units = int(board.sections[CAP].max())
    shift = max(0, units.bit_length() - WEIGHT_BITS)
    weights = np.exp(-np.arange((units >> shift) + 1) / ((units >> shift) * softness + 1e-9))
    states = np.zeros((width, 3 * m + 2 * n), np.int64)
    following = np.zeros_like(states)
    room = CHILDREN_PER_STATE * CHUNK
    children = np.zeros((room, CHILD_COLUMNS), np.int64)
    scores = np.zeros(room)
    layers: list[IntArray] = []
    empty = np.full((1, CHILD_COLUMNS), -1)
    if not advance.compiled(board, following, empty, rule, states):
        return LIMIT
    count = 1
    for _ in range(n):
        found, rated = [], []
        for begin in range(0, count, CHUNK):
            end = min(count, begin + CHUNK)
            born = expand.compiled(
                board, states, begin, end, rule, skips, shift, weights, children, scores
            )
            found.append(children[:born].copy())
            rated.append(scores[:born].copy())
            if not in_time():
                return LIMIT
        chosen = best_children(np.concatenate(found), np.concatenate(rated), width, noise, random)
        if not len(chosen):
            return LIMIT
        engine.nodes += sum(len(x) for x in found)
        layers.append(chosen)
        advance.compiled(board, states, chosen, rule, following)
        states, following = following, states
        count = len(chosen)
    at = 0
    offsets = np.zeros(n, np.int64)
    for layer in reversed(layers):
        offsets[layer[at, CHILD_BUFFER]] = layer[at, LEVEL]
        at = int(layer[at, PARENT])
    engine.set_offsets(offsets)
    return SOLVED


def best_children(
    children: IntArray,
    scores: np.ndarray[tuple[int], np.dtype[np.float64]],
    width: int,
    noise: float,
    random: np.random.Generator,
) -> IntArray:
    """Return the best of different children."""
    if noise:
        scores = scores * (1 + noise * random.random(len(scores)))
    order = np.argsort(scores, kind="stable")[: 4 * width]
    _, first = np.unique(children[order, CODE], return_index=True)
    chosen: IntArray = children[order[np.sort(first)[:width]]]
    return chosen[np.argsort(chosen[:, PARENT], kind="stable")]
