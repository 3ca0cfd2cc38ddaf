"""Search of the choice of local buffers whose graph has the least peak, with a bound on all.

A place of the tree decides for some local buffers whether they stay inside one group or are cut.
Its bound is that of the graph in which the first tie their parts together, the second have their
bytes, and the others have none (the lemma of :mod:`optsched.model.fusion`). The place of smallest
bound comes next. Its largest undecided buffer that is live at the peak is decided both ways. At
each place, keeping and cutting all undecided buffers give two choices.

Example: `t` of 8 bytes is undecided, and the bound is 10. If `t` stays, 12 bytes are needed, as two
lives are tied; if it is cut, 18. So 12 is the least peak.
"""

from __future__ import annotations

import heapq
import itertools
import time
from dataclasses import dataclass, field

import numpy as np

from optsched.check.fused import check_split
from optsched.model.fused import FusedGraph
from optsched.model.fusion import finest_split, inner_buffers, whole_split
from optsched.model.liveness import live_ranges, timeline
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import held_interrupts
from optsched.runtime.limits import StopReason
from optsched.solver.fusion.oracle import Oracle, Solved
from optsched.solver.fusion.result import Branch, FusionResult, Leaf, Node, Point

MOST_BRANCHES = 2_000
"""Places of the tree that become branches."""
MOST_BYTES = 2**63
"""Bound of a place without any split."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Decisions of a place of the tree, and what is known of it."""

    stay: frozenset[int]
    cut: frozenset[int]
    node: Node
    solved: Solved


_Row = tuple[int, int, int, _Place]
"""Bound, minus the number of decisions, a number that makes rows differ, and the place."""


@dataclass(slots=True)
class Search:
    """Best-first search with an oracle, which has the fused graph and the clock."""

    oracle: Oracle
    whole: Solved | None = None
    best: Solved | None = None
    root: Node = field(default_factory=lambda: Node(Leaf(None, 0)))
    open: list[_Row] = field(default_factory=list)
    stuck: list[int] = field(default_factory=list)
    """Bounds of places at which all is decided and the order engine has left a gap."""
    branches: int = 0
    enough: int = 0
    """A place whose bound is above this is of no interest."""
    _number: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def fused(self) -> FusedGraph:
        """The fused graph."""
        return self.oracle.fused

    def run(self, wanted: int = 0) -> FusionResult:
        """Search until the bound is met, a limit is reached, or the user interrupts."""
        start, reason = time.perf_counter(), StopReason.EXHAUSTED
        try:
            with held_interrupts():
                self._run(wanted)
        except KeyboardInterrupt:
            if self.whole is None:
                raise
            reason = StopReason.INTERRUPTED
        else:
            clock = self.oracle.clock
            reason = clock.limit_reason() if clock.expired() else reason
        assert self.whole is not None
        assert self.best is not None
        best, bound = measured(self.fused, self.best), self._bound()
        return FusionResult(
            fused=self.fused,
            whole=measured(self.fused, self.whole),
            best=best,
            bound=bound,
            whole_bound=max(self.whole.bound, bound),
            tree=self.root,
            stop_reason=StopReason.PROVED if best.peak <= bound else reason,
            branches=self.branches,
            solves=self.oracle.solves,
            seconds=time.perf_counter() - start,
        )

    def _run(self, wanted: int) -> None:
        self.whole = self.best = self.oracle.solve(whole_split(self.fused))
        self.enough = self.whole.peak - wanted
        self._open(self._look(frozenset(), frozenset(), self.root, 0))
        while self.open and not self.oracle.clock.expired():
            bound = self.open[0][0]
            if bound >= self._peak() or bound > self.enough or self.branches >= MOST_BRANCHES:
                break
            self._branch(heapq.heappop(self.open))

    def _peak(self) -> int:
        assert self.best is not None
        return self.best.peak

    def _bound(self) -> int:
        """Return the least bound of the leaves; 0 before the first one is bounded."""
        if isinstance(self.root.at, Leaf) and self.root.at.solved is None:
            return 0
        return min([self._peak(), *self.stuck, *(row[0] for row in self.open)])

    def _open(self, row: _Row | None) -> None:
        if row is not None:
            heapq.heappush(self.open, row)

    def _look(
        self, stay: frozenset[int], cut: frozenset[int], node: Node, known: int
    ) -> _Row | None:
        """Bound a place and take over the choices that it gives; return it if it stays open."""
        fused, oracle = self.fused, self.oracle
        split = finest_split(fused, stay)
        inner = inner_buffers(fused, split)
        if cut & inner:
            # No split cuts a buffer whose users are tied together by others.
            node.at = Leaf(None, MOST_BYTES)
            return None
        solved = oracle.solve(split, fused.local - cut - inner)
        bound = max(known, solved.bound)
        node.at = Leaf(solved, bound)
        if bound >= self._peak():
            return None
        # Cut all undecided buffers, then keep all of them.
        for kept in (stay, fused.local - cut) if bound <= self.enough else ():
            self._take(oracle.follow(finest_split(fused, kept), solved.groups))
            if bound < self._peak() and not oracle.clock.expired():
                self._take(oracle.solve(finest_split(fused, kept)))
        return bound, -len(stay | cut), next(self._number), _Place(stay, cut, node, solved)

    def _take(self, found: Solved) -> None:
        if found.peak < self._peak():
            self.best = found

    def _branch(self, row: _Row) -> None:
        bound, _, _, place = row
        buffer = self._next_buffer(place)
        if buffer is None:
            self.stuck.append(bound)
            return
        stays, cut = Node(Leaf(None, 0)), Node(Leaf(None, 0))
        try:
            rows = [
                self._look(place.stay | {buffer}, place.cut, stays, bound),
                self._look(place.stay, place.cut | {buffer}, cut, bound),
            ]
        except KeyboardInterrupt:
            heapq.heappush(self.open, row)
            raise
        place.node.at = Branch(buffer, stays, cut)
        self.branches += 1
        for child in rows:
            self._open(child)

    def _next_buffer(self, place: _Place) -> int | None:
        """Return the largest undecided buffer that is live at the peak, or the nearest to it."""
        fused, solved = self.fused, place.solved
        owner = {v: i for i, group in enumerate(solved.split) for v in group}
        left = [
            b
            for b in fused.local - place.stay - place.cut
            if len({owner[v] for v in fused.users[b]}) > 1
        ]
        if not left:
            return None
        ranges = live_ranges(solved.graph, solved.order)
        at = int(np.argmax(timeline(solved.graph, solved.order).running))
        size = {b: fused.graph.buffers[b].size for b in left}

        def rank(b: int) -> tuple[int, int, int]:
            start, end = ranges[solved.graph.buffer_ids[fused.graph.buffers[b].name]]
            away = max(0, int(start) - at, at - int(end) + 1)
            return away, -size[b], b

        return min(left, key=rank)


def measured(fused: FusedGraph, solved: Solved) -> Point:
    """Return a split with its order as the checker measures it."""
    checked = check_split(fused, solved.groups)
    if checked.peak != solved.peak:
        raise RuntimeError(f"a split of peak {checked.peak} was counted as {solved.peak}")
    return Point(solved.groups, checked.peak, checked.kernels, checked.traffic)


def search_fusion(fused: FusedGraph, clock: Clock, *, wanted: int = 0) -> FusionResult:
    """Return the split and order of least peak, with a bound on all splits in all orders.

    Parameters
    ----------
    fused
        The fused graph.
    clock
        Limit of the search.
    wanted
        Bytes by which a split must be below the whole nodes; the search ends if none can be.

    Examples
    --------
    Fused, `exp` needs both inputs at once; cut, each is reduced before the other is made.

    >>> from optsched.model.builder import GraphBuilder
    >>> from optsched.runtime.limits import Limits
    >>> build = GraphBuilder("two")
    >>> for i in "ab":
    ...     build.op(f"make_{i}", writes={f"big_{i}": 9})
    ...     build.op(f"sum_{i}", reads=[f"big_{i}"], writes={f"small_{i}": 1})
    >>> build.output("small_a", "small_b")
    >>> fused = FusedGraph(graph=build.build(), nodes=((1, 3),), local=frozenset())
    >>> found = search_fusion(fused, Clock.of(Limits(seconds=5)))
    >>> found.whole.peak, found.best.peak, found.bound
    (20, 11, 11)
    """
    return Search(Oracle(fused, clock)).run(wanted)
