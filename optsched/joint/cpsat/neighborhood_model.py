"""The model of a neighborhood: some ops and buffers of a plan are free, all else is fixed.

::

    slot(i)         offset of free buffer i, a multiple of its alignment, where no fixed buffer lies
    released(i, v)  all users of buffer i run before op v
    below(i, j)     buffer i ends at or below the offset of buffer j
    released(i, birth of j) or released(j, birth of i) or below(i, j) or below(j, i)

All buffers allocated or released in the window of free steps are free. A fixed buffer is live
throughout the window or not at all, so that it conflicts with the same buffers in every order of
the window: it only takes offsets away.

Example: a free buffer of 4 bytes is live beside fixed ones at bytes 4 to 8 and 10 to 20, and the
slab of 20 bytes should fall. Only the offset 0 is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from ortools.sat.python import cp_model

from optsched.joint.cpsat.pairwise import OrderPoint, PairwiseOrder
from optsched.joint.instance import INPUT, ModelInstance, live_spans
from optsched.joint.order_program import Segment
from optsched.model.arrays import IntArray

Intervals = list[tuple[int, int]]
"""Closed intervals of integers, in ascending order."""


class PlanInUnits:
    """Order and offsets of a plan, with what follows from them.

    Parameters
    ----------
    instance
        Items and their sizes.
    order
        Ops in the order of the plan.
    offsets
        Offset of each item in units.
    """

    def __init__(self, instance: ModelInstance, order: Sequence[int], offsets: IntArray) -> None:
        self.instance, self.order, self.offsets = instance, list(order), offsets
        spans = np.array(live_spans(instance, self.order), np.int64).reshape(-1, 2)
        self.start, self.end = spans[:, 0], spans[:, 1]
        self.tops = offsets + np.array([item.room for item in instance.items], np.int64)
        self.slab = int(self.tops.max(initial=0))

    def changed(self, low: int, high: int) -> npt.NDArray[np.bool_]:
        """Return which items the ops of the steps `[low, high)` allocate or release."""
        items = self.instance.items
        inputs = np.array([item.birth == INPUT for item in items], np.bool_)
        kept = np.array([item.kept for item in items], np.bool_)
        # An input is allocated before the first step, and a kept item never released.
        born = ~inputs & (self.start >= low) & (self.start < high)
        released: npt.NDArray[np.bool_] = ~kept & (self.end > low) & (self.end <= high)
        return born | released


class NeighborhoodModel:
    """Model of the free part of a plan, whose highest buffer has to come below the slab.

    Parameters
    ----------
    plan
        The plan.
    part
        Ops of the window, which may be empty.
    low
        First step of the window.
    free
        Positions of the free items: all that :meth:`PlanInUnits.changed` returns, and others.
    floor
        Units below which nothing is asked for.
    """

    def __init__(
        self, plan: PlanInUnits, part: Segment, low: int, free: Sequence[int], floor: int
    ) -> None:
        self.plan, self.part, self.free = plan, part, list(free)
        self.low, self.high = low, low + len(part.ops)
        self.order = PairwiseOrder(part.program)
        self.model = self.order.model
        self.number = {v: i for i, v in enumerate(part.ops)}
        # The order is hinted before there are variables of offsets, which have hints of their own.
        self.order.add_hint(OrderPoint.of([self.number[v] for v in self._steps()]))
        self.top = self.model.new_int_var(min(floor, plan.slab - 1), plan.slab - 1, "top")
        self.slots = self._free_slots()
        self.is_impossible = not all(self.slots.values())
        if not self.is_impossible:
            self.offset = {i: self._add_offset(i) for i in self.free}
            self._add_loads()
            self._keep_apart()
            self.model.minimize(self.top)

    def read(self, value: Callable[[Any], int]) -> Neighbor:
        """Return what a solution describes."""
        return Neighbor(self, self.order.read(value), [value(self.offset[i]) for i in self.free])

    def _steps(self) -> list[int]:
        return self.plan.order[self.low : self.high]

    # Offsets.

    def _free_slots(self) -> dict[int, Intervals]:
        """Return the slots of each free item that no fixed item takes."""
        fixed = np.ones(len(self.plan.offsets), np.bool_)
        fixed[self.free] = False
        beside = {i: fixed & self._lives_with(i) for i in self.free}
        for a, b in self.plan.instance.apart:
            for i, j in ((a, b), (b, a)):
                if i in beside and fixed[j]:
                    beside[i][j] = True
        return {i: self._slots_beside(i, np.flatnonzero(mask)) for i, mask in beside.items()}

    def _lives_with(self, i: int) -> npt.NDArray[np.bool_]:
        plan = self.plan
        mask: npt.NDArray[np.bool_] = (plan.start < plan.end[i]) & (plan.end > plan.start[i])
        return mask

    def _slots_beside(self, i: int, others: IntArray) -> Intervals:
        """Return the slots of an item below the top of the slab, beside fixed items."""
        item = self.plan.instance.items[i]
        alignment = self._alignment(i)
        if item.pin is not None:
            return [(item.pin, item.pin)] if item.pin + item.room < self.plan.slab else []
        others = others[np.argsort(self.plan.offsets[others])]
        # One place above all others ends the last gap.
        lows = [*self.plan.offsets[others].tolist(), self.plan.slab - 1]
        highs = [*self.plan.tops[others].tolist(), self.plan.slab]
        found, at = [], 0
        for low, high in zip(lows, highs, strict=True):
            first, last = -(-at // alignment), (low - item.room) // alignment
            if first <= last:
                found.append((first, last))
            at = max(at, high)
        return found

    def _add_offset(self, i: int) -> Any:
        """Add the slot of an item, and return its offset."""
        alignment = self._alignment(i)
        domain = cp_model.Domain.from_intervals(self.slots[i])
        slot = self.model.new_int_var_from_domain(domain, f"slot{i}")
        self.model.add_hint(slot, int(self.plan.offsets[i]) // alignment)
        offset = slot * alignment
        self.model.add(offset + self._room(i) <= self.top)
        return offset

    def _room(self, i: int) -> int:
        return self.plan.instance.items[i].room

    def _alignment(self, i: int) -> int:
        item = self.plan.instance.items[i]
        return item.alignment if item.pin is None else 1

    def _add_loads(self) -> None:
        """Require that what is live at a step of the window fits below all tops; it is implied."""
        others = np.ones(len(self.plan.tops), np.bool_)
        others[self.free] = False
        # Fixed items may lie above the free ones, even at the top of the slab.
        highest = max(int(self.plan.tops[others].max(initial=0)), self.plan.slab - 1)
        for v in range(len(self.part.program)):
            self.model.add(self.order.load(v) <= highest)

    # Conflicts.

    def _keep_apart(self) -> None:
        """Keep free items apart from each other."""
        apart = set(self.plan.instance.apart)
        for i, j in combinations(self.free, 2):
            if (i, j) in apart or (j, i) in apart:
                self._disjoint(i, j, [])
            elif self._is_open(i, j):
                unless = [self._released(i, j), self._released(j, i)]
                # With the constant 1 one of the two is released first in any case.
                if not any(isinstance(x, int) and x for x in unless):
                    self._disjoint(i, j, [x for x in unless if not isinstance(x, int)])
            elif self.plan.start[i] < self.plan.end[j] and self.plan.start[j] < self.plan.end[i]:
                self._disjoint(i, j, [])

    def _is_open(self, i: int, j: int) -> bool:
        """Return True if the order of the window may decide whether two items conflict."""
        start, end = self.plan.start, self.plan.end
        # The conflict is decided inside the window only if it begins and ends there.
        first, last = max(start[i], start[j]), min(end[i], end[j])
        return bool(self.low <= first < self.high and self.low < last <= self.high)

    def _released(self, i: int, j: int) -> Any:
        """Return a literal that is true if item `i` is released before `j` is allocated."""
        first, second = self.plan.instance.items[i], self.plan.instance.items[j]
        if first.kept or second.birth not in self.number or self.plan.end[i] > self.high:
            return 0
        users = [self.number[u] for u in first.users if u in self.number]
        return self.order.released(users, self.number[second.birth])

    def _disjoint(self, i: int, j: int, unless: Sequence[Any]) -> None:
        """Require one of two items to lie below the other, unless a literal is true."""
        ways = []
        for a, b in ((i, j), (j, i)):
            room, (low, high), (first, last) = self._room(a), self._ends(a), self._ends(b)
            if high + room <= first:
                # One lies below the other wherever both are.
                return
            if low + room <= last:
                ways.append(self._add_below(a, b))
        self.model.add_bool_or([*ways, *unless])

    def _ends(self, i: int) -> tuple[int, int]:
        """Return the smallest and the largest offset of an item."""
        alignment = self._alignment(i)
        return self.slots[i][0][0] * alignment, self.slots[i][-1][1] * alignment

    def _add_below(self, i: int, j: int) -> Any:
        """Return a literal that puts one item below another."""
        below = self.model.new_bool_var(f"below{i}_{j}")
        end = self.offset[i] + self._room(i)
        self.model.add(end <= self.offset[j]).only_enforce_if(below)
        return below


class Neighbor:
    """The plan that a solution describes.

    Parameters
    ----------
    model
        The model.
    order
        Order of the window.
    offsets
        Offsets of the free items.
    """

    def __init__(self, model: NeighborhoodModel, order: OrderPoint, offsets: list[int]) -> None:
        self.model, self.order, self.offsets = model, order, offsets

    @property
    def top(self) -> int:
        """Top of the highest free item."""
        items = self.model.plan.instance.items
        ends = [at + items[i].room for i, at in zip(self.model.free, self.offsets, strict=True)]
        return max(ends, default=0)

    def plan(self) -> PlanInUnits:
        """Return the whole plan."""
        old, model = self.model.plan, self.model
        order, offsets = list(old.order), old.offsets.copy()
        order[model.low : model.high] = [model.part.ops[v] for v in self.order.order]
        offsets[model.free] = self.offsets
        return PlanInUnits(old.instance, order, offsets)
