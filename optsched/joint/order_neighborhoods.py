"""Neighborhoods of an order: some ops near its fullest step are free, the others keep their turn.

The others run in the sequence of the order, but the free ops may run anywhere among them, as far as
dependencies allow. Control edges between the others say so, and the exact search solves the graph
with these edges: a problem far narrower than the whole graph, so that a second often suffices to
find an order of smaller peak or to prove that there is none. In contrast to a window of consecutive
steps, an op may leave the steps around the peak.

A neighborhood that is refuted makes the next one larger, and one that is not decided makes it
smaller. What is refuted says nothing about the orders of the whole graph.

Example: the order a, b, c, d has its peak at c. With a free, b, c, d keep their turn: the orders
are a b c d, b a c d, b c a d and b c d a.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from optsched.joint.oracle import portion
from optsched.model.graph import Graph
from optsched.model.liveness import timeline
from optsched.ordering import solve_order
from optsched.runtime.clock import Clock

LEAST_OPS = 8
"""Smallest number of free ops."""
LARGER, SMALLER = 1.15, 0.8
"""Factors of the number of free ops after a neighborhood that was decided, and after another."""


@dataclass(frozen=True, slots=True)
class OrderNeighborhoodEffort:
    """Sizes and limits of neighborhoods."""

    ops: int = 80
    """Free ops, at first."""
    seconds: float = 2.0
    """Time limit of one neighborhood in seconds, or the same amount of work."""
    tries: int = 1000
    """Maximum number of neighborhoods."""
    largest_graph: int = 3000
    """Maximum number of ops: each neighborhood takes a look at the whole graph."""


def lower_orders_nearby(
    graph: Graph,
    order: Sequence[int],
    *,
    clock: Clock,
    seed: int = 0,
    floor: int = 0,
    effort: OrderNeighborhoodEffort | None = None,
) -> Iterator[list[int]]:
    """Yield orders of ever smaller peak, starting from a given order.

    Parameters
    ----------
    graph
        The graph, on one stream. Graphs with too many ops yield nothing.
    order
        A valid order.
    clock
        Limits on time or work.
    seed
        Seed of the choice of free ops; other seeds choose other ones.
    floor
        Proved lower bound on the peak in bytes: an order that meets it ends the search.
    effort
        Sizes and limits of neighborhoods.
    """
    effort = effort or OrderNeighborhoodEffort()
    if 1 < len(graph.ops) <= effort.largest_graph and not graph.on_streams:
        yield from _Neighborhoods(graph, order, clock, seed, effort).lower(floor)


def with_sequence(graph: Graph, sequence: Sequence[int]) -> Graph:
    """Return the graph with control edges that make ops run in a given sequence."""
    ops = list(graph.ops)
    for u, v in pairwise(sequence):
        if u not in graph.predecessors[v]:
            ops[v] = replace(ops[v], control=(*ops[v].control, u))
    return replace(graph, ops=tuple(ops))


class _Neighborhoods:
    """An order with its peak, and the size of the next neighborhood."""

    def __init__(
        self,
        graph: Graph,
        order: Sequence[int],
        clock: Clock,
        seed: int,
        effort: OrderNeighborhoodEffort,
    ) -> None:
        self.graph, self.clock, self.effort = graph, clock, effort
        self.order = np.array(order, np.int64)
        self.running = timeline(graph, self.order).running
        self.rng = np.random.default_rng((clock.limits.seed, seed))
        self.ops = effort.ops

    def lower(self, floor: int) -> Iterator[list[int]]:
        """Search one neighborhood after another."""
        for _ in range(self.effort.tries):
            peak = int(self.running.max())
            if peak <= floor or self.clock.expired():
                return
            self._search(floor)
            if int(self.running.max()) < peak:
                yield self.order.tolist()

    def _search(self, floor: int) -> None:
        """Search one neighborhood, and keep the order if its peak is smaller."""
        is_free = self._free()
        graph = with_sequence(self.graph, self.order[~is_free].tolist())
        # Making the graph takes time that the search does not count.
        self.clock.spend(len(self.order))
        peak = int(self.running.max())
        part = portion(self.clock, self.effort.seconds, int(self.rng.integers(2**31)))
        outcome = solve_order(graph, limits=part, warm_start=self.order.tolist(), bound=floor)
        outcome.stop_reason.raise_if_interrupted()
        decided = outcome.peak < peak or outcome.bound >= peak
        more = int(self.ops * (LARGER if decided else SMALLER) + 1)
        self.ops = min(len(self.order), max(LEAST_OPS, more))
        if outcome.peak < peak:
            self.order = np.array(outcome.order, np.int64)
            self.running = timeline(self.graph, self.order).running

    def _free(self) -> np.ndarray:
        """Return by step if its op is free: some of the steps around a fullest one."""
        steps, count = len(self.order), min(self.ops, len(self.order))
        at = int(self.rng.choice(np.flatnonzero(self.running == self.running.max())))
        # From all ops nearest to the step to few of all ops.
        reach = max(count, int(steps * (count / steps) ** (1 - self.rng.random() ** 2)))
        low = max(0, min(at - reach // 2, steps - reach))
        is_free = np.zeros(steps, np.bool_)
        is_free[self.rng.choice(reach, count, replace=False) + low] = True
        return is_free
