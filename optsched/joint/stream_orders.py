"""Enumeration of all orders of the streams of a small graph: find a plan or refute all.

Only the order within each stream matters, so among all orders of all ops that agree on it, a single
representative is visited: the first one by stream and number. It is the order in which no op comes
directly after a run of ops that it could have come before, where all ops of the run are on other
streams, the op does not need any of them, and one of them is larger (the lexicographic normal form
of a trace).

The precedence among the first ops of such an order does not change when further ops are appended.
The largest total size of conflicting buffers among those allocated by the first ops is therefore a
lower bound on every order that starts with them.

Example: ops 0 and 1 are on stream A and op 2 is on stream B, without dependencies between the
streams. The orders `0 1 2`, `0 2 1` and `2 0 1` agree within each stream; only `0 1 2` is visited.

References
----------
A. V. Anisimov, D. E. Knuth. Inhomogeneous sorting. International Journal of Computer and
Information Sciences, 1979.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from optsched.joint.enumerate import EnumerationEffort, EnumerationOutcome
from optsched.joint.oracle import GiveUpError, PackingOracle
from optsched.model.antichain import heaviest_antichain
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.plan import Plan, placed_plan
from optsched.model.pools import pool_rows
from optsched.model.reductions import ByPool
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits, Objective


def enumerate_stream_orders(
    graph: Graph,
    below: int,
    *,
    objective: Objective,
    offer: Callable[[Plan], None],
    offer_order: Callable[[Sequence[int]], None],
    limits: Limits | Clock,
    effort: EnumerationEffort | None = None,
) -> EnumerationOutcome:
    """Search for plans below a limit that decreases with each plan found, to the end.

    Parameters
    ----------
    graph
        The graph, on several streams.
    below
        Initial limit in bytes on the slab or the peak; a plan may have at most this number of
        bytes.
    objective
        Quantity that is limited; offsets do not matter for the peak.
    offer
        Called with each plan found if the objective is the slab; the limit then drops below it.
    offer_order
        Called with each order found if the objective is the peak; the limit then drops below it.
    limits
        Time and work limits; work is counted in states.
    effort
        Limits after which the enumeration gives up.
    """
    search = _StreamSearch(graph, below, Clock.of(limits), effort or EnumerationEffort())
    search.objective, search.offer, search.offer_order = objective, offer, offer_order
    complete = True
    try:
        search.extend(0, search.input_bytes)
    except GiveUpError:
        complete = False
    # Pruned branches exceed `below`.
    least_peak = min([search.below + 1, *search.peaks])
    return EnumerationOutcome(complete, search.below, search.states, least_peak)


class _StreamSearch:
    """Depth-first search through the beginnings of all orders in normal form."""

    def __init__(self, graph: Graph, below: int, clock: Clock, effort: EnumerationEffort) -> None:
        self.graph, self.below, self.clock, self.effort = graph, below, clock, effort
        self.objective = Objective.SLAB
        self.offer: Callable[[Plan], None]
        self.offer_order: Callable[[Sequence[int]], None]
        self.oracle = PackingOracle(clock, effort.packing_seconds)
        self.states, self.peaks = 0, list[int]()
        arrays, ops = graph.arrays, graph.ops
        numbers = {name: s for s, name in enumerate(graph.streams)}
        self.stream = [numbers[op.stream] for op in ops]
        self.rank = [(s, v) for v, s in enumerate(self.stream)]
        self.needs = [sum(1 << u for u in row) for row in graph.predecessors]
        self.users = [0] * arrays.buffer_count
        for b in range(arrays.buffer_count):
            # An op that makes a buffer counts as a user: the buffer cannot end before it.
            made = (arrays.producer[b], arrays.birth[b])
            for v in (*arrays.user.row(b).tolist(), *(int(v) for v in made if v >= 0)):
                self.users[b] |= 1 << v
        sized = np.flatnonzero(arrays.size).tolist()
        counts = [b for b in sized if self.users[b] or arrays.keep[b]]
        self.inputs = [b for b in counts if arrays.birth[b] < 0]
        self.born: list[list[int]] = [[] for _ in ops]
        for b in counts:
            if arrays.birth[b] >= 0:
                self.born[arrays.birth[b]].append(b)
        self.input_bytes = int(arrays.size[self.inputs].sum())
        self.born_bytes = [int(arrays.size[row].sum()) for row in self.born]
        self.order: list[int] = []
        self.last: list[int] = [-1] * len(numbers)
        self.ancestors = [0] * len(ops)

    def extend(self, placed: int, conflicting: int) -> None:
        """Visit all orders that start with the current one.

        `conflicting` is an upper limit on the total size of conflicting buffers allocated so far.
        An op adds at most the bytes it allocates, so the exact size is computed only if this limit
        would exceed `below`.
        """
        self.states += 1
        self.clock.spend(1)
        if self.states > self.effort.states or self.clock.expired():
            raise GiveUpError
        if len(self.order) == len(self.graph.ops):
            self._end()
            return
        for v in sorted(range(len(self.graph.ops)), key=lambda v: self.rank[v]):
            # Not ready, or a reordering of an order that is visited elsewhere.
            if placed >> v & 1 or self.needs[v] & ~placed or not self._is_normal(v):
                continue
            before, s = self.last[self.stream[v]], self.stream[v]
            self._put(v)
            after = conflicting + self.born_bytes[v]
            # The upper limit is cheap; only if it fails the exact size is computed.
            if after > self.below:
                after = self._conflicting()
            if after <= self.below:
                self.extend(placed | 1 << v, after)
            self.order.pop()
            self.last[s] = before

    def _is_normal(self, v: int) -> bool:
        """Return True unless the op could have come before a larger one."""
        # From the newest op back, up to one that `v` cannot pass.
        for u in reversed(self.order):
            if self.stream[u] == self.stream[v] or self.needs[v] >> u & 1:
                return True
            if self.rank[u] > self.rank[v]:
                return False
        return True

    def _put(self, v: int) -> None:
        self.ancestors[v] = 0
        last = self.last[self.stream[v]]
        # The stream's own sequence is a dependency in this order.
        for u in (*self.graph.predecessors[v], *((last,) if last >= 0 else ())):
            self.ancestors[v] |= self.ancestors[u] | 1 << u
        self.last[self.stream[v]] = v
        self.order.append(v)

    def _conflicting(self) -> int:
        """Return the largest total size of conflicting buffers among those allocated so far."""
        arrays = self.graph.arrays
        buffers = [*self.inputs, *(b for v in self.order for b in self.born[v])]
        size = arrays.size[buffers]
        pairs = [
            (i, j)
            for i, b in enumerate(buffers)
            if not arrays.keep[b]
            for j, c in enumerate(buffers)
            if arrays.birth[c] >= 0 and not self.users[b] & ~self.ancestors[arrays.birth[c]]
        ]
        return heaviest_antichain(size, np.array(pairs, np.int64).reshape(-1, 2))

    def _end(self) -> None:
        """Evaluate a complete order, and lower the limit if it meets the current one."""
        self.peaks.append(peak_memory(self.graph, self.order))
        if self.objective is Objective.PEAK:
            self.below = self.peaks[-1] - 1
            self.offer_order(self.order)
            return
        problem, ids = packing_problem(self.graph, self.order)
        # Widened live ranges keep more buffers apart than the order does, so a plan that they
        # refute may exist.
        if problem.is_widened:
            raise GiveUpError
        found = self._pack(problem, pool_rows(self.graph, ids))
        if found is not None:
            slab, offsets = found
            self.below = slab - 1
            self.offer(placed_plan(self.graph, self.order, ids, offsets))

    def _pack(self, problem: PackingProblem, rows: ByPool) -> tuple[int, IntArray] | None:
        """Return the minimum slab, or sum of slabs, with offsets; None if it exceeds `below`."""
        if len(rows) < 2:
            # Most orders do not fit, and refuting them is faster than finding their minimum slab.
            refused = self.oracle.within(problem, self.below) is None
            return None if refused else self.oracle.minimum(problem)
        total, packed = 0, list[IntArray]()
        for part in rows.reduce(problem):
            least = self.oracle.minimum(part)
            if least is None or total + least[0] > self.below:
                return None
            total += least[0]
            packed.append(least[1])
        return total, rows.lift(problem, packed)
