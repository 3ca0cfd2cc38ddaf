"""All orders of a small graph: either one packs below a slab, or none does, and that is a proof.

Orders grow op by op. Whether an order packs into a capacity depends only on which buffers are live
together, and a subset of conflicts that does not pack refutes every order that has them all. So a
refused order is cut down, from its end and from its beginning, to a short stretch of steps that
still does not pack; the conflicts of that stretch are kept, and no order is grown further once it
has all conflicts of one of them. States from which no order stays within the capacity are kept too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from optsched.arrays import IntArray
from optsched.errors import GraphError
from optsched.graph import Graph
from optsched.inplace import refuse_inplace
from optsched.packing import solve_packing
from optsched.plan import Plan, make_plan
from optsched.problem import PackingProblem, packing_problem
from optsched.result import Limits, StopReason

MOST_STATES = 100_000
"""Partial orders that are looked at before the search gives up."""
PACK_SECONDS = 5.0
"""What one packing may take; without a decision the search gives up."""
LOOK = 64
"""Partial orders between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """What a search through all orders came to.

    Parameters
    ----------
    complete
        Whether every order was packed or refuted.
    refuted
        If complete: no order of the graph packs into so many bytes.
    states, packings, cores
        Partial orders, packing problems, and refuted stretches it took.
    """

    complete: bool
    refuted: int
    states: int
    packings: int
    cores: int


class _GiveUpError(Exception):
    """The limits of the search are reached."""


def exhaust(
    graph: Graph,
    capacity: int,
    *,
    floor: int,
    offer: Callable[[Plan], None],
    limits: Limits,
    most_states: int = MOST_STATES,
) -> Exhausted:
    """Look for plans within a capacity, and then within less, until none is left.

    Parameters
    ----------
    graph
        The graph; not in-place, one pool.
    capacity
        Bytes that the slab may have at first.
    floor
        No slab is below: a plan of so many bytes ends the search.
    offer
        Called with each plan within the capacity; the capacity then drops below its slab.
    limits
        Time and seed.
    most_states
        When to give up.
    """
    refuse_inplace(graph, "the search of all orders")
    search = _Search(graph, capacity, floor, offer, limits, most_states)
    complete = True
    try:
        search.grow([], 0, search.first, 0)
    except _GiveUpError:
        complete = False
    return Exhausted(complete, search.capacity, search.states, search.packings, len(search.refuted))


class _Search:
    def __init__(
        self,
        graph: Graph,
        capacity: int,
        floor: int,
        offer: Callable[[Plan], None],
        limits: Limits,
        most_states: int,
    ) -> None:
        self.graph, self.capacity, self.floor, self.offer = graph, capacity, floor, offer
        self.limits, self.most_states = limits, most_states
        self.end = None if limits.seconds is None else time.perf_counter() + limits.seconds
        self.states = self.packings = 0
        self.refuted: list[int] = []
        self.dead: set[int] = set()
        self.seen: set[tuple[int, int]] = set()
        arrays = graph.arrays
        self.ops = len(graph.ops)
        self.all = (1 << self.ops) - 1
        self.needs = [sum(1 << u for u in before) for before in graph.predecessors]
        order = [int(v) for v in _topological(graph)]
        _, ids = packing_problem(graph, order)
        self.position = {int(b): i for i, b in enumerate(ids)}
        self.size = [int(arrays.size[b]) for b in ids]
        self.kept = [bool(arrays.keep[b]) for b in ids]
        self.users: list[int] = []
        self.born: list[list[int]] = [[] for _ in graph.ops]
        self.first = 0
        for i, b in enumerate(ids.tolist()):
            users = {*arrays.user.row(b).tolist(), int(arrays.producer[b])} - {-1}
            self.users.append(sum(1 << v for v in users))
            if arrays.birth[b] < 0:
                self.first |= 1 << i
            else:
                self.born[int(arrays.birth[b])].append(i)

    def grow(self, order: list[int], done: int, live: int, conflicts: int) -> int:
        """Try all ways to go on; return to which length the order is to be cut back.

        `live` are the buffers after the ops done. Whatever begins with the steps up to the length
        returned has been decided.
        """
        self._count()
        if not order:
            conflicts = self._clique(self.first)
            if self._bytes(self.first) > self.capacity:
                return 0
        if done == self.all:
            return self._pack(order)
        key = (done, conflicts)
        if done in self.dead or key in self.seen:
            return len(order)
        alive = False
        for v in range(self.ops):
            if done >> v & 1 or self.needs[v] & ~done:
                continue
            during = live
            more = conflicts
            for i in self.born[v]:
                more |= self._pairs(i, during)
                during |= 1 << i
            if self._bytes(during) > self.capacity:
                continue
            if self._is_refuted(more):
                alive = True
                continue
            after = done | 1 << v
            cut = self.grow([*order, v], after, self._release(during, after), more)
            if cut < len(order):
                return cut
            alive = alive or after not in self.dead
        if not alive:
            self.dead.add(done)
        self.seen.add(key)
        return len(order)

    def _pack(self, order: list[int]) -> int:
        """Decide a whole order: offer its packing, or keep the conflicts that refute it."""
        problem, ids = packing_problem(self.graph, order)
        offsets = self._decide(problem)
        while offsets is not None:
            plan = make_plan(self.graph, order, offsets)
            slab = plan.slab(self.graph)
            self.offer(plan)
            self.capacity = slab - 1
            if self.capacity < self.floor:
                return -1
            offsets = self._decide(problem)
        low, high = self._shorten(problem)
        start, end = np.maximum(problem.start, low), np.minimum(problem.end, high)
        inside = np.flatnonzero(start < end).tolist()
        core = 0
        for a in inside:
            for b in inside:
                if b < a and start[a] < end[b] and start[b] < end[a]:
                    core |= self._pair(self.position[int(ids[a])], self.position[int(ids[b])])
        self.refuted.append(core)
        # Every order that begins with the same `high` ops has the same stretch.
        return high - 1

    def _shorten(self, problem: PackingProblem) -> tuple[int, int]:
        """Return steps `[low, high)` of which the packing alone is refused: `high` least first."""
        low, high = 0, self.ops
        least = 1
        while least < high:
            middle = (least + high) // 2
            if self._decide(_clip(problem, 0, middle)) is None:
                high = middle
            else:
                least = middle + 1
        most = high - 1
        while low < most:
            middle = (low + most + 1) // 2
            if self._decide(_clip(problem, middle, high)) is None:
                low = middle
            else:
                most = middle - 1
        return low, high

    def _decide(self, problem: PackingProblem) -> IntArray | None:
        """Return offsets within the capacity, or None if there are none."""
        if problem.max_load > self.capacity:
            return None
        self.packings += 1
        left = None if self.end is None else max(0.0, self.end - time.perf_counter())
        seconds = PACK_SECONDS if left is None else min(PACK_SECONDS, left)
        limits = Limits(seconds=seconds, seed=self.limits.seed)
        try:
            outcome = solve_packing(problem, limits=limits, capacity=self.capacity)
        except GraphError:
            # Two pins clash in this order.
            return None
        if outcome.stop_reason is StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        if outcome.slab is not None and outcome.slab <= self.capacity:
            return outcome.offsets
        if outcome.bound > self.capacity:
            return None
        raise _GiveUpError

    def _count(self) -> None:
        self.states += 1
        if self.states > self.most_states:
            raise _GiveUpError
        late = self.end is not None and time.perf_counter() > self.end
        if self.states % LOOK == 0 and late:
            raise _GiveUpError

    def _release(self, live: int, done: int) -> int:
        for i in _bits(live):
            if not self.kept[i] and not self.users[i] & ~done:
                live &= ~(1 << i)
        return live

    def _bytes(self, live: int) -> int:
        return sum(self.size[i] for i in _bits(live))

    def _is_refuted(self, conflicts: int) -> bool:
        return any(core & conflicts == core for core in self.refuted)

    def _clique(self, live: int) -> int:
        found, before = 0, 0
        for i in _bits(live):
            found |= self._pairs(i, before)
            before |= 1 << i
        return found

    def _pairs(self, i: int, live: int) -> int:
        return sum(self._pair(i, j) for j in _bits(live))

    def _pair(self, i: int, j: int) -> int:
        return 1 << max(i, j) * len(self.size) + min(i, j)


def _clip(problem: PackingProblem, low: int, high: int) -> PackingProblem:
    """Leave only what happens in the steps `[low, high)`."""
    start = np.clip(problem.start, low, high)
    return replace(problem, start=start, end=np.maximum(start, np.clip(problem.end, low, high)))


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _topological(graph: Graph) -> list[int]:
    done: set[int] = set()
    order: list[int] = []
    while len(order) < len(graph.ops):
        for v in range(len(graph.ops)):
            if v not in done and done.issuperset(graph.predecessors[v]):
                order.append(v)
                done.add(v)
    return order
