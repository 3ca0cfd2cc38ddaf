"""An order that wanders: adjacent ops without a dependency change places within a budget."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optsched.model.graph import Graph
from optsched.model.liveness import timeline


class Walk:
    """An order whose live bytes stay within a budget; outputs have bytes of their own.

    Parameters
    ----------
    graph
        The graph; not in-place.
    order
        A valid order.
    budget
        Bytes; no step of the order is above it.
    rng
        Of the choices.
    """

    def __init__(
        self, graph: Graph, order: Sequence[int], budget: int, rng: np.random.Generator
    ) -> None:
        arrays = graph.arrays
        self.budget, self.rng = budget, rng
        self.before = [set(us) for us in graph.predecessors]
        self.alloc: list[int] = arrays.alloc.tolist()
        self.size: list[int] = arrays.size.tolist()
        self.users: list[list[int]] = []
        self.uses: list[list[int]] = [[] for _ in graph.ops]
        for b, size in enumerate(self.size):
            users = {*arrays.user.row(b).tolist(), int(arrays.producer[b])} - {-1}
            mortal = size > 0 and not arrays.keep[b]
            self.users.append(sorted(users) if mortal else [])
            for v in self.users[b]:
                self.uses[v].append(b)
        self.take(graph, order)

    def take(self, graph: Graph, order: Sequence[int]) -> None:
        """Go on from another order."""
        self.order = [int(v) for v in order]
        self.live: list[int] = timeline(graph, self.order).before.tolist()
        self.step = [0] * len(self.order)
        for at, v in enumerate(self.order):
            self.step[v] = at

    def wander(self, exchanges: int) -> int:
        """Try so many exchanges at random steps; return how many were made."""
        if len(self.order) < 2:
            return 0
        places = self.rng.integers(len(self.order) - 1, size=exchanges).tolist()
        return sum(self.exchange(at) for at in places)

    def exchange(self, at: int) -> bool:
        """Exchange the ops of a step and the next, if they may and the budget holds."""
        u, v = self.order[at], self.order[at + 1]
        if u in self.before[v]:
            return False
        first = self.live[at] + self.alloc[v]
        between = first - sum(self.size[b] for b in self.uses[v] if self._is_last(b, v, at))
        if max(first, between + self.alloc[u]) > self.budget:
            return False
        self.order[at], self.order[at + 1] = v, u
        self.step[v], self.step[u] = at, at + 1
        self.live[at + 1] = between
        return True

    def _is_last(self, buffer: int, v: int, at: int) -> bool:
        """Whether `v`, run at a step, releases a buffer: its other users ran before that step."""
        return all(self.step[w] < at for w in self.users[buffer] if w != v)
