"""Few cuts for a peak: of the splits within a budget, one of few kernels, and then little traffic.

The search finds a split of least peak that cuts far more than is needed. Here the nodes that touch
what is live at the peak are cut first, until the budget is met; then nodes are made whole again by
delta debugging, most expensive first; then groups of the nodes that stay cut are joined again. Each
step keeps an order within the budget. Nodes whose cuts save nothing are made whole even if the time
is over before. The price has no bound.

Example: of 38 nodes that the best split cuts, three suffice, and of their 38 groups fifteen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from optsched.check.fused import check_split
from optsched.model.fused import FusedGraph, Group, Split
from optsched.model.fusion import arranged, is_acyclic
from optsched.model.liveness import live_ranges, timeline
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import held_interrupts
from optsched.runtime.limits import StopReason
from optsched.solver.fusion.oracle import Oracle, Solved, follow
from optsched.solver.fusion.result import FusionResult, Point
from optsched.solver.fusion.search import measured

Cuts = dict[int, tuple[Group, ...]]
"""Groups of the nodes that are cut."""


def shrink(result: FusionResult, budget: int, clock: Clock) -> Point:
    """Return a split within a budget with as few kernels as can be found in the time.

    `result`: result of the search. `budget`: bytes, at least the peak of the best split. `clock`:
    limit of this search; an interrupt returns the best split so far.
    """
    if result.whole.peak <= budget:
        return result.whole
    shrinker = Shrinker(Oracle(result.fused, clock), result, budget)
    shrinker.run()
    return shrinker.point()


FREE = 20_000
"""Parts of graphs that are made to find useless cuts even if the time is over: half a second."""


@dataclass(slots=True)
class Shrinker:
    """State: the cuts that are needed as far as known, and the order they are run in."""

    oracle: Oracle
    result: FusionResult
    budget: int
    cuts: Cuts = field(init=False)
    found: Solved | None = None

    def __post_init__(self) -> None:
        self.cuts = self.result.best.cut_nodes(self.fused)

    @property
    def fused(self) -> FusedGraph:
        """The fused graph."""
        return self.oracle.fused

    def point(self) -> Point:
        """Return the best split so far, or the search's own if that is cheaper."""
        best = self.result.best
        points = [best] if self.found is None else [measured(self.fused, self.found), best]
        useful = [with_useful_cuts(self.fused, point, self._over) for point in points]
        return min(useful, key=lambda x: (x.kernels, x.traffic, x.peak))

    def run(self) -> StopReason:
        """Shrink the cuts until the limit is reached or the user interrupts."""
        try:
            with held_interrupts():
                self._run()
        except KeyboardInterrupt:
            return StopReason.INTERRUPTED
        clock = self.oracle.clock
        return clock.limit_reason() if clock.expired() else StopReason.EXHAUSTED

    def _run(self) -> None:
        """Find nodes that suffice, drop those that are not needed, and join groups again."""
        self._try(self.cuts)
        self._try_few()
        self._drop_nodes()
        for k in sorted(self.cuts, key=lambda k: -len(self.cuts[k])):
            if self.oracle.clock.expired():
                break
            self._join_groups(k)

    def split(self, cuts: Cuts) -> Split:
        """Return the split that cuts these nodes and no other."""
        fused = self.fused
        groups = [group for k, node in enumerate(fused.nodes) for group in cuts.get(k, (node,))]
        alone = [(v,) for v in range(len(fused.graph.ops)) if v not in fused.node_of]
        return arranged(fused, [*groups, *alone])

    def _try(self, cuts: Cuts) -> bool:
        """Take over cuts if an order within the budget is found for them."""
        near = self.result.best.groups if self.found is None else self.found.groups
        found = self.oracle.fit(self.split(cuts), self.budget, near)
        if found is None:
            return False
        self.found, self.cuts = found, cuts
        return True

    def _try_few(self) -> None:
        """Cut the nodes that touch the peak, until the peak is within the budget."""
        full, chosen = self.cuts, set[int]()
        solved = self.oracle.solve(self.split({}))
        while solved.peak > self.budget and not self.oracle.clock.expired():
            more = (touching(self.fused, solved) & full.keys()) - chosen
            if not more:
                return
            chosen |= more
            solved = self.oracle.solve(self.split({k: full[k] for k in chosen}))
        if solved.peak <= self.budget and len(chosen) < len(full):
            self.found, self.cuts = solved, {k: full[k] for k in chosen}

    def _drop_nodes(self) -> None:
        """Make nodes whole again, many at once at first."""
        names = sorted(self.cuts, key=lambda k: -len(self.cuts[k]))
        without_chunks(names, lambda kept: self._try({k: self.cuts[k] for k in kept}), self._over)

    def _over(self) -> bool:
        return self.oracle.clock.expired()

    def _join_groups(self, k: int) -> None:
        """Join groups of a node, each with the first that it can be joined with."""
        joined: list[Group] = []
        rest = list(self.cuts[k])
        while rest:
            group = rest.pop(0)
            for i, other in enumerate(joined):
                if self._over():
                    return
                together = tuple(sorted(other + group))
                groups = (*joined[:i], together, *joined[i + 1 :], *rest)
                if self._may_join(k, groups) and self._try({**self.cuts, k: groups}):
                    joined[i] = together
                    break
            else:
                joined.append(group)

    def _may_join(self, k: int, groups: Sequence[Group]) -> bool:
        node = set(self.fused.nodes[k])
        others = [(v,) for v in range(len(self.fused.graph.ops)) if v not in node]
        return len(groups) == 1 or is_acyclic(self.fused, [*groups, *others])


def without_chunks(
    names: Sequence[int], fits: Callable[[Sequence[int]], bool], over: Callable[[], bool]
) -> None:
    """Drop names while the rest fits: halves first, then smaller chunks, as in delta debugging."""
    kept, size = list(names), max(1, len(names) // 2)
    while kept and not over():
        i = 0
        while i < len(kept) and not over():
            rest = kept[:i] + kept[i + size :]
            if fits(rest):
                kept = rest
            else:
                i += size
        if size == 1:
            return
        size //= 2


def touching(fused: FusedGraph, solved: Solved) -> set[int]:
    """Return the fused nodes that run at the peak, or use what is live there."""
    graph = solved.graph
    at = int(np.argmax(timeline(graph, solved.order).running))
    ranges = live_ranges(graph, solved.order)
    live = {
        b
        for b, (start, end) in enumerate(ranges.tolist())
        if start <= at < end and graph.buffers[b].size
    }
    found: set[int] = set()
    for i, op in enumerate(graph.ops):
        node = fused.node_of.get(solved.split[i][0])
        if node is not None and (
            i == solved.order[at] or live.intersection((*op.reads, *op.writes))
        ):
            found.add(node)
    return found


def with_useful_cuts(
    fused: FusedGraph, point: Point, over: Callable[[], bool] = lambda: False
) -> Point:
    """Return a split in which each cut saves bytes: nodes whose cuts save none are whole again.

    The order stays near to that of the given split, so no search is needed and the peak does not
    rise. If either of two cuts is enough, one of them stays. Where the time is `over`, cuts stay
    that were not tried with the first :data:`FREE` parts.
    """
    groups, peak, rows = point.groups, point.peak, point.cut_nodes(fused)
    cut = sorted(rows, key=lambda k: -len(rows[k]))

    spent = 0

    def is_over() -> bool:
        return spent > FREE and over()

    def fits(kept: Sequence[int]) -> bool:
        nonlocal groups, peak, cut, spent
        spent += len(fused.graph.ops)
        found = _whole_again(fused, groups, {*cut} - {*kept})
        if found.peak > peak:
            return False
        groups, peak, cut = found.groups, found.peak, list(kept)
        return True

    before: list[int] = []
    while cut != before and not is_over():
        # A cut may have become useless when another node was made whole, so all are tried again.
        before = cut
        without_chunks(cut, fits, is_over)
    if groups == point.groups:
        return point
    checked = check_split(fused, groups)
    return Point(groups, checked.peak, checked.kernels, checked.traffic)


def why_cut(fused: FusedGraph, point: Point, k: int) -> tuple[int, list[int]]:
    """Return the bytes that the cut of a node saves, and buffers that the whole node holds.

    The node is made whole again, while the other cuts stay, in the order nearest to that of the
    split. The buffers are those that it uses and that are live at the peak then, the largest ones
    first. The bytes are an upper limit on what the cut saves, as another order might do better.
    """
    found = _whole_again(fused, point.groups, {k})
    graph, order = found.graph, found.order
    at = int(np.argmax(timeline(graph, order).running))
    ranges = live_ranges(graph, order)
    node = graph.ops[found.split.index(tuple(sorted(fused.nodes[k])))]
    held = [b for b in (*node.reads, *node.writes) if ranges[b, 0] <= at < ranges[b, 1]]
    held.sort(key=lambda b: -graph.buffers[b].size)
    names = [graph.buffers[b].name for b in held if graph.buffers[b].size]
    return found.peak - point.peak, [fused.graph.buffer_ids[x] for x in names]


def _whole_again(fused: FusedGraph, groups: Split, nodes: Collection[int]) -> Solved:
    """Return a split with some nodes made whole, in the order nearest to the given one."""
    rest = [group for group in groups if fused.node_of.get(group[0]) not in nodes]
    return follow(fused, arranged(fused, [*rest, *(fused.nodes[k] for k in nodes)]), groups)
