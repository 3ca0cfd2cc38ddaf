"""The best bound that an op or a set of ops gives, what is live then, and what would lower it.

A smaller buffer changes neither edges nor orders, so who runs before whom is worked out once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optsched.explanation.data import Change, LiveBuffer
from optsched.model.graph import Graph
from optsched.model.steps import Order
from optsched.ordering import closure_bound, closure_witness
from optsched.ordering.bound.precedences import related
from optsched.ordering.bound.sets import best_set, extremes
from optsched.ordering.bound.single_ops import op_bound
from optsched.ordering.context import OutOfTimeError, SearchContext
from optsched.ordering.problem import build_problem
from optsched.runtime.clock import Clock

TOO_MANY = 12_000
"""Of more ops no sets are looked at: a byte for each pair would be too many."""


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """An op, or a set of ops of which one is last (or first), that forces bytes."""

    value: int
    op: int | None
    """The op; of a set the one that forces fewest. None for the start or the end of the graph."""
    ops: tuple[int, ...] = ()
    """The set; empty if it is one op."""
    last: bool = True
    """Whether the last op of the set is meant; else the first."""


class Bounds:
    """Bounds of a graph and of the same with buffers of other sizes.

    The better the known orders are, the fewer flows are needed. The end of the clock raises
    :class:`OutOfTimeError`.
    """

    def __init__(self, graph: Graph, orders: Sequence[Order], clock: Clock) -> None:
        self.orders, self.clock = orders, clock
        self.graph = graph
        self.sets: dict[tuple[tuple[int, ...], bool], None] = {}
        self.above: np.ndarray | None = None

    def look_at_sets(self) -> bool:
        """Take sets into account from here on; whether the graph is small enough for it."""
        if len(self.graph.ops) > TOO_MANY:
            return False
        self.above = related(build_problem(self.graph.arrays))
        return True

    def strongest(self, graph: Graph) -> Bottleneck:
        """The best bound over all ops, over the sets that are found and those found before."""
        found = closure_bound(graph, self.orders, clock=self.clock)
        if not found.complete:
            raise OutOfTimeError
        best = Bottleneck(found.value, found.op)
        if self.above is None:
            return best
        for ops, last in self.sets:
            held = self.of_set(graph, ops, last=last)
            best = held if held.value > best.value else best
        new = best_set(self.problem(graph), self.above, best.value)
        if new is None:
            return best
        self.sets[new.ops, new.last] = None
        return Bottleneck(new.value, new.op, new.ops, new.last)

    def value_of(self, graph: Graph, found: Bottleneck) -> int:
        """What an op or set forces where buffers have other sizes."""
        if found.ops:
            return self.of_set(graph, found.ops, last=found.last).value
        assert found.op is not None
        return closure_witness(graph, found.op).value

    def of_set(self, graph: Graph, ops: tuple[int, ...], *, last: bool) -> Bottleneck:
        """The bound that a set of ops gives."""
        op, value = self.candidates(graph, ops, last=last)[0]
        return Bottleneck(value, op, ops, last)

    def candidates(
        self, graph: Graph, ops: tuple[int, ...], *, last: bool
    ) -> tuple[tuple[int, int], ...]:
        """Each op of a set that may be the last, and what it then forces; fewest bytes first."""
        assert self.above is not None
        problem = self.problem(graph)
        found = extremes(problem, self.above, np.array(ops, np.int64), last=last)
        return tuple(sorted(found, key=lambda pair: (pair[1], pair[0])))

    def problem(self, graph: Graph) -> SearchContext:
        """The order problem of the graph, or of the same with other sizes."""
        return SearchContext(build_problem(graph.arrays), clock=self.clock)


def live_buffers(
    graph: Graph,
    op: int | None,
    done: Collection[int],
    *,
    before: Collection[int] = (),
    after: Collection[int] = (),
) -> tuple[LiveBuffer, ...]:
    """Return the buffers that are live while an op runs, the largest first.

    `op` is None for the start or the end of the graph; `done` is a downset, the ops that have
    ended. `before` and `after` are those that have ended, or not begun, whenever the op is the
    bottleneck, besides the ones that edges tell of.
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
                    # What is written in place is live too, though it takes no bytes of its own.
                    op is None or b in forced or op in (birth, producer, *users),
                )
            )
    return tuple(sorted(rows, key=lambda row: (-row.size, row.buffer)))


def shrink(bounds: Bounds, buffer: int, found: Bottleneck) -> Change:
    """Find the minimum bound over all smaller sizes of a buffer, and the largest size that has it.

    `found` is the bottleneck of the graph as it is. When the buffer shrinks, another op or set of
    ops may become the bottleneck. A set that is found at one size gives a bound at every size, so
    the search starts again whenever one is found.
    """
    while True:
        known = len(bounds.sets)
        change = _shrink(bounds, buffer, found)
        if len(bounds.sets) == known:
            return change


def _shrink(bounds: Bounds, buffer: int, found: Bottleneck) -> Change:
    """Find it for the sets known so far.

    The buffer's in-place pairs change at a few sizes only. Between two of these, what one op or set
    forces does not change while the buffer is large, and falls byte for byte once it is smaller
    than some size. So an op that is still above the minimum bound `low` at one size reaches it at
    the size that is larger, by what is missing, than the lower end of the stretch; the search goes
    there, and on, until no op or set is above `low`.
    """

    def resized(size: int) -> Graph:
        smaller = replace(graph.buffers[buffer], size=size)
        buffers = (*graph.buffers[:buffer], smaller, *graph.buffers[buffer + 1 :])
        return replace(graph, buffers=buffers)

    graph = bounds.graph
    full, known = graph.buffers[buffer].size, len(bounds.sets)
    turns = {size: bounds.strongest(resized(size)) for size in _turns(graph, buffer)}
    low = min(bound.value for bound in turns.values())
    if found.value <= low:
        return Change(buffer, 0, found.value, found.op, bool(found.ops))
    start = max(size for size, bound in turns.items() if bound.value == low)
    base = resized(start)
    size = min((turn for turn in turns if turn > start), default=full + 1) - 1
    at = bounds.strongest(resized(size))
    while at.value > low and len(bounds.sets) == known:
        if at.op is None:
            size -= at.value - low
        else:
            size = start + low - bounds.value_of(base, at)
        at = bounds.strongest(resized(size))
    return Change(buffer, full - size, low, at.op, bool(at.ops))


def _turns(graph: Graph, buffer: int) -> set[int]:
    """Sizes, up to a buffer's own, from which on it is in other in-place pairs; and 0."""
    turns = {0}
    for _, output, named in graph.inplace:
        pair = (output, graph.roots[named])
        if buffer in pair:
            size = graph.buffers[pair[pair[0] == buffer]].size
            turns |= {size, size + 1}
    return {size for size in turns if size <= graph.buffers[buffer].size}
