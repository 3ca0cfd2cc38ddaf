"""Enumeration of all orders of a small graph: find a plan below a slab, or prove that none exists.

Whether an order packs into a capacity depends only on its constraints (see
:mod:`optsched.joint.partial_orders`). A set of constraints that does not pack refutes every order
that has all of them. A refuted order is therefore cut, at its end and at its beginning, to a short
range of steps that still does not pack. The constraints of that range are stored as a *core*, and
an order is not extended once it has all constraints of some core. States from which no order stays
within the capacity are stored as well.

With several pools, each pool has a slab, and the sum of the slabs must stay within the capacity. In
that case a range is cut for each pool that has to be asked, and a stored state also includes the
maximum of live bytes of each pool before it.

Example: the capacity is 10, and in order `a b c d` the live buffers of the steps of `a` and `b`
alone do not pack into 10 bytes. The constraints of these two steps form a core. Every order whose
steps have the same constraints, for instance `a b d c`, is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from optsched.joint.oracle import GiveUpError, PackingOracle
from optsched.joint.partial_orders import OrderGrowth, PartialOrder
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.inplace_choice import Pairs
from optsched.model.order_rules import Baseline, ascending_ends
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.plan import Plan, placed_plan
from optsched.model.pools import pool_rows
from optsched.model.reductions import ByPool
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits


@dataclass(frozen=True, slots=True)
class EnumerationEffort:
    """Limits of the enumeration, after which it gives up."""

    states: int = 100_000
    """Maximum number of partial orders."""
    packing_seconds: float = 5.0
    """Time limit of one packing in seconds, or the same amount of work; each packing must be
    decided.
    """


@dataclass(frozen=True, slots=True)
class EnumerationOutcome:
    """Result of an enumeration of all orders."""

    complete: bool
    """True if every order was packed or refuted."""
    refuted: int
    """If complete: no order of the graph, or no order close enough to the baseline, packs into this
    many bytes.
    """
    states: int
    """Number of partial orders visited."""
    least_peak: int = 0
    """If complete, on streams: a lower bound on the peak of every order."""


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
    """Search for plans within a capacity that decreases with each plan found, to the end.

    Parameters
    ----------
    graph
        The graph.
    capacity
        Initial limit in bytes on the slab, or on the sum of the slabs.
    floor
        Known lower bound on the slab; a plan of this size ends the search.
    offer
        Called with each plan found; the capacity then drops below its slab.
    limits
        Time and work limits; work is counted in partial orders.
    effort
        Limits after which the enumeration gives up.
    baseline
        If given, orders that move more of its ops than it allows are left out.
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
    """Depth-first search through all partial orders."""

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
        """Extend all orders from the state before the first step."""
        start = self.growth.start()
        if sum(start.peaks) <= self.capacity:
            self._grow(start)

    def _grow(self, at: PartialOrder) -> int:
        """Extend a partial order in all ways; return the length to which it must be cut back.

        All orders that start with the steps up to the returned length have been decided.
        """
        self._count()
        if at.done == self.growth.all:
            return self._pack(at.steps)
        # Equal ops, constraints and kept ops: everything that later steps depend on.
        length, key = len(at.steps), (at.done, at.constraints, self._kept(at))
        if key in self.seen or self._is_dead(at):
            return length
        alive = False
        for after in self.growth.longer(at):
            # Live bytes alone refute this order: no packing is needed.
            if sum(after.peaks) > self.capacity:
                continue
            if self._is_refuted(after.constraints) or self._moves_too_many(after):
                # Pruned because of its steps, not its state: the state is not dead.
                alive = True
                continue
            cut = self._grow(after)
            if cut < length:
                # The steps up to `cut` alone are refuted: further extensions contain them, too.
                return cut
            alive = alive or not self._is_dead(after)
        if not alive:
            self.dead.setdefault(at.done, []).append(at.peaks)
        self.seen.add(key)
        return length

    def _is_dead(self, at: PartialOrder) -> bool:
        """Return True if all orders that begin like this one are known to exceed the capacity.

        With one pool, the live bytes of earlier steps do not matter.
        """
        known = self.dead.get(at.done, ())
        if len(at.peaks) < 2:
            return bool(known)
        # With several pools a state is dead only for beginnings with peaks at least as high.
        return any(all(x <= y for x, y in zip(low, at.peaks, strict=True)) for low in known)

    def _kept(self, at: PartialOrder) -> tuple[int, ...]:
        """Return the data that determine how many ops extensions of this order can move."""
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
        """Decide a complete order: offer its packing, or store the constraints that refute it."""
        order = [v for v, _ in steps]
        chosen = tuple(pair for _, pairs in steps for pair in sorted(pairs))
        problem, ids = packing_problem(self.graph, order, chosen)
        rows = pool_rows(self.graph, ids)
        parts = rows.reduce(problem)
        while True:
            offsets, refused = self._decide(problem, parts, rows)
            if offsets is None:
                break
            plan = placed_plan(self.graph, order, ids, offsets, chosen)
            self.offer(plan)
            self.capacity = plan.slab(self.graph) - 1
            if self.capacity < self.floor:
                # The bound is met: cut back to the very start, which ends the search.
                return -1
        core, last = 0, 0
        for part, row, capacity in zip(parts, rows, refused, strict=True):
            if capacity >= 0:
                low, high = self.oracle.stretch(part, capacity)
                core |= self.growth.constraints(order, chosen, set(ids[row].tolist()), low, high)
                last = max(last, high)
        # The core refutes other orders before they are packed.
        self.cores.append(core)
        # Every order that starts with the same `last` steps contains the same refuted ranges.
        return last - 1

    def _decide(
        self, problem: PackingProblem, parts: Sequence[PackingProblem], rows: ByPool
    ) -> tuple[IntArray | None, list[int]]:
        """Return offsets within the capacity, or None and a capacity that each pool cannot meet.

        The second value is -1 for a pool that need not be asked. With several pools, a pool needs
        at least its minimum slab, and the sum of the minimum slabs exceeds the capacity.
        """
        if len(parts) == 1:
            return self.oracle.within(problem, self.capacity), [self.capacity]
        found = [self.oracle.minimum(part) for part in parts]
        # A pool without any packing refutes the order alone.
        if None in found:
            return None, [self.capacity if one is None else -1 for one in found]
        if sum(one[0] for one in found if one is not None) > self.capacity:
            return None, [one[0] - 1 for one in found if one is not None]
        return rows.lift(problem, [one[1] for one in found if one is not None]), []
