"""Logic-based Benders decomposition: orders by CP-SAT, packings by our search, cuts between them.

CP-SAT chooses an order whose live bytes are within the capacity. The exact packing search packs
it, which either gives a plan, and the capacity falls below its slab, or refutes the order. A
refuted order comes back with conflict sets (:mod:`optsched.joint.conflict_sets`), and each becomes
a cut::

    for some pair i, j of the set:   released(i, birth of j)  or  released(j, birth of i)

The cut is valid, as every order in which all pairs of the set overlap is refuted, and it excludes
the refuted order. Two items do not overlap exactly if one is released before the other is
allocated. As a lower capacity is harder to meet, cuts stay valid when it falls. If no order is
left, CP-SAT claims that no plan is within the capacity.

An order that the packing search does not decide in a short time is cut off as a whole, and
remembered. If no order is left, the remembered ones are packed with longer limits, at the capacity
reached by then; the claim is made once all of them are refuted.

Offsets are not in the model, so that it grows with pairs of ops only.

Example: three items of 2 bytes are live together in the order `a b c d`, and the capacity is 5. The
cut requires one of them to be released before another one is allocated, as in `a c b d`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from optsched.joint.conflict_sets import conflict_sets, overlapping
from optsched.joint.copies import in_order, topological, with_copies_in_order
from optsched.joint.cpsat.dominance import add_left, makers_of
from optsched.joint.cpsat.hinted import Literal
from optsched.joint.cpsat.pairwise import OrderPoint, PairwiseOrder
from optsched.joint.cpsat.solver import EFFORT, CpSatEffort, CpSatRun, SolverThread
from optsched.joint.families import ALL_PACKING, PackingFamilies
from optsched.joint.instance import INPUT, graph_instance
from optsched.joint.item_copies import identical_in_place
from optsched.joint.oracle import GiveUpError, PackingOracle
from optsched.joint.order_program import instance_program
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.plan import Plan, placed_plan
from optsched.runtime.clock import Clock

PACKING_SECONDS = 0.5
"""Time limit of one packing in seconds, or the same amount of work, at first."""
LONGER = 4.0
"""Factor of that limit from one round of open orders to the next."""
ROUNDS = 8
"""Maximum number of such rounds."""


@dataclass(frozen=True, slots=True)
class BendersOutcome:
    """Result of a search through orders."""

    refuted: int
    """CP-SAT claims that no plan is within this many bytes; -1 without a claim."""
    finished: bool
    """True if the claim is complete."""
    orders: int = 0
    cuts: int = 0
    """Orders that were packed or refuted, and cuts made from them."""


def can_decompose(graph: Graph) -> bool:
    """Return True if the graph has one pool, and no in-place pairs, groups or streams."""
    pools = {buffer.pool for buffer in graph.buffers}
    return not (graph.on_streams or graph.in_place or graph.must_share or len(pools) > 1)


def decompose(
    graph: Graph,
    capacity: int,
    *,
    floor: int,
    offer: Callable[[Plan], None],
    clock: Clock,
    start: Sequence[int] | None = None,
    once: bool = False,
    families: PackingFamilies = ALL_PACKING,
    effort: CpSatEffort = EFFORT,
) -> BendersOutcome:
    """Search for plans within a capacity that falls with each plan found, to the end.

    Raise `UsageError` if sizes are outside the range in which CP-SAT is exact.

    Parameters
    ----------
    graph
        The graph, for which :func:`can_decompose` holds.
    capacity
        Initial limit in bytes on the slab.
    floor
        Known lower bound on the slab; a plan of this size ends the search.
    offer
        Called with each plan found.
    clock
        Limits on time or work.
    start
        Known order, given to CP-SAT as a hint.
    once
        End with the first plan.
    families
        Families of constraints to use.
    effort
        Parameters of CP-SAT.
    """
    return _Decomposition(graph, capacity, floor, clock, families, effort).run(offer, start, once)


@dataclass(slots=True)
class _Packed:
    """An order and its packing problem."""

    order: tuple[int, ...]
    problem: PackingProblem
    ids: IntArray
    refuted: bool = False
    """True if it is proved that it does not pack into the capacity."""


class _Decomposition:
    """The orders that are not refuted, as a model."""

    def __init__(
        self,
        graph: Graph,
        capacity: int,
        floor: int,
        clock: Clock,
        families: PackingFamilies,
        effort: CpSatEffort,
    ) -> None:
        self.graph, self.instance, self.capacity = graph, graph_instance(graph), capacity
        self.clock, self.effort, self.floor = clock, effort, max(0, floor)
        self.oracle = PackingOracle(clock, PACKING_SECONDS)
        program = instance_program(self.instance)
        self.groups = identical_in_place(self.instance, program) if families.copies else []
        self.program = with_copies_in_order(program, self.groups)
        self.orders = PairwiseOrder(self.program)
        self.place = {item.id: i for i, item in enumerate(self.instance.items)}
        self.apart = {pair for i, j in self.instance.apart for pair in ((i, j), (j, i))}
        self.open: list[_Packed] = []
        self.made = self.cuts = 0
        # Bytes rise only where an op allocates: rows for the other ops would follow from these.
        makers = makers_of([item.birth for item in self.instance.items])
        self.load = self.orders.add_peak(0, max(0, self._units()), ops=makers)
        if families.left:
            add_left(self.orders, makers)

    def run(
        self, offer: Callable[[Plan], None], start: Sequence[int] | None, once: bool
    ) -> BendersOutcome:
        """Pack or refute one order after another."""
        if start is not None:
            led = in_order(start, self.groups)
            self.orders.add_hint(OrderPoint.of(topological(self.program, led)))
        while self.capacity >= self.floor:
            run = self._next_order()
            # Bytes that are live before the first op are live in every order.
            if run.infeasible or self._units() < self.program.base:
                return self._settle(offer, once=once)
            if run.best is None:
                if run.interrupted:
                    raise KeyboardInterrupt
                return self._outcome(-1, finished=False)
            problem, ids = packing_problem(self.graph, run.best.order)
            order = _Packed(run.best.order, problem, ids)
            self.made += 1
            if self._lower(order, offer) and once:
                return self._outcome(-1, finished=True)
            if self.capacity >= self.floor:
                self._exclude(order)
        return self._outcome(self.floor - 1, finished=True)

    def _settle(self, offer: Callable[[Plan], None], *, once: bool) -> BendersOutcome:
        """Decide the orders that are left open, with ever longer limits."""
        for _ in range(ROUNDS):
            if self.capacity < self.floor:
                self.open = []
            if not self.open or self.clock.expired():
                break
            # All at one limit first: an easy order may lower the capacity, which makes hard ones
            # easier to refute.
            self.oracle.seconds *= LONGER
            for order in self.open:
                if self._lower(order, offer) and once:
                    return self._outcome(-1, finished=True)
            self.open = [order for order in self.open if not order.refuted]
        if self.open:
            return self._outcome(-1, finished=False)
        # Every order is refuted at this capacity, or at a higher one.
        return self._outcome(max(self.capacity, self.floor - 1), finished=True)

    def _next_order(self) -> CpSatRun[OrderPoint]:
        """Return an order that is not refuted and has live bytes within the capacity."""
        # Added again in each round; only the latest and lowest limit counts.
        self.orders.model.add(self.load <= self._units())
        self.clock.spend(len(self.orders.first))
        # Without objective: any order that is left will do.
        thread = SolverThread(self.orders, lambda p: 0, self.clock, self.effort)
        return thread.run(lambda _: None)

    def _lower(self, order: _Packed, offer: Callable[[Plan], None]) -> bool:
        """Pack an order as low as possible; return True if there is a better plan."""
        found = False
        with suppress(GiveUpError):
            while self.capacity >= self.floor:
                offsets = self.oracle.within(order.problem, self.capacity)
                if offsets is None:
                    order.refuted = True
                    break
                found = True
                plan = placed_plan(self.graph, order.order, order.ids, offsets)
                offer(plan)
                # From now on only smaller slabs are of interest.
                self.capacity = plan.slab(self.graph) - 1
        return found

    def _exclude(self, order: _Packed) -> None:
        """Cut an order off: by conflict sets if it is refuted, else as a whole and for now."""
        places = [self.place[int(b)] for b in order.ids]
        if order.refuted:
            sets = list(conflict_sets(order.problem, self.capacity, self.oracle))
        else:
            self.open.append(order)
            # All its overlaps: the cut excludes this order, and those in which the same items
            # meet.
            sets = [overlapping(order.problem, range(len(places)))]
        for pairs in sets:
            self._cut({(places[i], places[j]) for i, j in pairs})

    def _cut(self, pairs: set[tuple[int, int]]) -> None:
        """Require that not all pairs overlap."""
        self.cuts += 1
        literals = []
        # Items kept apart clash in every order, whichever of them is released first.
        for i, j in sorted(pairs - self.apart):
            literals += [self._released_first(i, j), self._released_first(j, i)]
        # Constants here are 0: pairs that overlap in every order. Without any literal the model is
        # infeasible, as it should be.
        self.orders.model.add_bool_or([x for x in literals if not isinstance(x, int)])

    def _released_first(self, i: int, j: int) -> Literal:
        """Return a literal that is true if item `i` is released before `j` is allocated."""
        first, second = self.instance.items[i], self.instance.items[j]
        if first.kept or second.birth == INPUT:
            return 0
        return self.orders.released(first.users, second.birth)

    def _units(self) -> int:
        return self.capacity // self.instance.unit

    def _outcome(self, refuted: int, *, finished: bool) -> BendersOutcome:
        return BendersOutcome(refuted, finished, self.made, self.cuts)
