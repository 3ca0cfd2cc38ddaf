"""Bounds from one op or a set of ops: the buffers live at the bottleneck, and helpful changes.

A change of a buffer's size does not change edges or orders, so reachability is computed once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from optsched.explanation.data import Change, LiveBuffer
from optsched.model.graph import Graph
from optsched.model.steps import Order
from optsched.ordering import closure_bound, closure_witness
from optsched.ordering.bound.closure import Bottleneck
from optsched.ordering.bound.order_bound import OrderBound
from optsched.ordering.bound.precedences import related
from optsched.ordering.bound.single_ops import op_bound
from optsched.ordering.bound.table import ORDER_BOUNDS
from optsched.ordering.context import OutOfTimeError, SearchContext
from optsched.ordering.kernels.cut import Flags
from optsched.ordering.problem import build_problem
from optsched.runtime.clock import Clock

TOO_MANY = 12_000
"""Maximum number of ops for set bounds, which need one byte per pair of ops."""


class Bounds:
    """Lower bounds on the peak of a graph, and of copies with other buffer sizes.

    Good known `orders` reduce the number of flow computations. All methods raise
    :class:`OutOfTimeError` when the clock expires.
    """

    def __init__(self, graph: Graph, orders: Sequence[Order], clock: Clock) -> None:
        self.orders, self.clock = orders, clock
        self.graph = graph
        self.found: list[OrderBound] = []
        self.above: Flags | None = None

    def look_at_all(self) -> bool:
        """Enable bounds of several ops; return True if the graph is small enough for them."""
        if len(self.graph.ops) > TOO_MANY:
            return False
        # Reachability takes a byte per pair of ops, hence the limit.
        self.above = related(build_problem(self.graph.arrays))
        return True

    def strongest(self, graph: Graph) -> Bottleneck:
        """Return the best bound over all ops, the sets found earlier and newly found sets."""
        closure = closure_bound(graph, self.orders, clock=self.clock)
        if not closure.complete:
            raise OutOfTimeError
        if self.above is None:
            return closure
        best: Bottleneck = closure
        context = self.problem(graph)
        # Sets found for other sizes are bounds for this one too.
        for earlier in self.found:
            held = earlier.again(context, self.above)
            best = held if held.value > best.value else best
        for row in ORDER_BOUNDS:
            found = row.find(context, self.above, best.value)
            if found is not None:
                self.found.append(found)
                best = found
        return best

    def value_of(self, graph: Graph, found: Bottleneck) -> int:
        """Return the bytes that an op or set forces in a copy with other buffer sizes."""
        if isinstance(found, OrderBound):
            assert self.above is not None
            return found.again(self.problem(graph), self.above).value
        assert found.op is not None
        return closure_witness(graph, found.op).value

    def problem(self, graph: Graph) -> SearchContext:
        """Return the search context of the graph or of a copy with other sizes."""
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

    `op` is None for the start or the end of the graph. `done` is the set of finished ops, which is
    closed under predecessors. `before` and `after` are ops that, besides those implied by edges,
    have always finished, or not started, when the op is the bottleneck.
    """
    arrays = graph.arrays
    done, forced = set(done), set[int]()
    if op is not None:
        forced = set(op_bound(arrays, op, done=before, later=after).buffers)
    rows = []
    for b in np.flatnonzero(arrays.size > 0).tolist():
        birth, producer = int(arrays.birth[b]), int(arrays.producer[b])
        # Not made yet, and not made by this op.
        if birth >= 0 and birth != op and birth not in done:
            continue
        users = [v for v in arrays.user.row(b).tolist() if v not in done]
        waits = producer >= 0 and producer not in done
        kept = bool(arrays.keep[b])
        if users or kept or waits:
            # A buffer whose maker is still to finish is held by it.
            holders = (*([producer] if waits and producer not in users else []), *users)
            rows.append(
                LiveBuffer(
                    b,
                    int(arrays.size[b]),
                    None if producer < 0 else producer,
                    holders,
                    kept,
                    # A buffer written in place is live too, although it takes no bytes of its own.
                    op is None or b in forced or op in (birth, producer, *users),
                )
            )
    return tuple(sorted(rows, key=lambda row: (-row.size, row.buffer)))


def shrink(bounds: Bounds, buffer: int, found: Bottleneck) -> Change:
    """Find the minimum bound over all smaller sizes of a buffer, and the largest size that has it.

    `found` is the bottleneck of the unchanged graph. When the buffer shrinks, another op or set of
    ops may become the bottleneck. A set found at one size gives a bound at every size, so the
    search restarts whenever a set is found.
    """
    while True:
        known = len(bounds.found)
        change = _shrink(bounds, buffer, found)
        # A new set may be a better bound at sizes that were tried before.
        if len(bounds.found) == known:
            return change


def _shrink(bounds: Bounds, buffer: int, found: Bottleneck) -> Change:
    """Find the minimum bound and its largest size for the sets known so far.

    The buffer's in-place pairs change at a few sizes only. Between two of these sizes, the bytes
    that one op or set forces are constant while the buffer is large, and fall byte for byte below
    some size. If the op is above the minimum bound `low` at the current size, the size at which it
    reaches `low` can therefore be computed directly: from the value at the lower end of the
    interval, or from the excess. The search moves to that size and repeats until no op or set is
    above `low`.
    """

    def resized(size: int) -> Graph:
        if bounds.clock.expired():
            raise OutOfTimeError
        smaller = replace(graph.buffers[buffer], size=size)
        buffers = (*graph.buffers[:buffer], smaller, *graph.buffers[buffer + 1 :])
        return replace(graph, buffers=buffers)

    graph = bounds.graph
    full, known = graph.buffers[buffer].size, len(bounds.found)
    turns = {size: bounds.strongest(resized(size)) for size in _turns(graph, buffer)}
    low = min(bound.value for bound in turns.values())
    # No size lowers the bound.
    if found.value <= low:
        return Change(buffer, 0, found.value, found.op, isinstance(found, OrderBound))
    start = max(size for size, bound in turns.items() if bound.value == low)
    base = resized(start)
    # The largest size below the next turn, where pairs are as they are here.
    size = min((turn for turn in turns if turn > start), default=full + 1) - 1
    at = bounds.strongest(resized(size))
    while at.value > low and len(bounds.found) == known:
        if at.op is None:
            # Inputs or outputs force it: each byte less is a byte less there.
            size -= at.value - low
        else:
            size = start + low - bounds.value_of(base, at)
        at = bounds.strongest(resized(size))
    return Change(buffer, full - size, low, at.op, isinstance(at, OrderBound))


def _turns(graph: Graph, buffer: int) -> set[int]:
    """Return 0 and the sizes, up to the buffer's own, at which its in-place pairs change."""
    turns = {0}
    for _, output, named in graph.inplace:
        pair = (output, graph.roots[named])
        if buffer in pair:
            # At equal sizes an output may overwrite an input; one byte more, and it may not.
            size = graph.buffers[pair[pair[0] == buffer]].size
            turns |= {size, size + 1}
    return {size for size in turns if size <= graph.buffers[buffer].size}
