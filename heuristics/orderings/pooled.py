"""Orders for several pools: local search that lowers the sum of the peaks of the pools.

Example: an order with peaks of 10 bytes in `sram` and 20 in `dram` has the sum 30. Moving one op
makes them 8 and 21: the sum 29 is better.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from heuristics.kernels.moves import run_moves
from optsched.model.arrays import IntArray, build_rows
from optsched.model.graph import Graph

WORK = 50_000_000
"""Steps and buffers visited by all moves of one round."""
STALE = 3
"""Number of rounds without improvement after which the search stops."""


def pooled_orders(
    graph: Graph, order: IntArray, *, seed: int = 0, work: int = WORK
) -> Iterator[IntArray]:
    """Yield the best order after each round of a search by the sum of the peaks of the pools.

    A plan of several pools is measured by the sum of its slabs, and each slab is at least the peak
    of its pool. Each round tries the number of single-op moves that its `work` allows. Outputs of
    the graph are measured with bytes of their own, even if they may be written in place.
    """
    arrays = graph.arrays
    if arrays.op_count < 2:
        return
    # A buffer lives at least through the op that makes it.
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
    # Cost of one evaluation, which decides how many moves a round may try.
    look = len(rows.idx) + len(ids) + len(names) * arrays.op_count
    moves = max(1, work // look)
    walk = run_moves.for_work(moves * look)
    best, stale, number = order, 0, 0
    while stale < STALE:
        number += 1
        found = walk(best, moves, seed + number, *edges, *buffers, max(1, len(names)))
        # The kernel returns its start if nothing was better.
        stale = stale + 1 if (found == best).all() else 0
        best = found
        yield best
