"""What is live at a bottleneck, and who holds it."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from optsched.explanation.data import LiveBuffer
from optsched.model.graph import Graph
from optsched.ordering.bound.single_ops import op_bound


def live_buffers(
    graph: Graph,
    op: int | None,
    done: Collection[int],
    *,
    before: Collection[int] = (),
    after: Collection[int] = (),
) -> tuple[LiveBuffer, ...]:
    """Return the buffers that are live while an op runs, the largest first.

    Parameters
    ----------
    graph
        The graph.
    op
        Op id; None for the start or the end of the graph.
    done
        A downset: the ops that have ended.
    before, after
        Those that have ended, or not begun, whenever the op is the bottleneck, besides the ones
        that edges tell of.
    """
    arrays = graph.arrays
    forced = set[int]()
    if op is not None:
        forced = set(op_bound(arrays, op, done=before, later=after).buffers)
    rows = []
    for b in np.flatnonzero(arrays.size > 0).tolist():
        birth, producer = int(arrays.birth[b]), int(arrays.producer[b])
        if birth >= 0 and birth != op and birth not in done:
            continue
        users = [v for v in arrays.user.row(b).tolist() if v not in done]
        waits = producer >= 0 and producer not in done
        kept = bool(arrays.keep[b])
        if users or kept or waits:
            holders = (*([producer] if waits and producer not in users else []), *users)
            rows.append(
                LiveBuffer(
                    b,
                    int(arrays.size[b]),
                    None if producer < 0 else producer,
                    holders,
                    kept,
                    op is None or b in forced,
                )
            )
    return tuple(sorted(rows, key=lambda row: (-row.size, row.buffer)))
