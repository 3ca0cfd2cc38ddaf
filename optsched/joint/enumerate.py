"""All orders of a small graph: either one packs below a slab, or none does, and that is a proof.

Orders grow op by op. Whether an order packs into a capacity depends only on which buffers are live
together, and a subset of conflicts that does not pack refutes every order that has them all. So a
refused order is cut down, from its end and from its beginning, to a short stretch of steps that
still does not pack; the conflicts of that stretch are kept, and no order is grown further once it
has all conflicts of one of them. States from which no order stays within the capacity are kept too.

With several pools each has a slab, and it is their sum that is to stay within the capacity. Then
a stretch is cut out for each pool that needs to be asked, and what is kept of a state is also how
high the live bytes of each pool rose before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optsched.joint.oracle import Decider, GiveUpError, thresholds
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.memory_model import refuse_inplace
from optsched.model.packing_problem import PackingProblem, packing_problem, select
from optsched.model.plan import Plan, make_plan
from optsched.model.pools import pool_rows
from optsched.runtime.limits import Limits

MOST_STATES = 100_000
"""Partial orders that are looked at before the search gives up."""
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
        The graph; not in-place.
    capacity
        Bytes that the slab, or all slabs together, may have at first.
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
        search.grow([], 0, search.first, 0, (0,) * search.pools)
    except GiveUpError:
        complete = False
    packings = search.decider.packings
    return Exhausted(complete, search.capacity, search.states, packings, len(search.refuted))


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
        self.decider, self.most_states = Decider(limits), most_states
        self.states = 0
        self.refuted: list[int] = []
        self.dead: dict[int, list[tuple[int, ...]]] = {}
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
        names = [graph.buffers[b].pool for b in ids]
        self.together = [
            sum(1 << i for i, other in enumerate(names) if other == pool) for pool in names
        ]
        self.pool_masks = sorted(set(self.together))
        self.pools = len(self.pool_masks)
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

    def grow(
        self, order: list[int], done: int, live: int, conflicts: int, peaks: tuple[int, ...]
    ) -> int:
        """Try all ways to go on; return to which length the order is to be cut back.

        `live` are the buffers after the ops done, `peaks` the most bytes of each pool before.
        Whatever begins with the steps up to the length returned has been decided.
        """
        self._count()
        if not order:
            conflicts, peaks = self._clique(self.first), self._raised(peaks, self.first)
            if sum(peaks) > self.capacity:
                return 0
        if done == self.all:
            return self._pack(order)
        key = (done, conflicts)
        if key in self.seen or self._is_dead(done, peaks):
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
            reached = self._raised(peaks, during)
            if sum(reached) > self.capacity:
                continue
            if self._is_refuted(more):
                alive = True
                continue
            after = done | 1 << v
            cut = self.grow([*order, v], after, self._release(during, after), more, reached)
            if cut < len(order):
                return cut
            alive = alive or not self._is_dead(after, reached)
        if not alive:
            self.dead.setdefault(done, []).append(peaks)
        self.seen.add(key)
        return len(order)

    def _raised(self, peaks: tuple[int, ...], live: int) -> tuple[int, ...]:
        """Return the most bytes of each pool, those of `live` included."""
        now = [self._bytes(live & mask) for mask in self.pool_masks]
        return tuple(max(pair) for pair in zip(peaks, now, strict=True))

    def _is_dead(self, done: int, peaks: tuple[int, ...]) -> bool:
        """Whether no order goes on from here within the capacity.

        With one pool it does not matter how high the bytes rose before.
        """
        known = self.dead.get(done, ())
        if self.pools < 2:
            return bool(known)
        return any(all(x <= y for x, y in zip(low, peaks, strict=True)) for low in known)

    def _pack(self, order: list[int]) -> int:
        """Decide a whole order: offer its packing, or keep the conflicts that refute it."""
        problem, ids = packing_problem(self.graph, order)
        rows = pool_rows(self.graph, ids)
        parts = [select(problem, row) for row in rows]
        while True:
            offsets, refused = self._decide(problem, parts, rows)
            if offsets is None:
                break
            plan = make_plan(self.graph, order, offsets)
            self.offer(plan)
            self.capacity = plan.slab(self.graph) - 1
            if self.capacity < self.floor:
                return -1
        core, most = 0, 0
        for part, row, capacity in zip(parts, rows, refused, strict=True):
            if capacity >= 0:
                low, high = self.decider.stretch(part, capacity)
                core |= self._conflicts(part, ids[row], low, high)
                most = max(most, high)
        self.refuted.append(core)
        # Every order that begins with the same `most` ops has the same stretches.
        return most - 1

    def _decide(
        self, problem: PackingProblem, parts: list[PackingProblem], rows: list[IntArray]
    ) -> tuple[IntArray | None, list[int]]:
        """Return offsets within the capacity; or None, and a capacity that each pool refuses."""
        if len(parts) == 1:
            return self.decider.within(problem, self.capacity), [self.capacity]
        found = [self.decider.least(part) for part in parts]
        least = [None if one is None else one[0] for one in found]
        if None in least or sum(slab or 0 for slab in least) > self.capacity:
            return None, thresholds(least, self.capacity)
        offsets = np.zeros(len(problem), np.int64)
        for row, one in zip(rows, found, strict=True):
            offsets[row] = 0 if one is None else one[1]
        return offsets, []

    def _conflicts(self, problem: PackingProblem, ids: IntArray, low: int, high: int) -> int:
        """Return the pairs of buffers that are live together in the steps `[low, high)`."""
        start, end = np.maximum(problem.start, low), np.minimum(problem.end, high)
        inside = np.flatnonzero(start < end).tolist()
        core = 0
        for a in inside:
            for b in inside:
                if b < a and start[a] < end[b] and start[b] < end[a]:
                    core |= self._pair(self.position[int(ids[a])], self.position[int(ids[b])])
        return core

    def _count(self) -> None:
        self.states += 1
        if self.states > self.most_states:
            raise GiveUpError
        if self.states % LOOK == 0 and self.decider.late():
            raise GiveUpError

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
        return sum(self._pair(i, j) for j in _bits(live & self.together[i]))

    def _pair(self, i: int, j: int) -> int:
        return 1 << max(i, j) * len(self.size) + min(i, j)


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
