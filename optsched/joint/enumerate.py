"""All orders of a small graph: either one packs below a slab, or none does, and that is a proof.

Whether an order packs into a capacity depends only on its constraints (see
:mod:`optsched.joint.partial_orders`), and constraints that do not pack refute every order that has
them all. So a refused order is cut down, from its end and from its beginning, to a short stretch of
steps that still does not pack; the constraints of that stretch are kept as a *core*, and no order
is grown further once it has all constraints of one of them. States from which no order stays within
the capacity are kept too.

With several pools each has a slab, and it is their sum that is to stay within the capacity. Then
a stretch is cut out for each pool that needs to be asked, and what is kept of a state is also how
high the live bytes of each pool rose before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optsched.joint.oracle import GiveUpError, PackingOracle
from optsched.joint.partial_orders import OrderGrowth, PartialOrder
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.inplace_choice import Pairs
from optsched.model.order_rules import Baseline, ascending_ends
from optsched.model.packing_problem import PackingProblem, packing_problem, select
from optsched.model.plan import Plan, placed_plan
from optsched.model.pools import pool_rows
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits


@dataclass(frozen=True, slots=True)
class EnumerationEffort:
    """How much the search of all orders may do before it gives up."""

    states: int = 100_000
    """Partial orders that are looked at."""
    packing_seconds: float = 5.0
    """Seconds, or as much work, for one packing, which these have to decide."""


@dataclass(frozen=True, slots=True)
class EnumerationOutcome:
    """What a search through all orders came to."""

    complete: bool
    """Whether every order was packed or refuted."""
    refuted: int
    """If complete: no order of the graph, or none near the baseline, packs into this many bytes."""
    states: int
    """Partial orders that were looked at."""
    least_peak: int = 0
    """If complete, on streams: no order has a smaller peak."""


def enumerate_orders(
    graph: Graph,
    capacity: int,
    *,
    floor: int,
    offer: Callable[[Plan], None],
    limits: Limits | Clock,
    effort: EnumerationEffort | None = None,
    baseline: Baseline | None = None,
) -> EnumerationOutcome:
    """Look for plans within a capacity, and then within less, until none is left.

    The slab, or all slabs together, may have `capacity` bytes at first. `offer` is called with each
    plan found, whose slab the capacity then drops below; one of `floor` bytes, below which no slab
    is, ends the search. Work is counted in partial orders. Orders that move more ops of the
    baseline than it allows are left out.
    """
    effort = effort or EnumerationEffort()
    search = _OrderEnumeration(graph, capacity, floor, offer, Clock.of(limits), effort, baseline)
    complete = True
    try:
        search.run()
    except GiveUpError:
        complete = False
    return EnumerationOutcome(complete, search.capacity, search.states)


class _OrderEnumeration:
    """Depth-first through all partial orders."""

    def __init__(
        self,
        graph: Graph,
        capacity: int,
        floor: int,
        offer: Callable[[Plan], None],
        clock: Clock,
        effort: EnumerationEffort,
        baseline: Baseline | None,
    ) -> None:
        self.graph, self.capacity, self.floor, self.offer = graph, capacity, floor, offer
        self.oracle, self.clock = PackingOracle(clock, effort.packing_seconds), clock
        self.growth = OrderGrowth(graph)
        self.max_states, self.states = effort.states, 0
        self.cores: list[int] = []
        self.dead: dict[int, list[tuple[int, ...]]] = {}
        self.seen: set[tuple[int, int, tuple[int, ...]]] = set()
        self.most_moved = None if baseline is None else baseline.max_moved
        order = () if baseline is None else baseline.order
        self.turn = {v: at for at, v in enumerate(order)}

    def run(self) -> None:
        """Grow all orders from what is live before the first step."""
        start = self.growth.start()
        if sum(start.peaks) <= self.capacity:
            self._grow(start)

    def _grow(self, at: PartialOrder) -> int:
        """Try all ways to go on; return to which length the order is to be cut back.

        Whatever begins with the steps up to the length returned has been decided.
        """
        self._count()
        if at.done == self.growth.all:
            return self._pack(at.steps)
        length, key = len(at.steps), (at.done, at.constraints, self._kept(at))
        if key in self.seen or self._is_dead(at):
            return length
        alive = False
        for after in self.growth.longer(at):
            if sum(after.peaks) > self.capacity:
                continue
            if self._is_refuted(after.constraints) or self._moves_too_many(after):
                alive = True
                continue
            cut = self._grow(after)
            if cut < length:
                return cut
            alive = alive or not self._is_dead(after)
        if not alive:
            self.dead.setdefault(at.done, []).append(at.peaks)
        self.seen.add(key)
        return length

    def _is_dead(self, at: PartialOrder) -> bool:
        """Whether no order goes on from here within the capacity.

        With one pool it does not matter how high the bytes rose before.
        """
        known = self.dead.get(at.done, ())
        if len(at.peaks) < 2:
            return bool(known)
        return any(all(x <= y for x, y in zip(low, at.peaks, strict=True)) for low in known)

    def _kept(self, at: PartialOrder) -> tuple[int, ...]:
        """All that decides how many ops the orders that begin like this one will move."""
        if self.most_moved is None:
            return ()
        return tuple(ascending_ends(self.turn[v] for v, _ in at.steps))

    def _moves_too_many(self, at: PartialOrder) -> bool:
        if self.most_moved is None:
            return False
        return len(at.steps) - len(self._kept(at)) > self.most_moved

    def _is_refuted(self, constraints: int) -> bool:
        return any(core & constraints == core for core in self.cores)

    def _count(self) -> None:
        self.states += 1
        self.clock.spend(1)
        if self.states > self.max_states or self.clock.expired():
            raise GiveUpError

    def _pack(self, steps: tuple[tuple[int, Pairs], ...]) -> int:
        """Decide a whole order: offer its packing, or keep the constraints that refute it."""
        order = [v for v, _ in steps]
        taken = tuple(pair for _, pairs in steps for pair in sorted(pairs))
        problem, ids = packing_problem(self.graph, order, taken)
        rows = pool_rows(self.graph, ids)
        parts = [select(problem, row) for row in rows]
        while True:
            offsets, refused = self._decide(problem, parts, rows)
            if offsets is None:
                break
            plan = placed_plan(self.graph, order, ids, offsets, taken)
            self.offer(plan)
            self.capacity = plan.slab(self.graph) - 1
            if self.capacity < self.floor:
                return -1
        core, last = 0, 0
        for part, row, capacity in zip(parts, rows, refused, strict=True):
            if capacity >= 0:
                low, high = self.oracle.stretch(part, capacity)
                core |= self.growth.constraints(order, taken, set(ids[row].tolist()), low, high)
                last = max(last, high)
        self.cores.append(core)
        # Every order that begins with the same `last` steps has the same stretches.
        return last - 1

    def _decide(
        self, problem: PackingProblem, parts: list[PackingProblem], rows: list[IntArray]
    ) -> tuple[IntArray | None, list[int]]:
        """Return offsets within the capacity; or None, and a capacity that each pool refuses.

        That is -1 where the pool need not be asked. With several pools each has its minimum slab
        at least, which is more than the capacity together.
        """
        if len(parts) == 1:
            return self.oracle.within(problem, self.capacity), [self.capacity]
        found = [self.oracle.minimum(part) for part in parts]
        if None in found:
            return None, [self.capacity if one is None else -1 for one in found]
        if sum(one[0] for one in found if one is not None) > self.capacity:
            return None, [one[0] - 1 for one in found if one is not None]
        offsets = np.zeros(len(problem), np.int64)
        for row, one in zip(rows, found, strict=True):
            offsets[row] = 0 if one is None else one[1]
        return offsets, []
