"""Maximum number of bytes that are live at once when streams run concurrently.

At any moment the ops that have ended form a prefix of each stream. The most that can be live in
such a state is what the ended ops and the next ready ops of all streams have allocated, minus what
no remaining op needs. The module visits all reachable states. Their number is at most the product
of the lengths of the streams (each plus one), and small if there are many syncs.

Example: two streams have two ops each, without syncs. The states are the pairs (0, 0) to (2, 2),
nine in total.
"""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.steps import Order
from optsched.model.stream_relation import StreamRelation, stream_relation

MOST_STATES = 20_000
"""Maximum number of states to visit."""


def most_live_at_once(graph: Graph, order: Order) -> int | None:
    """Return the maximum of bytes live at once in any execution of an order on its streams.

    It is at most the peak on streams, the largest antichain, and usually equal to it. Return None
    if more than :data:`MOST_STATES` states would have to be visited.
    """
    relation = stream_relation(graph, order)
    states = _States(relation)
    start = (0,) * relation.after.shape[1]
    stack, seen, best = [start], {start}, 0
    while stack:
        ended = stack.pop()
        ready = states.ready(ended)
        # Ready ops of all streams may be running at the same time.
        best = max(best, states.live(ended, ready))
        for s in ready:
            after = (*ended[:s], ended[s] + 1, *ended[s + 1 :])
            if after not in seen:
                seen.add(after)
                stack.append(after)
        if len(seen) > MOST_STATES:
            return None
    return best


class _States:
    def __init__(self, relation: StreamRelation) -> None:
        graph, arrays = relation.graph, relation.graph.arrays
        self.relation, self.predecessors = relation, graph.predecessors
        k = relation.after.shape[1]
        self.rows: list[list[int]] = [[] for _ in range(k)]
        for v in np.argsort(relation.place, kind="stable").tolist():
            self.rows[relation.stream[v]].append(v)
        # Number of ops of each stream that must have ended before the bytes are free.
        ranges = relation.ranges()
        self.ids = np.flatnonzero((arrays.size > 0) & (ranges[:, 1] > ranges[:, 0]))
        needed = np.zeros((arrays.buffer_count, k), np.int64)
        for buffers, ops in (
            (arrays.user.owners(), arrays.user.idx),
            *((np.flatnonzero(row >= 0), row[row >= 0]) for row in (arrays.producer, arrays.birth)),
        ):
            np.maximum.at(needed, (buffers, relation.stream[ops]), relation.place[ops] + 1)
        # Never reached: kept buffers are live to the end.
        needed[arrays.keep] = len(relation.stream) + 1
        self.needed, self.size = needed[self.ids], arrays.size[self.ids]
        alloc = arrays.birth[self.ids]
        self.stream = np.where(alloc < 0, 0, relation.stream[alloc])
        self.place = np.where(alloc < 0, -1, relation.place[alloc])

    def ready(self, ended: tuple[int, ...]) -> list[int]:
        """Return the streams whose next op may start."""
        stream, place = self.relation.stream, self.relation.place
        return [
            s
            for s, row in enumerate(self.rows)
            if ended[s] < len(row)
            and all(place[u] < ended[stream[u]] for u in self.predecessors[row[ended[s]]])
        ]

    def live(self, ended: tuple[int, ...], ready: list[int]) -> int:
        """Return the bytes live while the next ops of all ready streams run."""
        before: IntArray = np.array(ended, np.int64)
        started = before.copy()
        started[ready] += 1
        # Allocated by now, and some stream still has an op that needs it.
        live = (self.place < started[self.stream]) & (self.needed > before).any(axis=1)
        return int(self.size[live].sum())
