"""Search for the minimum slab of one component.

The minimum slab lies between a lower bound and the slab of the best packing found. The search
decides one capacity after another. A packing found within a capacity becomes the new best packing;
if the search of a capacity is exhausted, the next possible slab becomes the new lower bound. The
bound itself is tried first, because in most problems a packing meets it. Capacities between bound
and slab are easier and are tried as well. For instance, with the bound at 96 bytes and a packing of
104, the search tries 96; if it is exhausted and all sizes are multiples of 4, the bound rises to
100.

Four methods take turns, with growing node limits:

* branch and bound with restarts (:mod:`optsched.packing.portfolio`), the only method that can
  refute a capacity;
* core search, for components of many buffers: the few large buffers, which decide, are packed by
  branch and bound, and the other buffers are placed around them by first fit;
* beam search (:mod:`optsched.packing.beam`), for capacities at which branch and bound is slow;
* first fit in several orders, once at the beginning.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.selection import select
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
    """Search that raises the bound and improves the packing of a component until they meet.

    The function `on_move` is called with the name of the method each time the bound or the packing
    has improved.

    Attributes
    ----------
    enough
        Slab in bytes that ends the search, even if it is not the minimum.
    is_decision
        True if the caller asked whether the capacity `enough` can be met; smaller slabs are not
        searched for in that case.
    bound, slab
        Lower bound and slab of the best packing, in bytes; `slab` is valid once `offsets` is set.
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
        # Distance of the next capacity below the slab, as a share of that to the target.
        self.stride = 0.5
        self.fits = self.beams = self.cores = 0
        self.sums: SubsetSums | None = None
        self.portfolios: dict[int, RestartPortfolio] = {}
        self.core_searches: dict[int, list[CapacitySearch]] = {}

    @property
    def best(self) -> IntArray:
        """The best packing, in units; available after :meth:`run_first_fit`."""
        if self.offsets is None:
            raise RuntimeError("no packing yet")
        return self.offsets

    def is_done(self) -> bool:
        """Return True if the packing is good enough or proved minimum."""
        return self.offsets is not None and self.slab <= max(self.bound, self.enough)

    def offer(self, offsets: IntArray, source: str) -> None:
        """Keep a packing, in units, if it is better than the best one."""
        slab = self.component.slab(offsets)
        if self.offsets is None or slab < self.slab:
            self.offsets, self.slab = offsets, slab
            self.on_move(source)

    def offer_bytes(self, offsets: IntArray) -> None:
        """Keep a packing given in bytes, after pushing it down to whole units."""
        slab = int((offsets + self.component.bytes).max(initial=0))
        if self.engine.first_fit(np.argsort(offsets, kind="stable"), slab, self.clock):
            self.offer(self.engine.offsets(), "warm start")
        # An offset may be between units; whole units are needed, and pushing down failed.
        elif not (offsets % self.component.unit).any():
            self.offer(offsets // self.component.unit, "warm start")

    def run_first_fit(self) -> None:
        """Run first fit in several orders; the first run starts even if the time is up."""
        n, component = len(self.component), self.component
        orders = max(4, min(len(FIRST_FIT_ORDERS), self.effort.first_fit_work // max(1, n * n)))
        for name in FIRST_FIT_ORDERS[:orders]:
            begun = self.fits > 0 or self.offsets is not None
            if self.is_done() or (begun and self.clock.expired()):
                return
            # First fit stops as soon as it exceeds the capacity, so a worse order ends early.
            capacity = component.unlimited if self.offsets is None else self.slab - 1
            self.fits += 1
            if self.engine.first_fit(self.engine.keys.order(name), capacity, self.clock):
                self.offer(self.engine.offsets(), f"first fit {name}")

    def run(self) -> None:
        """Search until done, out of time, or the remaining methods cannot handle the component."""
        effort, nodes, turn = self.effort, self.effort.first_nodes, 0
        many = len(self.component) >= effort.core_buffers
        # Beams share the turns, so the nodes of branch and bound grow more slowly with them.
        growth = effort.beam_growth if self._has_beams() else effort.growth
        while not self.is_done() and not self.clock.expired():
            # A packing at the bound ends the search, and a refutation there raises the bound.
            target = max(self.bound, min(self.enough, self.slab - 1))
            if many:
                self.run_cores(target, effort.core_share * nodes)
            if self.is_done() or self.clock.expired():
                return
            if not self.component.is_searchable:
                if not many or turn == effort.core_turns:
                    return
            elif self._take_turn(target, nodes, turn):
                # Bound or slab has moved: search the new target with the same number of nodes.
                continue
            # Geometric growth: all failed turns together cost about as much as the last one.
            nodes += nodes // growth
            turn += 1

    def _has_beams(self) -> bool:
        enough = len(self.component) >= self.effort.beam_buffers
        return enough and self.component.occupancy is None

    def _take_turn(self, target: int, nodes: int, turn: int) -> bool:
        """Search at the target, then at easier capacities; return True if it was decided."""
        effort = self.effort
        # A success or the end of the time leaves nothing for the other methods in this turn.
        if self.search(target, nodes) or self.clock.expired():
            return True
        if not self.is_decision:
            # A decision asks for one capacity only, so that other capacities would not answer it.
            self._approach(target, nodes)
        patience = effort.patience if self.is_decision else 1
        if turn >= patience and self._has_beams() and not self.is_done():
            # The target may be out of reach: every second later turn aims between target and slab.
            low = turn < effort.beam_turns or turn % 2 == 1 or self.is_decision
            aim = target if low else max(target, self._between(target))
            self.run_beams(aim, effort.beam_share * nodes)
        return False

    def _between(self, target: int) -> int:
        """Return a capacity below the slab, closer to it the more searches have failed."""
        return self.slab - max(1, int((self.slab - target) * self.stride))

    def _approach(self, target: int, nodes: int) -> None:
        """Search between target and slab: lower after a success, higher after a failure."""
        until = self.engine.nodes + nodes
        while self.engine.nodes < until and not self.is_done() and not self.clock.expired():
            capacity = self._between(target)
            if capacity <= target:
                return
            slab = self.slab
            self.search(capacity, nodes // self.effort.approach)
            if self.slab < slab:
                # Success: aim lower next time, at most half of the gap.
                self.stride = min(0.5, 2 * self.stride)
            elif self.bound <= target:
                far = (self.slab - target) * self.stride > self.component.unit
                self.stride = self.stride / 2 if far else 0.5

    def search(self, capacity: int, nodes: int) -> bool:
        """Search a capacity by branch and bound; return True if the capacity was decided."""
        answer = self._portfolio(capacity).run(nodes)
        if answer == SOLVED:
            self.offer(self.engine.offsets(), "branch and bound")
        elif answer == EXHAUSTED:
            self._raise_bound(capacity)
        return answer in (SOLVED, EXHAUSTED)

    def _portfolio(self, capacity: int) -> RestartPortfolio:
        """Return the restarts for a capacity, which resume where earlier calls stopped."""
        found = self.portfolios.get(capacity)
        if found is None:
            # Kept per capacity, as restarts at a capacity continue Luby's sequence there.
            found = RestartPortfolio(self.engine, capacity, self.random, self.clock)
            self.portfolios[capacity] = found
        return found

    def _raise_bound(self, refuted: int) -> None:
        """Raise the bound to the next possible slab above a refuted capacity."""
        if self.sums is None:
            # Made at the first refutation only: most components need no sums.
            upper = self.slab if self.rules.subset_sums else 0
            self.sums = SubsetSums(self.component, upper, self.effort.sum_words)
        self.bound = max(self.bound, min(self.sums.after(refuted), self.slab))
        self.on_move("exhaustive search")

    def run_beams(self, capacity: int, nodes: int) -> None:
        """Run beam searches until one succeeds or `nodes` children have been created."""
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
                # A separate random stream per beam makes its result independent of earlier
                # searches.
                random=np.random.default_rng([self.seed, self.beams]),
                clock=self.clock,
            )
            self.beams += 1
            if answer == SOLVED:
                self.offer(self.engine.offsets(), "beam search")
                return

    def run_cores(self, capacity: int, nodes: int) -> None:
        """Pack cores within a capacity, by at most `nodes` nodes each, and fill up around them."""
        component, before = self.component, 0
        for share in self.effort.core_shares:
            # Rounded up, as a smaller buffer than that share is not large.
            large = component.bytes >= -(-capacity // share)
            # Pinned buffers belong to every core, since first fit cannot move around them later.
            core = np.flatnonzero(large | (component.pin >= 0))
            if len(core) in (before, len(component)):
                continue
            before = len(core)
            if self.clock.expired() or not self._pack_core(core, capacity, nodes):
                # A larger core contains this one, so it cannot be easier to pack.
                return
            self.cores += 1
            offsets = self.engine.offsets()
            for name in self.effort.fill_orders:
                order = self.engine.keys.order(name)
                self.engine.set_offsets(offsets)
                # The core may leave holes that only some orders fill.
                if self.engine.first_fit(order, self.slab - 1, self.clock, held=core):
                    self.offer(self.engine.offsets(), f"core of {len(core)} + first fit {name}")
                    if self.is_done():
                        return

    def _pack_core(self, core: IntArray, capacity: int, nodes: int) -> bool:
        """Pack some of the buffers within a capacity and write their offsets to the engine.

        Return False if no such packing was found.
        """
        searches = self.core_searches.get(len(core))
        if searches is None:
            problem = select(self.component.problem, self.component.ids[core])
            # Drawn once per core, so that resumed searches of it repeat nothing.
            seed = int(self.random.integers(1 << 30))
            searches = [
                CapacitySearch(part, self.rules, self.effort, seed, self.clock, lambda _: None)
                for part in make_components(problem, self.rules)
            ]
            self.core_searches[len(core)] = searches
        # Buffers outside the core keep their present offsets until the caller places them.
        placed = self.engine.offsets()
        for search in searches:
            part = search.component
            search.enough = capacity
            first = search.offsets is None
            if first:
                search.run_first_fit()
            # A core packed before keeps its offsets; asking again with more nodes looks for
            # another packing.
            offsets = search.offsets
            if offsets is None or search.slab > capacity or not first:
                if not part.is_searchable:
                    return False
                before = search.engine.nodes
                answer = search._portfolio(capacity).run(nodes)
                self.engine.nodes += search.engine.nodes - before
                if answer == EXHAUSTED:
                    # A capacity that is too small for some of the buffers is too small for all of
                    # them.
                    self._raise_bound(capacity)
                if answer != SOLVED:
                    return False
                offsets = search.engine.offsets()
            placed[core[part.ids]] = offsets * (part.unit // self.component.unit)
        self.engine.set_offsets(placed)
        return True
