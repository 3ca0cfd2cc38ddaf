"""All orders of a small graph, and in each all choices of what ops write in place.

Which pairs share their bytes decides how the rest packs, so the least slab may need a choice that
no other goal would make: a pair left out, or another input where there are two. Orders grow op by
op, none beyond a step at which the live bytes, less the most that its op can write in place, pass
the capacity. Of a whole order each choice of pairs is one packing problem: it is packed within the
capacity, which drops below the slab, or refused, and a problem refused once stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np

from optsched.check.pins import pins_clash
from optsched.joint.enumerate import Exhausted
from optsched.joint.oracle import Decider, GiveUpError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.inplace import Pair, available_pairs, matched_bytes
from optsched.model.inplace_choice import Pairs
from optsched.model.liveness import live_ranges, steps_of
from optsched.model.packing_problem import PackingProblem, packing_problem, select
from optsched.model.plan import Plan, make_plan
from optsched.model.pools import pool_rows
from optsched.runtime.limits import Limits

MOST_STATES, MOST_CHOICES = 50_000, 20_000
"""Partial orders, and choices of pairs in whole ones, before the search gives up."""


def exhaust_inplace(
    graph: Graph,
    capacity: int,
    *,
    floor: int,
    offer: Callable[[Plan], None],
    limits: Limits,
    most_states: int = MOST_STATES,
    most_choices: int = MOST_CHOICES,
) -> Exhausted:
    """Look for plans within a capacity, and then within less, until none is left.

    Parameters
    ----------
    graph, capacity, floor, offer, limits
        As for :func:`optsched.joint.enumerate.exhaust`; the graph may be in-place.
    most_states, most_choices
        When to give up.
    """
    search = _Search(graph, capacity, floor, offer, Decider(limits), most_states, most_choices)
    complete = True
    try:
        search.start()
    except GiveUpError:
        complete = False
    packings, refused = search.decider.packings, len(search.refused)
    return Exhausted(complete, search.capacity, search.states, packings, refused)


def matchings(pairs: Sequence[Pair]) -> Iterator[Pairs]:
    """Yield all sets of pairs in which no output and no input is twice; more pairs first."""
    if not pairs:
        yield ()
        return
    (output, source), rest = pairs[0], pairs[1:]
    apart = [pair for pair in rest if pair[0] != output and pair[1] != source]
    for others in matchings(apart):
        yield ((output, source), *others)
    yield from matchings(rest)


class _Search:
    def __init__(
        self,
        graph: Graph,
        capacity: int,
        floor: int,
        offer: Callable[[Plan], None],
        decider: Decider,
        most_states: int,
        most_choices: int,
    ) -> None:
        self.graph, self.capacity, self.floor, self.offer = graph, capacity, floor, offer
        self.decider = decider
        self.most_states, self.most_choices = most_states, most_choices
        self.states = self.choices = 0
        self.refused: set[bytes] = set()
        self.dead: set[int] = set()
        arrays = graph.arrays
        self.all = (1 << len(graph.ops)) - 1
        self.needs = [sum(1 << u for u in before) for before in graph.predecessors]
        self.users = [
            sum(1 << v for v in {*arrays.user.row(b).tolist(), int(arrays.producer[b])} - {-1})
            for b in range(arrays.buffer_count)
        ]
        self.pairs: list[list[Pair]] = [[] for _ in graph.ops]
        rows = (arrays.inplace_op, arrays.inplace_output, arrays.inplace_source)
        for v, output, source in zip(*(row.tolist() for row in rows), strict=True):
            self.pairs[v].append((output, source))

    def start(self) -> None:
        """Try all orders."""
        arrays = self.graph.arrays
        sized = np.flatnonzero(arrays.size).tolist()
        first = {b for b in sized if arrays.birth[b] < 0 and (self.users[b] or arrays.keep[b])}
        if self._bytes(first) <= self.capacity:
            self._grow([], 0, first)

    def _grow(self, order: list[int], done: int, live: set[int]) -> bool:
        """Try all ways to go on; whether some order was not cut off by its live bytes."""
        self.states += 1
        if self.states > self.most_states or (self.states % 64 == 0 and self.decider.late()):
            raise GiveUpError
        if done == self.all:
            self._pack(order)
            return True
        arrays, alive = self.graph.arrays, False
        for v in range(len(self.graph.ops)):
            after = done | 1 << v
            if done >> v & 1 or self.needs[v] & ~done or after in self.dead:
                continue
            born = np.flatnonzero((arrays.birth == v) & (arrays.size > 0)).tolist()
            during = live.union(born)
            able = [pair for pair in self.pairs[v] if not self.users[pair[1]] & ~after]
            if self._bytes(during) - matched_bytes(able, arrays.size) > self.capacity:
                continue
            left = {b for b in during if arrays.keep[b] or self.users[b] & ~after}
            alive = self._grow([*order, v], after, left) or alive
            if self.capacity < self.floor:
                return True
        if not alive:
            self.dead.add(done)
        return alive

    def _pack(self, order: list[int]) -> None:
        for taken in self._choices(order):
            self.choices += 1
            if self.choices > self.most_choices:
                raise GiveUpError
            problem, ids = packing_problem(self.graph, order, taken)
            if pins_clash(self.graph, problem, ids):
                continue
            rows = pool_rows(self.graph, ids)
            key = _key(problem, rows)
            while key not in self.refused:
                offsets = self._decide(problem, rows)
                if offsets is None:
                    self.refused.add(key)
                    break
                plan = make_plan(self.graph, order, offsets, taken)
                self.offer(plan)
                self.capacity = plan.slab(self.graph) - 1
                if self.capacity < self.floor:
                    return

    def _choices(self, order: list[int]) -> Iterator[Pairs]:
        """Yield every choice of pairs, those of the op that runs first in front."""
        steps, ranges = steps_of(self.graph, order), live_ranges(self.graph, order)
        rows = available_pairs(self.graph.arrays, steps, ranges)
        turn = sorted(rows, key=lambda v: int(steps[v]))
        for chosen in product(*(list(matchings(rows[v])) for v in turn)):
            yield tuple(pair for pairs in chosen for pair in sorted(pairs))

    def _decide(self, problem: PackingProblem, rows: Sequence[IntArray]) -> IntArray | None:
        if sum(select(problem, row).max_load for row in rows) > self.capacity:
            return None
        if len(rows) < 2:
            return self.decider.within(problem, self.capacity)
        found = [(row, self.decider.least(select(problem, row))) for row in rows]
        offsets, total = np.zeros(len(problem), np.int64), 0
        for row, one in found:
            if one is None:
                return None
            offsets[row] = one[1]
            total += one[0]
        return offsets if total <= self.capacity else None

    def _bytes(self, live: set[int]) -> int:
        return sum(int(self.graph.arrays.size[b]) for b in live)


def _key(problem: PackingProblem, rows: Sequence[IntArray]) -> bytes:
    columns = (problem.start, problem.end, problem.size, problem.alignment, problem.pin)
    parts = [column.tobytes() for column in (*columns, *rows)]
    return b"|".join([*parts, repr(problem.gaps).encode()])
