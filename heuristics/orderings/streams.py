"""Orders for several streams: local search for a smaller maximum total of conflicting buffers.

Example: ops a and b on stream 0, c on stream 1. Moving `b` before `a` may end the use of a buffer
before `c` starts, so that the two no longer conflict.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optsched.model.antichain import Antichain, largest_antichain
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph

ROUND = 64
"""Number of moves attempted per round."""
STALE = 8
"""Number of rounds without improvement after which the search stops."""


def stream_orders(graph: Graph, order: IntArray, *, seed: int = 0) -> Iterator[IntArray]:
    """Yield the best order so far after each round of a search from a given order.

    The graph is on several streams. A move picks a buffer of the largest antichain and lets the op
    that allocates it run later, or an op that uses it run earlier, past other ops of its stream.
    Moves that do not enlarge the antichain are kept. `seed` is that of the random choices.
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
    """Return the order with one op moved past others of its stream, or None if none can move."""
    arrays = graph.arrays
    b = found.buffers[int(rng.integers(len(found.buffers)))]
    makers = [int(v) for v in (arrays.birth[b],) if v >= 0]
    users = [int(v) for v in (*arrays.user.row(b), *arrays.producer[b : b + 1]) if v >= 0]
    # Allocating later or releasing earlier: either may separate the buffer from the others.
    later = bool(makers) and (not users or rng.random() < 0.5)
    choices = makers if later else users
    if not choices:
        return None
    v = choices[int(rng.integers(len(choices)))]
    step = {u: at for at, u in enumerate(order)}
    row = arrays.succ.row(v) if later else arrays.pred.row(v)
    # The op may pass others up to its first successor, or back to its last predecessor.
    ends = [step[u] for u in row.tolist()]
    here, own = step[v], graph.ops[v].stream
    stretch = (
        range(here + 1, min(ends, default=len(order)))
        if later
        else range(max(ends, default=-1) + 1, here)
    )
    # Only places next to ops of its own stream change what the streams do.
    places = [at for at in stretch if graph.ops[order[at]].stream == own]
    if not places:
        return None
    rest = order[:here] + order[here + 1 :]
    rest.insert(places[int(rng.integers(len(places)))], v)
    return rest
