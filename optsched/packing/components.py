"""A packing problem brought into the form the search works on: units, sections, components.

Three reductions, none of which loses a packing of minimum slab: time is cut into the maximal
cliques of the live ranges (:mod:`optsched.packing.cliques`); offsets are counted in the greatest
common divisor of what they can be; buffers in groups that are never live together are components,
which are packed one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem, Parts
from optsched.packing.cliques import Sections, cut_sections, in_time_order
from optsched.packing.kernels.state import WORD_BITS
from optsched.packing.occupancy import Occupancy, make_occupancy
from optsched.packing.rules import Rules

MAX_UNITS = 1 << 40
"""Slabs of more units are left to first fit: scores of the search must fit 64 bits."""

MAX_COVER = 20_000_000
"""More pairs of section and buffer would take too much memory; only first fit then."""


@dataclass(frozen=True)
class Component:
    """Buffers that can be packed apart from all others; offsets are counted in units.

    A buffer of `bytes` fills `size` units, the last perhaps in part: as all starts are whole
    units, nothing else fits there.
    """

    problem: PackingProblem
    """Whose buffers they are."""
    ids: IntArray
    """Shape `(n,)`: the buffers' ids in the problem, sorted by first section."""
    bytes: IntArray
    size: IntArray
    """In bytes, in units rounded up."""
    alignment: IntArray
    pin: IntArray
    """In units; pin -1 for none."""
    sections: Sections
    """What is live together."""
    unit: int
    """Bytes per unit."""
    occupancy: Occupancy | None = None
    """Which bytes are there in which section; None if each buffer is there as a whole or not."""

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def covered(self) -> int:
        """Pairs of section and buffer."""
        return int((self.sections.last - self.sections.first).sum())

    @property
    def is_plain(self) -> bool:
        """Whether there is neither alignment nor pin."""
        return bool((self.alignment == 1).all() and (self.pin < 0).all())

    @cached_property
    def is_searchable(self) -> bool:
        """Whether the search can take it on; if not, first fit still can."""
        units = int(self.size.sum()) + int(self.pin.max(initial=0)) + int(self.alignment.sum())
        return units < MAX_UNITS and self.covered <= MAX_COVER

    @property
    def cover(self) -> tuple[IntArray, IntArray]:
        """Buffers of each section: row starts, rows."""
        starts, rows, _ = self._cover
        return starts, rows

    @cached_property
    def occupied(self) -> IntArray:
        """Low and high unit of each buffer in each section of its hull; shape `(2, covered)`."""
        if self.occupancy is None:
            raise RuntimeError("all buffers are there as a whole")
        first, last = self.sections.first, self.sections.last
        bounds = self.occupancy.in_units(self.unit)[2:]
        return np.array([self.occupancy.spread(x, first, last - first) for x in bounds])

    def tops(self, ends: IntArray) -> IntArray:
        """Return, per section, the highest end of what is there if the buffers end at `ends`."""
        starts, rows, pairs = self._cover
        top = ends[rows]
        if self.occupancy is not None:
            top += self.occupied[1, pairs] - self.size[rows]
        return np.maximum.reduceat(top, starts[:-1])

    @cached_property
    def _cover(self) -> tuple[IntArray, IntArray, IntArray]:
        """Buffers of each section: row starts, rows, and each pair's column of `occupied`."""
        first, last = self.sections.first, self.sections.last
        length = last - first
        buffer = np.repeat(np.arange(len(self)), length)
        pair = np.arange(self.covered)
        section = pair - np.repeat(np.cumsum(length) - length, length)
        section += np.repeat(first, length)
        if self.sections.masks.shape[1]:
            word = self.sections.masks[buffer, section // WORD_BITS]
            there = (word >> (section % WORD_BITS)) & 1 == 1
            buffer, section, pair = buffer[there], section[there], pair[there]
        starts = np.zeros(self.sections.count + 1, np.int64)
        np.cumsum(np.bincount(section, minlength=self.sections.count), out=starts[1:])
        order = np.argsort(section, kind="stable")
        return starts, buffer[order], pair[order]

    @cached_property
    def load(self) -> IntArray:
        """Units live in each section."""
        if self.occupancy is not None:
            return -(-self.occupancy.load(self.sections.count) // self.unit)
        if not self.sections.masks.shape[1]:
            change = np.zeros(self.sections.count + 1, np.int64)
            np.add.at(change, self.sections.first, self.size)
            np.subtract.at(change, self.sections.last, self.size)
            return np.cumsum(change)[:-1]
        starts, rows = self.cover
        return np.add.reduceat(self.size[rows], starts[:-1])

    @cached_property
    def bound(self) -> int:
        """Bytes that no packing goes below, by one section or one buffer.

        In a section all starts are multiples of a common step: from one start to the next one above
        there is room for the size rounded up to the step. Only the topmost buffer needs no more
        than its bytes. Where buffers are there in part, the lowest one starts at its `low` or
        above, and above the highest one there is the rest of its buffer.
        """
        if not len(self):
            return 0
        waste = self.size * self.unit - self.bytes
        lowest = int((np.maximum(self.pin, 0) * self.unit + self.bytes).max())
        is_even = self.is_plain and not waste.any()
        if self.occupancy is None and (is_even or self.covered > MAX_COVER):
            return max(lowest, int(self.load.max()) * self.unit - int(waste.max()))
        if self.occupancy is not None and self.covered > MAX_COVER:
            return max(lowest, int(self.occupancy.load(self.sections.count).max()))
        starts, rows, pairs = self._cover
        begin = starts[:-1]
        low, high = np.zeros_like(rows), self.bytes[rows]
        if self.occupancy is not None:
            first, length = self.sections.first, self.sections.last - self.sections.first
            low = self.occupancy.spread(self.occupancy.low, first, length)[pairs]
            high = self.occupancy.spread(self.occupancy.high, first, length)[pairs]
        pinned = np.where(self.pin >= 0, np.gcd(self.alignment, self.pin), self.alignment)
        common = np.gcd.reduceat(np.gcd(pinned[rows] * self.unit, low), begin)
        step = np.repeat(common, np.diff(starts))
        room = -(-(high - low) // step) * step
        total = np.add.reduceat(room, begin) - np.maximum.reduceat(room - (high - low), begin)
        total += np.minimum.reduceat(low, begin)
        total += np.minimum.reduceat(self.bytes[rows] - high, begin)
        return max(lowest, int(total.max()))

    def slab(self, offsets: IntArray) -> int:
        """Bytes of a packing given in units."""
        return int((offsets * self.unit + self.bytes).max(initial=0))

    def slab_after(self, capacity: int) -> int:
        """Return the minimum slab above a capacity that a packing of whole units can have."""
        if not len(self):
            return capacity + 1
        residue = np.unique(self.bytes % self.unit)
        return capacity + int(((residue - capacity - 1) % self.unit).min()) + 1


def unit_of(problem: PackingProblem, parts: Parts) -> int:
    """Return the bytes that all starts of buffers pushed down are multiples of.

    Sizes and occupancy need not be where all alignments are: their ends are rounded up. That loses
    nothing as long as occupancy begin at whole units.
    """
    ids = np.unique(parts.owner)
    alignment = problem.alignment[ids]
    strict = alignment[alignment > 1]
    lows = int(np.gcd.reduce(parts.low))
    if len(strict) == len(ids):
        return math.gcd(int(np.gcd.reduce(strict)), lows)
    pins = problem.pin[ids]
    common = math.gcd(int(np.gcd.reduce(problem.size[ids])), int(np.gcd.reduce(parts.high)))
    common = math.gcd(common, lows, int(np.gcd.reduce(pins[pins >= 0])))
    return math.gcd(common, int(np.gcd.reduce(strict)))


def make_components(problem: PackingProblem, rules: Rules) -> Iterator[Component]:
    """Yield the components of a problem; buffers without a row in any of them may lie at 0."""
    if problem.must_share:
        raise RuntimeError(f"{problem.name}: groups are to be joined before they are packed")
    live = problem.solid
    owner, start, end = live.owner, live.start, live.end
    ids = np.unique(owner)
    if not len(ids):
        return
    unit = unit_of(problem, live) if rules.units else 1
    in_time = start < problem.end.max()
    begin = np.full(len(problem), np.iinfo(np.int64).max, np.int64)
    until = np.full(len(problem), np.iinfo(np.int64).min, np.int64)
    np.minimum.at(begin, owner[in_time], start[in_time])
    np.maximum.at(until, owner[in_time], end[in_time])
    ids = ids[np.lexsort((until[ids], begin[ids]))]
    reach = np.maximum.accumulate(until[ids])
    breaks = np.flatnonzero((begin[ids][1:] >= reach[:-1]) & rules.components) + 1
    group = np.zeros(len(problem), np.int64)
    group[ids[breaks]] = 1
    group[ids] = np.cumsum(group[ids])
    group = _joined_groups(group, owner[~in_time], start[~in_time])
    ids = ids[np.argsort(group[ids], kind="stable")]
    row_group = group[owner]
    order = np.argsort(row_group, kind="stable")
    numbers = np.arange(1, int(group[ids].max()) + 1)
    each = np.split(ids, np.searchsorted(group[ids], numbers))
    borders = np.searchsorted(row_group[order], numbers)
    for members, rows in zip(each, np.split(order, borders), strict=True):
        mine = Parts(owner[rows], start[rows], end[rows], live.low[rows], live.high[rows])
        yield _make_component(problem, members, mine, unit, rules)


def _joined_groups(group: IntArray, owner: IntArray, step: IntArray) -> IntArray:
    """Number the groups of buffers anew where sets kept apart join some of them.

    The buffers `owner` are of a set each, the same for equal steps, which ascend.
    """
    if not len(owner):
        return group
    root = list(range(int(group.max()) + 1))

    def find(number: int) -> int:
        while root[number] != number:
            root[number] = number = root[root[number]]
        return number

    for members in np.split(group[owner], np.flatnonzero(np.diff(step)) + 1):
        first = find(int(members[0]))
        for number in np.unique(members).tolist():
            root[find(number)] = first
    kept, joined = np.unique([find(number) for number in root], return_inverse=True)
    return joined.astype(np.int64)[group] if len(kept) < len(root) else group


def _make_component(
    problem: PackingProblem, ids: IntArray, parts: Parts, unit: int, rules: Rules
) -> Component:
    slot = np.zeros(int(ids.max()) + 1, np.int64)
    slot[ids] = np.arange(len(ids))
    owner = slot[parts.owner]
    sections = cut_sections(owner, parts.start, parts.end, len(ids), maximal=rules.cliques)
    is_partial = (parts.high - parts.low < problem.size[parts.owner]).any()
    if len(problem.keep_apart) and rules.cliques and not is_partial:
        sections = in_time_order(sections, problem.start[ids] + problem.end[ids])
    occupancy = None
    keys = [problem.pin[ids], problem.alignment[ids], problem.size[ids]]
    keys += list(sections.masks.T)
    if is_partial:
        occupancy = make_occupancy(owner, sections, parts)
        keys.append(occupancy.kinds(len(ids)))
    order = np.lexsort((*keys, sections.last, sections.first))
    if occupancy is not None:
        occupancy = make_occupancy(np.argsort(order)[owner], sections, parts)
    ids = ids[order]
    alignment, pin = problem.alignment[ids], problem.pin[ids]
    return Component(
        problem=problem,
        ids=ids,
        bytes=problem.size[ids],
        size=-(-problem.size[ids] // unit),
        alignment=np.maximum(1, alignment // unit),
        pin=np.where(pin >= 0, pin // unit, -1),
        sections=replace(
            sections,
            first=sections.first[order],
            last=sections.last[order],
            masks=sections.masks[order],
        ),
        unit=unit,
        occupancy=occupancy,
    )
