"""All orders of the streams of a small graph: either one packs below a slab, or none does.

Only the order in each stream counts, so of the many orders of all ops that say the same one is
looked at: the first by stream and number. It is the one in which no op stands behind a run of ops
that it could have come before, all of other streams and none needed by it, with one of them
larger (the lexicographic normal form of a trace).

Whoever precedes whom among the first ops of such an order stays so, whatever follows. So the
buffers allocated by then, and their largest total size that conflicts, are a bound on every order
that begins so.

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
from optsched.model.packing_problem import PackingProblem, packing_problem, select
from optsched.model.plan import Plan, placed_plan
from optsched.model.pools import pool_rows
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
    """Look for plans of at most so many bytes, and then of fewer, until none is left.

    At first a plan may have `below` bytes, of its slab or of its peak, for which offsets decide
    nothing. `offer` is called with each plan found, `offer_order` with each order where the peak is
    asked for; `below` then drops under it. Work is counted in states.
    """
    search = _StreamSearch(graph, below, Clock.of(limits), effort or EnumerationEffort())
    search.objective, search.offer, search.offer_order = objective, offer, offer_order
    complete = True
    try:
        search.extend(0, search.input_bytes)
    except GiveUpError:
        complete = False
    # What was not gone to the end of has more than `below`.
    least_peak = min([search.below + 1, *search.peaks])
    return EnumerationOutcome(complete, search.below, search.states, least_peak)


class _StreamSearch:
    """Depth-first through the beginnings of all orders in normal form."""

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
        """Go through all orders that begin with what stands there.

        No more than `conflicting` bytes of what is allocated by then conflict. An op adds no more
        than it allocates, so only where that may be too much it is worked out.
        """
        self.states += 1
        self.clock.spend(1)
        if self.states > self.effort.states or self.clock.expired():
            raise GiveUpError
        if len(self.order) == len(self.graph.ops):
            self._end()
            return
        for v in sorted(range(len(self.graph.ops)), key=lambda v: self.rank[v]):
            if placed >> v & 1 or self.needs[v] & ~placed or not self._is_normal(v):
                continue
            before, s = self.last[self.stream[v]], self.stream[v]
            self._put(v)
            after = conflicting + self.born_bytes[v]
            if after > self.below:
                after = self._conflicting()
            if after <= self.below:
                self.extend(placed | 1 << v, after)
            self.order.pop()
            self.last[s] = before

    def _is_normal(self, v: int) -> bool:
        """Whether an op could not have come earlier than a larger one."""
        for u in reversed(self.order):
            if self.stream[u] == self.stream[v] or self.needs[v] >> u & 1:
                return True
            if self.rank[u] > self.rank[v]:
                return False
        return True

    def _put(self, v: int) -> None:
        self.ancestors[v] = 0
        last = self.last[self.stream[v]]
        for u in (*self.graph.predecessors[v], *((last,) if last >= 0 else ())):
            self.ancestors[v] |= self.ancestors[u] | 1 << u
        self.last[self.stream[v]] = v
        self.order.append(v)

    def _conflicting(self) -> int:
        """Largest total size of conflicting buffers among those allocated so far."""
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
        """Take an order of which it is not known that it needs more, and look for less."""
        self.peaks.append(peak_memory(self.graph, self.order))
        if self.objective is Objective.PEAK:
            self.below = self.peaks[-1] - 1
            self.offer_order(self.order)
            return
        problem, ids = packing_problem(self.graph, self.order)
        found = self._pack(problem, pool_rows(self.graph, ids))
        if found is not None:
            slab, offsets = found
            self.below = slab - 1
            self.offer(placed_plan(self.graph, self.order, ids, offsets))

    def _pack(
        self, problem: PackingProblem, rows: Sequence[IntArray]
    ) -> tuple[int, IntArray] | None:
        """Return the least slab, of all pools together, and its offsets, if it is within reach."""
        if len(rows) < 2:
            # Most orders are refused, which takes less than to find their least slab.
            refused = self.oracle.within(problem, self.below) is None
            return None if refused else self.oracle.minimum(problem)
        total, offsets = 0, np.zeros(len(problem), np.int64)
        for row in rows:
            least = self.oracle.minimum(select(problem, row))
            if least is None or total + least[0] > self.below:
                return None
            total, offsets[row] = total + least[0], least[1]
        return total, offsets
