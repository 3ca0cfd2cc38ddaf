"""Search engine of one component: builds the arrays once and decides any number of capacities.

Capacities of a component differ only in the maximum offset of each buffer, which is the capacity
minus its size, or less if the buffer has an upper limit. Pushing a packing down keeps such limits,
so rules that assume packings pushed down hold with them. Sections, zones and sort keys are computed
once. Failed states stay valid for smaller capacities.

Example: buffers of 4 and 2 bytes that are live together have the maximum offsets 2 and 4 at
capacity 6, and 1 and 3 at capacity 5. At capacity 5 the search places the first at 0 and finds no
offset for the second, and the other way around, so 5 is refuted.
"""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.elements import MAX_ADDRESS
from optsched.packing.cliques import words_of
from optsched.packing.components import Component
from optsched.packing.kernels.failures import WAYS, Failures
from optsched.packing.kernels.first_fit import first_fit
from optsched.packing.kernels.search import EXHAUSTED, FRAME_COLUMNS, LIMIT, search
from optsched.packing.kernels.state import B, C, PackingState, S
from optsched.packing.orders import SortKeys
from optsched.packing.rules import PackingEffort, Rules
from optsched.runtime.clock import Clock


class SearchArrays(NamedTuple):
    """Arguments of :func:`optsched.packing.kernels.search.search`."""

    state: PackingState
    occupied: IntArray | None
    frames: IntArray
    failures: Failures
    remember: bool


class PackingEngine:
    """Engine that runs branch and bound and first fit on one component."""

    def __init__(self, component: Component, rules: Rules, effort: PackingEffort) -> None:
        n = len(component)
        self.component, self.rules, self.effort = component, rules, effort
        self.keys = SortKeys(component)
        self.nodes = self.runs = self.refuted = 0
        self.capacity = -1
        limits = component.problem.below[component.ids] - component.bytes
        self.highest = limits // component.unit
        # A node costs about as much as there are buffers and sections, so large components check
        # the clock after fewer nodes.
        self.slice = max(64, effort.slice_work // (n + component.sections.count + 1))
        self.line = np.zeros(n, np.int64)
        self.buffers = self._make_buffers()
        occupancy = component.occupancy
        self.parts = None if occupancy is None else occupancy.in_units(component.unit)
        self.ranges = np.zeros((0, 2), np.int64) if occupancy is None else occupancy.ranges(n)
        self.arrays: SearchArrays | None = None

    def _make_buffers(self) -> IntArray:
        component = self.component
        n, pin = len(component), component.pin
        length = component.sections.last - component.sections.first
        buffers = np.zeros((len(B), n), np.int64)
        buffers[B.first] = component.sections.first
        buffers[B.last] = component.sections.last
        buffers[B.size] = component.size
        buffers[B.alignment] = component.alignment
        buffers[B.before_me] = -1
        buffers[B.release] = np.maximum(pin, 0)
        buffers[B.parts] = np.cumsum(length) - length - component.sections.first
        if self.rules.identical and n > 1:
            columns = [*buffers[: B.before_me], pin, component.bytes, self.highest]
            columns += [*component.sections.masks.T]
            if component.occupancy is not None:
                columns.append(component.occupancy.kinds(n))
            # Components are sorted by these columns, so identical buffers are adjacent.
            same = np.ones(n - 1, bool)
            for column in columns:
                same &= column[1:] == column[:-1]
            # Numbers of the earlier of two identical neighbors; -1 elsewhere, as set above.
            buffers[B.before_me, 1:][same] = np.flatnonzero(same)
        return buffers

    def _make_arrays(self) -> SearchArrays:
        component = self.component
        n, m = len(component), component.sections.count
        cover_start, cover = component.cover
        sections = np.zeros((len(S), m + 2), np.int64)
        sections[S.weight] = 1
        sections[S.entry, : m + 1] = np.searchsorted(component.sections.first, np.arange(m + 1))
        sections[S.entry, m + 1] = n
        sections[S.cover, : m + 1] = cover_start
        counters = np.zeros(len(C), np.int64)
        counters[C.plain] = component.is_plain
        counters[C.gapped] = component.sections.masks.shape[1] > 0
        counters[C.far] = self.rules.far_skip
        # Room for the changes of a path of the search, which stops with LIMIT before this room is
        # used up: see `trail_room`.
        trail = np.zeros((2, 6 * component.covered + 60 * (n + m) + 65536), np.int64)
        masks = np.ascontiguousarray(component.sections.masks)
        zones = self._make_zones()
        remember = self.rules.failures and n <= self.effort.failure_buffers
        return SearchArrays(
            PackingState(self.buffers, sections, cover, zones, masks, trail, counters),
            None if component.occupancy is None else component.occupied,
            np.zeros((n + 4, FRAME_COLUMNS), np.int64),
            self._make_failures(remember),
            remember,
        )

    def _make_failures(self, remember: bool) -> Failures:
        n, m = len(self.component), self.component.sections.count
        words = words_of(n)
        width = words + m + 1
        # As many entries as fit the bytes, but not more than a thousand per buffer.
        most = min(n << 10, self.effort.failure_bytes // (WAYS * width * 8))
        places = 1 << max(0, most.bit_length() - 1) if remember else 1
        return Failures(
            np.zeros((WAYS * places, width), np.int64),
            np.zeros(words, np.int64),
            np.zeros(1, np.int64),
        )

    def _make_zones(self) -> IntArray:
        """Return the intervals of offsets that overlap a pinned buffer, merged, buffer by buffer.

        There are none with partial occupancy: pinned buffers are placed before the search in that
        case.
        """
        component = self.component
        sections, size, pin = component.sections, component.size, component.pin
        pinned = np.flatnonzero((pin >= 0) & (component.occupancy is None))
        starts = [0]
        found: list[tuple[int, int]] = []
        for i in range(len(component)):
            begin = len(found)
            if pin[i] < 0 and len(pinned):
                together = sections.first[pinned] < sections.last[i]
                together &= sections.last[pinned] > sections.first[i]
                if sections.masks.shape[1]:
                    together &= (sections.masks[pinned] & sections.masks[i]).any(axis=1)
                here = pinned[together]
                low, high = pin[here] - size[i], pin[here] + size[here]
                for a, b in sorted(zip(low.tolist(), high.tolist(), strict=True)):
                    # A buffer that starts between these two offsets overlaps the pinned one.
                    if len(found) > begin and a < found[-1][1]:
                        found[-1] = (found[-1][0], max(found[-1][1], b))
                    else:
                        found.append((a, b))
            starts.append(len(found))
        self.buffers[B.zone], self.buffers[B.zone_end] = starts[:-1], starts[1:]
        return np.ascontiguousarray(np.array(found or [(0, 0)], np.int64).T)

    def _set_capacity(self, capacity: int) -> bool:
        """Set the maximum offsets for a capacity; return False if a buffer has no valid offset."""
        component, pin = self.component, self.component.pin
        highest = np.minimum((capacity - component.bytes) // component.unit, self.highest)
        fits = bool((highest >= np.maximum(pin, 0)).all())
        self.buffers[B.max_offset] = np.where(pin >= 0, pin, highest)
        return fits

    def prepare(self, capacity: int) -> PackingState | None:
        """Return the state for a capacity, or None if some buffer does not fit within it."""
        if not self._set_capacity(capacity):
            return None
        if self.arrays is None:
            self.arrays = self._make_arrays()
        state, failures = self.arrays.state, self.arrays.failures
        if capacity != self.capacity:
            ends = self.buffers[B.max_offset] + self.component.size
            state.sections[S.cap, :-2] = self.component.tops(ends)
            # Failed states hold for smaller capacities, not for larger ones.
            if capacity > self.capacity:
                failures.rows[:] = 0
            self.capacity = capacity
        return state

    def decide(self, capacity: int, rank: IntArray, rule: int, limit: int, clock: Clock) -> int:
        """Search for a packing within a capacity; return SOLVED, EXHAUSTED or LIMIT.

        `capacity`: maximum slab in bytes. `rank`: shape `(n,)`: a permutation; buffers of low rank
        are tried first. `rule`: rule that chooses the section to branch on. `limit`: number of
        nodes after which the search stops with LIMIT. `clock`: time and work limits; once it has
        expired, the search stops with LIMIT.

        Notes
        -----
        If the answer is SOLVED, :meth:`offsets` returns the packing.
        """
        self.runs += 1
        state = self.prepare(capacity)
        # A buffer that does not fit alone refutes the capacity at once.
        if state is None or self.arrays is None:
            return EXHAUSTED
        self.buffers[B.rank] = rank
        counters = state.counters
        counters[C.depth] = 0
        answer, before, nodes = LIMIT, -1, 0
        # A node scans all unplaced buffers a few times.
        node_work = self.effort.node_work + len(rank)
        more = min(self.effort.slice_nodes, self.slice)
        while answer == LIMIT and before < nodes < limit:
            # Slices double, so that a short search is not slowed down by looking at the clock.
            before = nodes
            until = min(limit, nodes + more)
            run = search.for_work(node_work * (until - nodes))
            answer = run(*self.arrays, rule, until)
            nodes = int(counters[C.nodes])
            clock.spend(nodes - max(0, before))
            more = min(2 * more, self.slice)
            if answer == LIMIT and clock.expired():
                break
        self.nodes += nodes
        self.refuted += int(counters[C.refuted])
        return answer

    def reset_weights(self) -> None:
        """Forget how often each section has failed."""
        if self.arrays is not None:
            self.arrays.state.sections[S.weight] = 1

    def offsets(self) -> IntArray:
        """Return a copy of the packing found last, in units."""
        found: IntArray = self.buffers[B.offset].copy()
        return found

    def set_offsets(self, offsets: IntArray) -> None:
        """Set the packing that :meth:`offsets` returns."""
        self.buffers[B.offset] = offsets

    def first_fit(
        self, order: IntArray, capacity: int, clock: Clock, held: IntArray | None = None
    ) -> bool:
        """Place all buffers in an order within a capacity in bytes; return True if they all fit.

        If they do, :meth:`offsets` returns the packing. Buffers in `held` keep the offsets set
        before, as pinned buffers keep their pins. If the clock expires before all buffers are
        placed, the result is False. The clock is checked only where there are many buffers.
        """
        # The kernel rounds tops up to multiples of the alignment; these must fit in 64 bits.
        step = int(self.component.alignment.max(initial=1))
        if not self._set_capacity(min(capacity, MAX_ADDRESS - step * self.component.unit)):
            return False
        pin, offsets = self.component.pin, self.buffers[B.offset]
        stays = pin >= 0
        offsets[stays] = pin[stays]
        if held is not None:
            stays[held] = True
        order = np.concatenate([order[stays[order]], order[~stays[order]]])
        count = int(stays.sum())
        # Two buffers with bit sets of sections are compared word by word.
        work = 2 * self.effort.fit_work // max(1, self.component.sections.masks.shape[1])
        while True:
            # First fit compares about k * k / 2 pairs for k buffers: the next slice ends where
            # `work` more pairs are reached.
            until = min(len(order), isqrt(count * count + max(work, 2 * count + 1)))
            found = self._fit(order[:until], count)
            clock.spend(max(0, found - count))
            if found < until:
                return False
            if until == len(order) or clock.expired():
                return until == len(order)
            # The kernel keeps placed buffers sorted by offset; sorted input needs no moves.
            line = np.argsort(offsets[order[:until]], kind="stable")
            order, count = np.concatenate([order[line], order[until:]]), until

    def _fit(self, order: IntArray, placed: int) -> int:
        """Place the buffers of an order after the first `placed`; return the number in place."""
        pairs = len(order) * (len(order) - placed)
        run = first_fit.for_work(pairs // self.effort.pairs_per_element)
        masks = self.component.sections.masks
        return run(self.buffers, masks, self.parts, self.ranges, order, placed, self.line)
