"""The order engine as an oracle: least peak and bound of the graph of one split.

An order that is known for a similar split is tried before the engine runs: if its peak is low
enough, no search is needed.

Example: a node was cut into three groups. Two of them are joined again, and the known order, with
the joined group where its last part ran, still has the wanted peak.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from optsched.errors import UsageError
from optsched.model.allowances import relaxation
from optsched.model.fused import FusedGraph, Split
from optsched.model.fusion import inner_buffers, merge
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.ordering.solve import solve_order
from optsched.runtime.clock import Clock, count_work

SHARE = 0.2
"""Part of the time that is left for one search of the engine."""
SOLVE_SECONDS, FOLLOW_SECONDS = 1e-4, 3e-5
"""Seconds for a graph that is solved, and for an order that is known, by ops."""
FEW_PAIRS = 8
"""In-place pairs of an op that are kept if the engine cannot take all of them."""


@dataclass(frozen=True, slots=True)
class Solved:
    """A split with its best order."""

    split: Split
    """The groups, op `i` of the graph is `split[i]`."""
    graph: Graph
    order: tuple[int, ...]
    """Ids of groups, first to run first."""
    peak: int
    """Bytes of the order."""
    bound: int
    """No order has fewer bytes; 0 if the engine could not take the graph."""
    above: int = 0
    """Bytes by which the peak and the bound of the graph are above `peak` and `bound`
    (:mod:`optsched.model.allowances`)."""

    @property
    def groups(self) -> Split:
        """The groups in the order in which they run."""
        return tuple(self.split[i] for i in self.order)


@dataclass(slots=True)
class Oracle:
    """Solver of splits of one fused graph; each is solved once."""

    fused: FusedGraph
    clock: Clock
    solves: int = 0
    known: dict[tuple[Split, frozenset[int], bool], Solved] = field(default_factory=dict)

    def solve(self, split: Split) -> Solved:
        """Return the best order of a split, with a bound.

        Raises
        ------
        KeyboardInterrupt
            If the search was interrupted.
        """
        return self.relaxed(split, self.fused.local, allowed=False)

    def relaxed(self, split: Split, cut: frozenset[int], *, allowed: bool) -> Solved:
        """Return the best order of a relaxation of undecided choices.

        Parameters are those of :func:`optsched.model.allowances.relaxation`.

        Raise `KeyboardInterrupt` if the search was interrupted.
        """
        key = (split, cut - inner_buffers(self.fused, split), allowed)
        if key not in self.known:
            graph, above = relaxation(self.fused, split, cut, allowed=allowed)
            self.known[key] = self._solve(split, graph, above)
        return self.known[key]

    def _solve(self, split: Split, graph: Graph, above: int) -> Solved:
        self.solves += 1
        self.clock.spend(len(graph.ops), SOLVE_SECONDS)
        try:
            found = solve_order(graph, limits=self.clock.share(SHARE))
            bound, peak = found.bound, found.peak
        except UsageError:
            # An op has too many ways to save bytes. With fewer pairs an order is as valid, but a
            # bound is not.
            found = solve_order(with_few_pairs(graph), limits=self.clock.share(SHARE))
            bound, peak = 0, peak_memory(graph, found.order)
        found.stop_reason.raise_if_interrupted()
        order = found.order
        return Solved(split, graph, order, peak - above, max(0, bound - above), above)

    def fit(self, split: Split, peak: int, near: Sequence[Sequence[int]]) -> Solved | None:
        """Return an order of at most `peak` bytes, or None.

        One near to the order `near` of other groups is tried before a search.
        """
        found = follow(self.fused, split, near)
        if found.peak <= peak:
            return found
        if self.clock.expired():
            return None
        solved = self.solve(split)
        return solved if solved.peak <= peak else None


def follow(
    fused: FusedGraph, split: Split, near: Sequence[Sequence[int]], graph: Graph | None = None
) -> Solved:
    """Return a split, whose graph may be known, in the order nearest to that of other groups."""
    count_work(len(split), FOLLOW_SECONDS)
    graph = graph or merge(fused, split)
    orders = (following(graph, split, near, last=last) for last in (True, False))
    peak, order = min((peak_memory(graph, order), order) for order in orders)
    return Solved(split, graph, order, peak, 0)


def following(
    graph: Graph, split: Split, near: Iterable[Iterable[int]], *, last: bool
) -> tuple[int, ...]:
    """Return the order in which each group runs where the last (or first) of its parts ran."""
    step = {v: i for i, group in enumerate(near) for v in group}
    choose = max if last else min
    key = [choose(step[v] for v in group) for group in split]
    return sort_by(graph, key)


def sort_by(graph: Graph, key: Sequence[int]) -> tuple[int, ...]:
    """Return a topological order that takes the ready op of smallest key first."""
    left = [len(row) for row in graph.predecessors]
    after: list[list[int]] = [[] for _ in left]
    for v, row in enumerate(graph.predecessors):
        for u in row:
            after[u].append(v)
    ready = [(key[v], v) for v, count in enumerate(left) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, v = heapq.heappop(ready)
        order.append(v)
        for w in after[v]:
            left[w] -= 1
            if not left[w]:
                heapq.heappush(ready, (key[w], w))
    return tuple(order)


def with_few_pairs(graph: Graph) -> Graph:
    """Return the graph in which an op has at most a few in-place pairs, of the largest buffers."""
    rows: dict[int, list[tuple[int, int, int]]] = {}
    for row in graph.inplace:
        rows.setdefault(row[0], []).append(row)
    kept: list[tuple[int, int, int]] = []
    for pairs in rows.values():
        used: set[int] = set()
        for row in sorted(pairs, key=lambda x: -min(graph.buffers[b].size for b in x[1:])):
            if len(pairs) <= FEW_PAIRS or (len(used) < 2 * FEW_PAIRS and not used & {*row[1:]}):
                used |= {*row[1:]}
                kept.append(row)
    return replace(graph, inplace=tuple(sorted(kept)))
