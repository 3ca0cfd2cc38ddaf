"""The capacity search of one component: first fit, then search at one capacity after another.

The minimum slab lies between a lower bound and the best packing. The capacity that is tried first
is the bound: most packings meet it. A packing found within a capacity is the new upper end; a
capacity whose search was exhausted makes the next possible slab the new lower end; between them
also the middle is tried, which is easier. Four searches take turns, with growing numbers of nodes:

* branch and bound with restarts (:mod:`optsched.packing.portfolio`), the only one that refutes;
* the core, where buffers are many: the large ones by branch and bound, which are few and decide,
  and the others around them by first fit;
* beams (:mod:`optsched.packing.beam`), where branch and bound does not come by;
* in the beginning, first fit in several orders.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.packing_problem import select
from optsched.packing.beam import search_beam
from optsched.packing.components import Component, make_components
from optsched.packing.engine import PackingEngine
from optsched.packing.kernels.search import EXHAUSTED, SOLVED
from optsched.packing.orders import FIRST_FIT_ORDERS
from optsched.packing.portfolio import RestartPortfolio
from optsched.packing.rules import PackingEffort, Rules
from optsched.packing.subset_sums import SubsetSums
from optsched.runtime.clock import Clock


class CapacitySearch:
    """Goes up from the bound and down from the best packing, until they meet.

    `on_move` is called with the source when either has moved.

    Attributes
    ----------
    enough
        A slab of this many bytes ends the search, whether or not it is the minimum.
    is_decision
        Whether `enough` is a capacity asked for: smaller slabs are of no use then.
    bound, slab
        Bytes; the slab counts once there are `offsets`.
    """

    def __init__(
        self,
        component: Component,
        rules: Rules,
        effort: PackingEffort,
        seed: int,
        clock: Clock,
        on_move: Callable[[str], None],
    ) -> None:
        self.component, self.rules, self.effort = component, rules, effort
        self.clock, self.on_move = clock, on_move
        self.engine = PackingEngine(component, rules, effort)
        self.seed, self.random = seed, np.random.default_rng(seed)
        self.bound = component.bound
        self.enough = self.bound
        self.is_decision = False
        self.offsets: IntArray | None = None
        self.slab = -1
        self.stride = 0.5
        self.fits = self.beams = self.cores = 0
        self.sums: SubsetSums | None = None
        self.portfolios: dict[int, RestartPortfolio] = {}
        self.core_searches: dict[int, list[CapacitySearch]] = {}

    @property
    def best(self) -> IntArray:
        """The best packing, in units; there is one after :meth:`run_first_fit`."""
        if self.offsets is None:
            raise RuntimeError("no packing yet")
        return self.offsets

    def is_done(self) -> bool:
        """Whether the packing is good enough or no better one exists."""
        return self.offsets is not None and self.slab <= max(self.bound, self.enough)

    def offer(self, offsets: IntArray, source: str) -> None:
        """Keep a packing if it is better."""
        slab = self.component.slab(offsets)
        if self.offsets is None or slab < self.slab:
            self.offsets, self.slab = offsets, slab
            self.on_move(source)

    def offer_bytes(self, offsets: IntArray) -> None:
        """Keep a packing given in bytes, pushed down onto whole units."""
        slab = int((offsets + self.component.bytes).max(initial=0))
        if self.engine.first_fit(np.argsort(offsets, kind="stable"), slab, self.clock):
            self.offer(self.engine.offsets(), "warm start")
        elif not (offsets % self.component.unit).any():
            self.offer(offsets // self.component.unit, "warm start")

    def run_first_fit(self) -> None:
        """Try the orders of first fit; the first one is begun whatever the time."""
        n, component = len(self.component), self.component
        orders = max(4, min(len(FIRST_FIT_ORDERS), self.effort.first_fit_work // max(1, n * n)))
        units = sum(component.alignment.tolist()) + int(component.pin.max(initial=0)) + n + 1
        unlimited = sum(component.bytes.tolist()) + component.unit * units
        for name in FIRST_FIT_ORDERS[:orders]:
            begun = self.fits > 0 or self.offsets is not None
            if self.is_done() or (begun and self.clock.expired()):
                return
            capacity = unlimited if self.offsets is None else self.slab - 1
            self.fits += 1
            if self.engine.first_fit(self.engine.keys.order(name), capacity, self.clock):
                self.offer(self.engine.offsets(), f"first fit {name}")

    def run(self) -> None:
        """Search until done, out of time, or beyond what the search can take."""
        effort, nodes, turn = self.effort, self.effort.first_nodes, 0
        many = len(self.component) >= effort.core_buffers
        growth = effort.beam_growth if self._has_beams() else effort.growth
        while not self.is_done() and not self.clock.expired():
            target = max(self.bound, min(self.enough, self.slab - 1))
            if many:
                self.run_cores(target, effort.core_share * nodes)
            if self.is_done() or self.clock.expired():
                return
            if not self.component.is_searchable:
                if not many or turn == effort.core_turns:
                    return
            elif self._take_turn(target, nodes, turn):
                continue
            nodes += nodes // growth
            turn += 1

    def _has_beams(self) -> bool:
        enough = len(self.component) >= self.effort.beam_buffers
        return enough and self.component.occupancy is None

    def _take_turn(self, target: int, nodes: int, turn: int) -> bool:
        """Search at the target, then at easier capacities; whether the target was decided."""
        effort = self.effort
        if self.search(target, nodes) or self.clock.expired():
            return True
        if not self.is_decision:
            self._approach(target, nodes)
        patience = effort.patience if self.is_decision else 1
        if turn >= patience and self._has_beams() and not self.is_done():
            # The target may be out of reach: later turns aim between by turns.
            low = turn < effort.beam_turns or turn % 2 == 1 or self.is_decision
            aim = target if low else max(target, self._between(target))
            self.run_beams(aim, effort.beam_share * nodes)
        return False

    def _between(self, target: int) -> int:
        """Return a capacity below the slab, nearer to it the more searches have failed."""
        return self.slab - max(1, int((self.slab - target) * self.stride))

    def _approach(self, target: int, nodes: int) -> None:
        """Search between target and slab: further down after success, nearer after failure."""
        until = self.engine.nodes + nodes
        while self.engine.nodes < until and not self.is_done() and not self.clock.expired():
            capacity = self._between(target)
            if capacity <= target:
                return
            slab = self.slab
            self.search(capacity, nodes // self.effort.approach)
            if self.slab < slab:
                self.stride = min(0.5, 2 * self.stride)
            elif self.bound <= target:
                far = (self.slab - target) * self.stride > self.component.unit
                self.stride = self.stride / 2 if far else 0.5

    def search(self, capacity: int, nodes: int) -> bool:
        """Search at a capacity by branch and bound; whether that decided it."""
        answer = self._portfolio(capacity).run(nodes)
        if answer == SOLVED:
            self.offer(self.engine.offsets(), "branch and bound")
        elif answer == EXHAUSTED:
            self._raise_bound(capacity)
        return answer in (SOLVED, EXHAUSTED)

    def _portfolio(self, capacity: int) -> RestartPortfolio:
        """Return the restarts at a capacity, which go on from those before."""
        found = self.portfolios.get(capacity)
        if found is None:
            found = RestartPortfolio(self.engine, capacity, self.random, self.clock)
            self.portfolios[capacity] = found
        return found

    def _raise_bound(self, refuted: int) -> None:
        """Go to the next possible slab above a capacity whose search was exhausted."""
        if self.sums is None:
            upper = self.slab if self.rules.subset_sums else 0
            self.sums = SubsetSums(self.component, upper, self.effort.sum_words)
        self.bound = max(self.bound, min(self.sums.after(refuted), self.slab))
        self.on_move("exhaustive search")

    def run_beams(self, capacity: int, nodes: int) -> None:
        """Try beams until one succeeds or that many children have been made."""
        effort = self.effort
        until = self.engine.nodes + nodes
        while self.engine.nodes < until and not self.clock.expired():
            width, softness = effort.beams[self.beams % len(effort.beams)]
            answer = search_beam(
                self.engine,
                capacity,
                width=width,
                softness=softness,
                rule=effort.beam_rules[self.beams % len(effort.beam_rules)],
                # A stream of its own: what a beam finds does not depend on the searches before.
                random=np.random.default_rng([self.seed, self.beams]),
                clock=self.clock,
            )
            self.beams += 1
            if answer == SOLVED:
                self.offer(self.engine.offsets(), "beam search")
                return

    def run_cores(self, capacity: int, nodes: int) -> None:
        """Pack cores within a capacity, each by so many nodes, and fill up around them."""
        component, before = self.component, 0
        for share in self.effort.core_shares:
            large = component.bytes >= -(-capacity // share)
            core = np.flatnonzero(large | (component.pin >= 0))
            if len(core) in (before, len(component)):
                continue
            before = len(core)
            if self.clock.expired() or not self._pack_core(core, capacity, nodes):
                # A larger core does not fit more easily.
                return
            self.cores += 1
            offsets = self.engine.offsets()
            for name in self.effort.fill_orders:
                order = self.engine.keys.order(name)
                self.engine.set_offsets(offsets)
                if self.engine.first_fit(order, self.slab - 1, self.clock, held=core):
                    self.offer(self.engine.offsets(), f"core of {len(core)} + first fit {name}")
                    if self.is_done():
                        return

    def _pack_core(self, core: IntArray, capacity: int, nodes: int) -> bool:
        """Pack some buffers within a capacity; the engine has their offsets then."""
        searches = self.core_searches.get(len(core))
        if searches is None:
            problem = select(self.component.problem, self.component.ids[core])
            seed = int(self.random.integers(1 << 30))
            searches = [
                CapacitySearch(part, self.rules, self.effort, seed, self.clock, lambda _: None)
                for part in make_components(problem, self.rules)
            ]
            self.core_searches[len(core)] = searches
        placed = self.engine.offsets()
        for search in searches:
            part = search.component
            search.enough = capacity
            first = search.offsets is None
            if first:
                search.run_first_fit()
            offsets = search.offsets
            if offsets is None or search.slab > capacity or not first:
                if not part.is_searchable:
                    return False
                before = search.engine.nodes
                answer = search._portfolio(capacity).run(nodes)
                self.engine.nodes += search.engine.nodes - before
                if answer == EXHAUSTED:
                    # What is refuted of some buffers is refuted of all.
                    self._raise_bound(capacity)
                if answer != SOLVED:
                    return False
                offsets = search.engine.offsets()
            placed[core[part.ids]] = offsets * (part.unit // self.component.unit)
        self.engine.set_offsets(placed)
        return True
