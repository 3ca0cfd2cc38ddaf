"""The best bound that an op or a set of ops gives, for a graph and for the same with other sizes.

Sizes change neither edges nor orders, so who runs before whom is worked out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optsched.model.graph import Graph
from optsched.model.liveness import Order
from optsched.ordering import closure_bound, closure_witness
from optsched.ordering.bound.precedences import related
from optsched.ordering.bound.sets import best_set, extremes
from optsched.ordering.context import OutOfTimeError, SearchContext
from optsched.ordering.problem import build_problem
from optsched.runtime.clock import Clock

TOO_MANY = 12_000
"""Of more ops no sets are looked at: a byte for each pair would be too many."""


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """An op, or a set of ops of which one is last (or first), that forces bytes.

    Parameters
    ----------
    value
        Bytes.
    op
        The op; of a set the one that forces fewest. None for the start or the end of the graph.
    ops
        The set; empty if it is one op.
    last
        Whether the last op of the set is meant; else the first.
    """

    value: int
    op: int | None
    ops: tuple[int, ...] = ()
    last: bool = True

    @property
    def before(self) -> tuple[int, ...]:
        """Other ops that have ended while the op is the bottleneck."""
        return self._others if self.last else ()

    @property
    def after(self) -> tuple[int, ...]:
        """Other ops that have not begun then."""
        return () if self.last else self._others

    @property
    def _others(self) -> tuple[int, ...]:
        return tuple(v for v in self.ops if v != self.op)


class Bounds:
    """Bounds of a graph and of the same with buffers of other sizes.

    Parameters
    ----------
    graph
        The graph.
    orders
        Known orders; the better they are, the fewer flows are needed.
    clock
        Its end raises :class:`OutOfTimeError`.
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
        return SearchContext(build_problem(graph.arrays), graph.arrays.initial, clock=self.clock)
