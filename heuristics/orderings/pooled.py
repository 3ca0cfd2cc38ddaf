"""Orders for several pools: a walk that lowers the sum of the pools' peaks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from heuristics.kernels.moves import run_moves
from optsched.model.arrays import IntArray, build_rows
from optsched.model.graph import Graph

WORK = 50_000_000
"""Steps and buffers that the moves of one round look at, all told."""
STALE = 3
"""Rounds without a better order after which the walk ends."""


def pooled_orders(
    graph: Graph, order: IntArray, *, seed: int = 0, work: int = WORK
) -> Iterator[IntArray]:
    """Yield ever better orders by the sum of the pools' peaks, one a round, from a given one.

    What counts for a plan of several pools is the sum of their slabs, and no slab is below the
    peak of its pool. Each round tries as many moves of one op as its `work` allows. Outputs of the
    graph have bytes of their own, whatever may be written in place.
    """
    arrays = graph.arrays
    if arrays.op_count < 2:
        return
    users = [
        {*arrays.user.row(b).tolist(), int(arrays.producer[b])} - {-1}
        for b in range(arrays.buffer_count)
    ]
    counts = [
        b for b in range(arrays.buffer_count) if arrays.size[b] > 0 and (users[b] or arrays.keep[b])
    ]
    if not counts:
        return
    names = sorted({graph.buffers[b].pool for b in counts})
    rows = build_rows([users[b] for b in counts])
    ids = np.array(counts, np.int64)
    buffers = (
        arrays.birth[ids],
        rows.ptr,
        rows.idx,
        arrays.size[ids],
        arrays.keep[ids].astype(np.int64),
        np.array([names.index(graph.buffers[b].pool) for b in counts], np.int64),
    )
    edges = (arrays.pred.ptr, arrays.pred.idx, arrays.succ.ptr, arrays.succ.idx)
    look = len(rows.idx) + len(ids) + len(names) * arrays.op_count
    moves = max(1, work // look)
    walk = run_moves.for_work(moves * look)
    best, stale, number = order, 0, 0
    while stale < STALE:
        number += 1
        found = walk(best, moves, seed + number, *edges, *buffers, max(1, len(names)))
        stale = stale + 1 if (found == best).all() else 0
        best = found
        yield best
