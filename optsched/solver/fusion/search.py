"""Search of the choice of local buffers whose graph has the least peak, with a bound on all.

The search is branch and bound. A node of its tree decides some local buffers: each stays inside one
group or is cut. The node's bound is the least peak of a graph in which the parts that use a buffer
that stays are joined, buffers that are cut have their bytes, and undecided buffers have 0 bytes
(the lemma of :mod:`optsched.model.fusion`). If this bound is too low, the second relaxation
(:mod:`optsched.model.allowances`) is solved as well. The open node of smallest bound is branched
next (:mod:`optsched.solver.fusion.branching`). Each node also gives two splits: one keeps all
undecided buffers inside groups, the other cuts all of them.

Example: `t` of 8 bytes is undecided at the root, whose bound is 10. If `t` stays, 12 bytes are
needed, since two large buffers are then live together; if `t` is cut, 18. So the least peak is 12.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from optsched.check.fused import check_split
from optsched.model.fused import FusedGraph
from optsched.model.fusion import finest_split, inner_buffers, whole_split
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import held_interrupts
from optsched.runtime.limits import StopReason
from optsched.solver.fusion.branching import near_peak, next_buffer, quick_bound
from optsched.solver.fusion.oracle import Oracle, Solved, follow
from optsched.solver.fusion.result import Branch, FusionResult, Leaf, Node, Point

MOST_BRANCHES = 2_000
"""Most nodes of the tree that are branched."""
DEEPEST = 400
"""Most decisions above a leaf; readers of certificates refuse deeper trees."""
MOST_BYTES = 2**63
"""Bound of a node that no split agrees with."""


@dataclass(frozen=True, slots=True)
class _Open:
    """Decisions of an open node of the tree, with the solved graph of its bound."""

    stay: frozenset[int]
    cut: frozenset[int]
    node: Node
    solved: Solved
    both: bool = False
    """True once both relaxations are solved."""

    @property
    def allowed(self) -> bool:
        """True if the bound is that of the relaxation with allowances."""
        return self.solved.above > 0


_Row = tuple[int, int, int, _Open]
"""Bound, minus the number of decisions, a number that makes rows differ, and the open node."""


@dataclass(slots=True)
class Search:
    """Best-first search with an oracle, which has the fused graph and the clock."""

    oracle: Oracle
    whole: Solved | None = None
    best: Solved | None = None
    root: Node = field(default_factory=lambda: Node(Leaf(None, 0)))
    open: list[_Row] = field(default_factory=list)
    stuck: list[int] = field(default_factory=list)
    """Bounds of nodes that are not branched: all is decided and the order engine has left a gap, or
    the tree is as deep as it may be."""
    branches: int = 0
    bounded: bool = False
    """True once the bound of the root is known, which holds for all splits."""
    enough: int = 0
    """Nodes of a larger bound are not branched."""
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
        whole, bound = measured(self.fused, self.whole), self._bound()
        best = whole if self.best is self.whole else measured(self.fused, self.best)
        # A Ctrl-C during the last step of a proof is reported, too.
        if best.peak <= bound and reason is not StopReason.INTERRUPTED:
            reason = StopReason.PROVED
        return FusionResult(
            fused=self.fused,
            whole=whole,
            best=best,
            bound=bound,
            tree=self.root,
            stop_reason=reason,
            branches=self.branches,
            solves=self.oracle.solves,
            seconds=time.perf_counter() - start,
        )

    def _run(self, wanted: int) -> None:
        self.whole = self.best = self.oracle.solve(whole_split(self.fused))
        self.enough = self.whole.peak - wanted
        # The graph of the root's bound has an op per part, and takes longer than whole nodes.
        if self.oracle.clock.expired():
            return
        self._add([self._look(frozenset(), frozenset(), self.root, None)])
        while self.open and not self.oracle.clock.expired():
            bound = self.open[0][0]
            if bound >= self._peak() or bound > self.enough or self.branches >= MOST_BRANCHES:
                break
            row = heapq.heappop(self.open)
            try:
                if row[3].both:
                    self._branch(row)
                else:
                    self._add([self._look_again(row)])
            except KeyboardInterrupt:
                # The bound counts open nodes, so an interrupt must not lose one.
                heapq.heappush(self.open, row)
                raise

    def _peak(self) -> int:
        assert self.best is not None
        return self.best.peak

    def _bound(self) -> int:
        """Return the least bound of the leaves; 0 before the first one is bounded."""
        if not self.bounded:
            return 0
        return min([self._peak(), *self.stuck, *(row[0] for row in self.open)])

    def _add(self, found: Iterable[_Row | None]) -> None:
        """Queue nodes that stay open, and then take over the splits that they give."""
        rows = [row for row in found if row is not None]
        for row in rows:
            heapq.heappush(self.open, row)
        self.bounded = True
        for bound, _, _, at in rows:
            if bound <= self.enough and not self.oracle.clock.expired():
                self._take_splits(at, bound)

    def _look(
        self, stay: frozenset[int], cut: frozenset[int], node: Node, above: _Row | None
    ) -> _Row | None:
        """Bound a node by the relaxation that bounds the one above; return it if it stays open."""
        split = finest_split(self.fused, stay)
        if cut & inner_buffers(self.fused, split):
            # No split cuts a buffer whose users are tied together by others.
            node.at = Leaf(None, MOST_BYTES)
            return None
        known = 0 if above is None else above[0]
        solved = self.oracle.relaxed(split, cut, allowed=above is not None and above[3].allowed)
        bound = max(known, solved.bound)
        node.at = Leaf(solved, bound)
        if bound >= self._peak():
            return None
        return bound, -len(stay | cut), next(self._number), _Open(stay, cut, node, solved)

    def _look_again(self, row: _Row) -> _Row | None:
        """Bound a node by the other relaxation, too; return it if it stays open."""
        bound, depth, _, at = row
        seen, number = replace(at, both=True), next(self._number)
        if not self._helps(row):
            return bound, depth, number, seen
        solved = self.oracle.relaxed(at.solved.split, at.cut, allowed=not at.allowed)
        if solved.bound > bound:
            at.node.at = Leaf(solved, solved.bound)
            bound, seen = solved.bound, replace(seen, solved=solved)
        return None if bound >= self._peak() else (bound, depth, number, seen)

    def _helps(self, row: _Row) -> bool:
        """Return True if the other relaxation may be the better one: at the root, and by flows."""
        bound, depth, _, at = row
        if not near_peak(self.fused, at.solved, at.cut):
            return False
        other, peak = not at.allowed, self._peak()
        return not depth or (
            quick_bound(self.oracle, at.solved, at.stay, at.cut, peak, other) > bound
        )

    def _take_splits(self, at: _Open, bound: int) -> None:
        """Solve the splits that cut all undecided buffers, and that keep all of them."""
        fused, oracle = self.fused, self.oracle
        for kept in (at.stay, fused.local - at.cut):
            if oracle.clock.expired():
                return
            split = finest_split(fused, kept)
            self._take(follow(fused, split, at.solved.groups))
            if bound < self._peak() and not oracle.clock.expired():
                self._take(oracle.solve(split))

    def _take(self, found: Solved) -> None:
        if found.peak < self._peak():
            self.best = found

    def _branch(self, row: _Row) -> None:
        bound, _, _, at = row
        buffer = next_buffer(self.oracle, at.solved, at.stay, at.cut, self._peak())
        if buffer is None or len(at.stay | at.cut) >= DEEPEST:
            self.stuck.append(bound)
            return
        stays, cut = Node(Leaf(None, 0)), Node(Leaf(None, 0))
        rows = [
            self._look(at.stay | {buffer}, at.cut, stays, row),
            self._look(at.stay, at.cut | {buffer}, cut, row),
        ]
        at.node.at = Branch(buffer, stays, cut)
        self.branches += 1
        self._add(rows)


def measured(fused: FusedGraph, solved: Solved) -> Point:
    """Return a split with its order as the checker measures it."""
    checked = check_split(fused, solved.groups)
    if checked.peak != solved.peak:
        raise RuntimeError(f"a split of peak {checked.peak} was counted as {solved.peak}")
    return Point(solved.groups, checked.peak, checked.kernels, checked.traffic)


def search_fusion(fused: FusedGraph, clock: Clock, *, wanted: int = 0) -> FusionResult:
    """Return the split and order of least peak, with a bound on all splits in all orders.

    `fused`: the fused graph. `clock`: limit of the search. `wanted`: bytes by which a split must be
    below the whole nodes; the search ends if none can be.

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
