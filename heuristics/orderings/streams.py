"""Orders for several streams: a walk that lowers the largest total size of conflicting buffers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optsched.model.antichain import Antichain, largest_antichain
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph

ROUND = 64
"""Moves that a round tries."""
STALE = 8
"""Rounds without a better order after which the walk ends."""


def stream_orders(graph: Graph, order: IntArray, *, seed: int = 0) -> Iterator[IntArray]:
    """Yield the best order so far, once a round, from a given one of a graph on several streams.

    A move takes a buffer of the largest antichain and lets the op that allocates it run later, or
    one that uses it earlier, past others of its stream. Moves that make the antichain no larger are
    kept; the seed is of the choices.
    """
    rng = np.random.default_rng(seed)
    current, best = order.tolist(), order
    found = largest_antichain(graph, order)
    least, stale = found.size, 0
    while stale < STALE and found.buffers:
        stale += 1
        for _ in range(ROUND):
            moved = _moved(graph, current, found, rng)
            if moved is None:
                continue
            after = largest_antichain(graph, moved)
            if after.size > found.size:
                continue
            current, found = moved, after
            if found.size < least:
                best, least, stale = np.array(current, np.int64), found.size, 0
        yield best


def _moved(
    graph: Graph, order: list[int], found: Antichain, rng: np.random.Generator
) -> list[int] | None:
    """Return the order with one op moved past others of its stream; None if none can be."""
    arrays = graph.arrays
    b = found.buffers[int(rng.integers(len(found.buffers)))]
    makers = [int(v) for v in (arrays.birth[b],) if v >= 0]
    users = [int(v) for v in (*arrays.user.row(b), *arrays.producer[b : b + 1]) if v >= 0]
    later = bool(makers) and (not users or rng.random() < 0.5)
    choices = makers if later else users
    if not choices:
        return None
    v = choices[int(rng.integers(len(choices)))]
    step = {u: at for at, u in enumerate(order)}
    row = arrays.succ.row(v) if later else arrays.pred.row(v)
    ends = [step[u] for u in row.tolist()]
    here, own = step[v], graph.ops[v].stream
    stretch = (
        range(here + 1, min(ends, default=len(order)))
        if later
        else range(max(ends, default=-1) + 1, here)
    )
    places = [at for at in stretch if graph.ops[order[at]].stream == own]
    if not places:
        return None
    rest = order[:here] + order[here + 1 :]
    rest.insert(places[int(rng.integers(len(places)))], v)
    return rest
