"""Entry point of exact packing: searches the components of a problem one after another.

In the example, buffers of 4 and 3 bytes are live together, so no slab is smaller than 7 bytes. The
buffer of 2 bytes is live with that of 3 bytes only and fits in the place of the first:

>>> from optsched.model.packing_problem import PackingProblem
>>> from optsched.runtime.limits import Limits
>>> three = PackingProblem(size=[4, 3, 2], start=[0, 0, 2], end=[2, 3, 3])
>>> solve_packing(three, limits=Limits()).slab
7
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.elements import MAX_ADDRESS
from optsched.model.packing_problem import PackingProblem
from optsched.model.selection import select
from optsched.packing.capacity_search import CapacitySearch
from optsched.packing.components import make_components
from optsched.packing.enumeration import enumerate_packings, is_for_enumeration
from optsched.packing.rules import PackingEffort, Rules
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import held_interrupts
from optsched.runtime.limits import Event, Limits, OnEvent, Proof, StopReason

OnOffsets = Callable[[IntArray], None]

MOST_LIMITS = 64
"""Maximum number of upper limits whose buffers are added up before the search."""


@dataclass(frozen=True, slots=True)
class PackingOutcome:
    """A packing with its proved bound."""

    offsets: IntArray | None
    """Shape `(k,)`, bytes; None if no packing within the given capacity was found."""
    slab: int | None
    """Slab of the packing in bytes, or None."""
    bound: int
    """Proved lower bound on the slab in bytes."""
    proof: Proof | None
    """`Proof.PACKING` if the slab equals the live bytes of a step, `Proof.PACKING_SEARCH` if all
    smaller slabs were refuted by search; None while slab and bound differ.
    """
    stop_reason: StopReason
    """PROVED: slab and bound are equal. DECIDED: the given capacity is decided. EXHAUSTED: the
    sizes are beyond the search, and the engine cannot do more.
    """
    statistics: dict[str, int] = field(default_factory=dict)
    """Counters: nodes, searches, states refuted by the table, first fits, components, units, ..."""


def solve_packing(
    problem: PackingProblem,
    *,
    limits: Limits | Clock,
    capacity: int | None = None,
    warm_start: IntArray | None = None,
    rules: Rules | None = None,
    effort: PackingEffort | None = None,
    on_event: OnEvent | None = None,
    on_offsets: OnOffsets | None = None,
) -> PackingOutcome:
    """Find a packing of minimum slab, or decide whether a capacity can be met.

    Raise `GraphError` if two pinned buffers overlap while both are live.

    Parameters
    ----------
    problem
        Buffers with live ranges. In a gap, a buffer is absent or only partly occupied.
    limits
        Time and work limits, and the seed. The clock is checked about every ten milliseconds; work
        is counted in nodes. Without a time limit the result depends on the seed alone.
    capacity
        Bytes. If given, stop at the first packing within it, or once it is refuted.
    warm_start
        Shape `(k,)`: offsets to start from, in bytes. They are not checked; the caller must make
        sure that they are valid.
    rules
        Pruning rules (default: all).
    effort
        Parameters of the search (default: ``PackingEffort()``).
    on_event
        Called each time the best packing or the bound improves.
    on_offsets
        Called with the offsets of each new best packing, the warm start included, so that a caller
        that stops the search from outside already has them.

    Returns
    -------
    PackingOutcome
        The best packing, the bound and its proof.
    """
    # Each group of buffers that share an offset is packed as one buffer.
    joined = problem.joined
    problem, place = joined.problem, joined.place
    effort = effort or PackingEffort()
    # The enumeration knows no upper limits.
    is_free = not problem.has_limits and problem.clashing_pins() is None
    if is_free and is_for_enumeration(problem, effort.few_buffers):
        found = enumerate_packings(problem, capacity, max_nodes=effort.few_nodes)
        if found.is_complete:
            return _enumerated(problem, place, found.offsets, capacity)
    solver = _PackingSolver(problem, place, Clock.of(limits), capacity, on_event, on_offsets)
    start = None if warm_start is None else joined.offsets(warm_start)
    interrupted = False
    try:
        with held_interrupts():
            solver.run(start, rules or Rules(), effort)
    except KeyboardInterrupt:
        interrupted = True
    return solver.outcome(interrupted)


def _proof(problem: PackingProblem, slab: int) -> Proof:
    """Return the name of the proof of a minimum slab."""
    return Proof.PACKING if slab == problem.max_load else Proof.PACKING_SEARCH


def _enumerated(
    problem: PackingProblem, place: IntArray, offsets: list[int] | None, capacity: int | None
) -> PackingOutcome:
    """Return the outcome of a complete enumeration."""
    counters = {"buffers": len(problem)}
    if offsets is None:
        refuted = MAX_ADDRESS if capacity is None else min(capacity, MAX_ADDRESS)
        # No packing at all within the address space, or within the capacity.
        bound = max(problem.max_load, refuted + 1)
        return PackingOutcome(None, None, bound, None, StopReason.DECIDED, counters)
    found = np.array(offsets, np.int64)
    slab, bound = problem.slab_size(found), problem.max_load
    # The enumeration stops at the first packing within a capacity: the bound is the load only.
    if capacity is not None and slab > bound:
        return PackingOutcome(found[place], slab, bound, None, StopReason.DECIDED, counters)
    proof = _proof(problem, slab)
    return PackingOutcome(found[place], slab, slab, proof, StopReason.PROVED, counters)


def overfull(problem: PackingProblem) -> tuple[int, int] | None:
    """Return an address and more bytes than it that must end there or below at one step, or None.

    Of many upper limits, :data:`MOST_LIMITS` are looked at.
    """
    if not problem.has_limits:
        return None
    ends = np.where(problem.pin >= 0, problem.pin + problem.size, problem.below)
    limits = np.unique(problem.below[problem.below < MAX_ADDRESS])
    for limit in limits[:: 1 + len(limits) // MOST_LIMITS].tolist():
        load = select(problem, np.flatnonzero(ends <= limit)).max_load
        if load > limit:
            return limit, load
    return None


class _PackingSolver:
    def __init__(
        self,
        problem: PackingProblem,
        place: IntArray,
        clock: Clock,
        capacity: int | None,
        on_event: OnEvent | None,
        on_offsets: OnOffsets | None,
    ) -> None:
        self.problem, self.place, self.clock, self.capacity = problem, place, clock, capacity
        self.on_event, self.on_offsets = on_event, on_offsets
        self.bound = problem.slab_bound
        self.offsets: IntArray | None = None
        self.slab = 0
        self.searches: list[CapacitySearch] = []
        self.statistics = {"partial": 0, "components": 0}

    def run(self, warm_start: IntArray | None, rules: Rules, effort: PackingEffort) -> None:
        """Run first fit on all components, then search them in order of descending bound."""
        if warm_start is not None:
            self.offsets = np.array(warm_start, np.int64)
            self.slab = self.problem.slab_size(self.offsets)
        self.problem.refuse_clashing_pins()
        if overfull(self.problem) is not None:
            self.bound = MAX_ADDRESS + 1
            return
        # The component with the highest bound decides the slab, so it is searched first.
        components = sorted(make_components(self.problem, rules), key=lambda each: -each.bound)
        self.statistics["components"] = len(components)
        self.statistics["partial"] = sum(each.occupancy is not None for each in components)
        self.bound = max([self.bound, *(each.bound for each in components)])
        if self._is_settled():
            return
        # Seeds apart from each other, so that equal components do not repeat one search.
        for component, seed in zip(components, count(self.clock.limits.seed, 1009)):
            search = CapacitySearch(component, rules, effort, seed, self.clock, self._moved)
            search.enough = self._enough()
            search.is_decision = self.capacity is not None
            if self.offsets is not None:
                search.offer_bytes(self.offsets[component.ids])
            search.run_first_fit()
            if search.offsets is None and not self._start(search, effort.first_nodes):
                return
            self.searches.append(search)
        self._moved("first fit")
        for search in self.searches:
            search.enough = self._enough()
            search.run()
            if self._is_settled() or self.clock.expired():
                return

    def _start(self, search: CapacitySearch, nodes: int) -> bool:
        """Search for a first packing where upper limits stop first fit; return True if found.

        Without any packing the bound is above the capacity, or else above all addresses.
        """
        asked = search.component.unlimited if self.capacity is None else self.capacity
        capacity = min(asked, MAX_ADDRESS)
        while search.offsets is None and search.component.is_searchable:
            if self.clock.expired():
                break
            if search.search(capacity, nodes) and search.offsets is None:
                refuted = MAX_ADDRESS if self.capacity is None else capacity
                self.bound = max(self.bound, refuted + 1)
                break
            nodes *= 2
        return search.offsets is not None

    def _enough(self) -> int:
        """Return the slab in bytes below which no component needs to go."""
        return max(self.bound, self.capacity or 0)

    def _is_settled(self) -> bool:
        if self.capacity is not None and self.bound > self.capacity:
            return True
        return self.offsets is not None and self.slab <= self._enough()

    def _moved(self, source: str) -> None:
        """Combine the packings of the components and report any improvement."""
        # A packing of all buffers needs one of each component.
        if len(self.searches) < self.statistics["components"]:
            return
        before = (self.slab if self.offsets is not None else -1, self.bound)
        # Buffers that are never live keep their pin, or 0.
        offsets = np.where(self.problem.pin > 0, self.problem.pin, 0)
        for search in self.searches:
            self.bound = max(self.bound, search.bound)
            offsets[search.component.ids] = search.best * search.component.unit
        slab = self.problem.slab_size(offsets)
        if self.offsets is None or slab < self.slab:
            self.offsets, self.slab = offsets, slab
            if self.on_offsets is not None:
                self.on_offsets(offsets[self.place])
        if self.on_event is not None and before != (self.slab, self.bound):
            self.on_event(Event(self.clock.seconds(), self.slab, self.bound, source))

    def outcome(self, interrupted: bool) -> PackingOutcome:
        """Return the outcome of the search so far."""
        offsets = None if self.offsets is None else self.offsets[self.place]
        slab = None if offsets is None else self.slab
        proof = _proof(self.problem, self.slab) if slab == self.bound else None
        if interrupted:
            reason = StopReason.INTERRUPTED
        elif slab == self.bound:
            reason = StopReason.PROVED
        elif self._is_settled():
            reason = StopReason.DECIDED
        else:
            late = self.clock.expired()
            reason = self.clock.limit_reason() if late else StopReason.EXHAUSTED
        engines = [search.engine for search in self.searches]
        self.statistics |= {
            "buffers": sum(len(search.component) for search in self.searches),
            "sections": sum(search.component.sections.count for search in self.searches),
            "first fits": sum(search.fits for search in self.searches),
            "beams": sum(search.beams for search in self.searches),
            "cores": sum(search.cores for search in self.searches),
            "searches": sum(engine.runs for engine in engines),
            "nodes": sum(engine.nodes for engine in engines),
            "states refuted before": sum(engine.refuted for engine in engines),
        }
        return PackingOutcome(offsets, slab, self.bound, proof, reason, self.statistics)
