"""The form of a packing problem that the search works on: units, sections, components.

Three reductions make the problem smaller; each keeps at least one packing of minimum slab. Time is
cut into the maximal cliques of the live ranges (:mod:`optsched.packing.cliques`). Offsets are
counted in the greatest common divisor of all possible offsets. Groups of buffers that are never
live together become components, which are packed one by one.

Example: buffers of 8 and 12 bytes live in steps 0 and 1, and one of 16 bytes lives in step 2. The
unit is 4 bytes, the first two buffers form a component with sizes 2 and 3, and the third buffer
forms another one with size 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from optsched.model.arrays import IntArray, distinct
from optsched.model.packing_buffers import DEFAULTS
from optsched.model.packing_problem import PackingProblem, Parts
from optsched.packing.cliques import Sections, cut_sections, in_time_order
from optsched.packing.kernels.section_load import section_load
from optsched.packing.kernels.state import WORD_BITS
from optsched.packing.occupancy import Occupancy, make_occupancy
from optsched.packing.rules import Rules

MAX_UNITS = 1 << 40
"""Maximum slab in units that is searched; larger problems are left to first fit, because the scores
of the search must fit in 64 bits.
"""

MAX_COVER = 20_000_000
"""Maximum number of pairs of section and buffer; larger problems are left to first fit, because the
arrays of the search would take too much memory.
"""


@dataclass(frozen=True)
class Component:
    """A group of buffers that is packed independently of all others; offsets are in units.

    A buffer of `bytes` bytes occupies `size` units, the last one perhaps only partly. All buffers
    start at whole units, so the rest of that unit cannot be used.
    """

    problem: PackingProblem
    """The packing problem that the buffers belong to."""
    ids: IntArray
    """Shape `(n,)`: the buffers' ids in the problem, sorted by first section."""
    bytes: IntArray
    size: IntArray
    """Shape `(n,)`: sizes in bytes, and in units rounded up."""
    alignment: IntArray
    pin: IntArray
    """Shape `(n,)`: alignment and pinned offset in units; -1 for a buffer without pin."""
    sections: Sections
    """The maximal sets of buffers that are live together."""
    unit: int
    """Bytes per unit."""
    occupancy: Occupancy | None = None
    """The bytes of each buffer that are occupied per section; None if each buffer is always either
    fully occupied or not live.
    """

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def covered(self) -> int:
        """Number of pairs of a buffer and a section in its range."""
        return int((self.sections.last - self.sections.first).sum())

    @property
    def is_plain(self) -> bool:
        """Return True if no buffer has an alignment or a pin."""
        return bool((self.alignment == 1).all() and (self.pin < 0).all())

    @cached_property
    def is_searchable(self) -> bool:
        """Return True if the component is small enough for the search; first fit takes any."""
        units = int(self.size.sum()) + int(self.pin.max(initial=0)) + int(self.alignment.sum())
        return units < MAX_UNITS and self.covered <= MAX_COVER

    @property
    def unlimited(self) -> int:
        """Bytes that are enough for a packing pushed down, if there is a packing at all.

        They are all sizes, plus padding for alignments, pins and units.
        """
        units = sum(self.alignment.tolist()) + int(self.pin.max(initial=0)) + len(self) + 1
        return int(sum(self.bytes.tolist()) + self.unit * units)

    @property
    def cover(self) -> tuple[IntArray, IntArray]:
        """The buffers of each section as row starts and concatenated rows."""
        starts, rows, _ = self._cover
        return starts, rows

    @cached_property
    def occupied(self) -> IntArray:
        """First and last occupied unit of each buffer in each section of its range.

        The last unit is exclusive; the shape is `(2, covered)`.
        """
        if self.occupancy is None:
            raise RuntimeError("component has no partially occupied buffers")
        first, last = self.sections.first, self.sections.last
        bounds = self.occupancy.in_units(self.unit)[2:]
        return np.array([self.occupancy.spread(x, first, last - first) for x in bounds])

    def tops(self, ends: IntArray) -> IntArray:
        """Return, per section, the highest end of an occupied part if the buffers end at `ends`."""
        starts, rows, pairs = self._cover
        top = ends[rows]
        if self.occupancy is not None:
            top += self.occupied[1, pairs] - self.size[rows]
        return np.maximum.reduceat(top, starts[:-1])

    @cached_property
    def _cover(self) -> tuple[IntArray, IntArray, IntArray]:
        """The buffers of each section: row starts, rows, and columns of the pairs in `occupied`."""
        first, last = self.sections.first, self.sections.last
        length = last - first
        buffer = np.repeat(np.arange(len(self)), length)
        pair = np.arange(self.covered)
        section = pair - np.repeat(np.cumsum(length) - length, length)
        section += np.repeat(first, length)
        if self.sections.masks.shape[1]:
            # A buffer with gaps does not cover all sections of its range.
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
        masks = self.sections.masks
        return section_load.for_work(masks.size)(masks, self.size, self.sections.count)

    @cached_property
    def bound(self) -> int:
        """Lower bound on the slab in bytes, from single sections and single buffers.

        In a section all offsets are multiples of a common step. The distance from one offset to the
        next higher one is therefore at least the size of the lower buffer rounded up to the step.
        Only the topmost buffer needs no more than its exact size. With partial occupancy, the
        lowest part starts at its `low` or above, and above the highest part lies the rest of its
        buffer.
        """
        if not len(self):
            return 0
        # Units that a buffer occupies without using them; only a topmost buffer could save them.
        waste = self.size * self.unit - self.bytes
        lowest = int((np.maximum(self.pin, 0) * self.unit + self.bytes).max())
        # Without alignments, pins and waste, sizes just add up.
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
        # A pinned buffer fixes the residue of its offset too, so the step divides both.
        pinned = np.where(self.pin >= 0, np.gcd(self.alignment, self.pin), self.alignment)
        common = np.gcd.reduceat(np.gcd(pinned[rows] * self.unit, low), begin)
        step = np.repeat(common, np.diff(starts))
        room = -(-(high - low) // step) * step
        # All buffers but the topmost take their room rounded up to the step.
        total = np.add.reduceat(room, begin) - np.maximum.reduceat(room - (high - low), begin)
        total += np.minimum.reduceat(low, begin)
        total += np.minimum.reduceat(self.bytes[rows] - high, begin)
        return max(lowest, int(total.max()))

    def slab(self, offsets: IntArray) -> int:
        """Return the slab in bytes of a packing given in units."""
        return int((offsets * self.unit + self.bytes).max(initial=0))

    def slab_after(self, capacity: int) -> int:
        """Return the smallest slab above `capacity` that a packing in whole units can have."""
        # Tops are whole units plus the last part of some buffer: only these residues are possible.
        if not len(self):
            return capacity + 1
        residue = np.unique(self.bytes % self.unit)
        return capacity + int(((residue - capacity - 1) % self.unit).min()) + 1


def unit_of(problem: PackingProblem, parts: Parts) -> int:
    """Return the unit: a number of bytes that divides every offset of a packing pushed down.

    If every buffer has an alignment, sizes and upper ends of parts are ignored: they are rounded up
    to the unit. That loses no packing, because all parts begin at whole units.
    """
    ids = np.unique(parts.owner)
    alignment = problem.alignment[ids]
    strict = alignment[alignment > 1]
    lows = int(np.gcd.reduce(parts.low))
    # Sizes do not matter if every buffer starts at a multiple of the strict alignments anyway.
    if len(strict) == len(ids):
        return math.gcd(int(np.gcd.reduce(strict)), lows)
    pins = problem.pin[ids]
    common = math.gcd(int(np.gcd.reduce(problem.size[ids])), int(np.gcd.reduce(parts.high)))
    common = math.gcd(common, lows, int(np.gcd.reduce(pins[pins >= 0])))
    return math.gcd(common, int(np.gcd.reduce(strict)))


def make_components(problem: PackingProblem, rules: Rules) -> Iterator[Component]:
    """Yield the components of a problem.

    A buffer that belongs to no component is never live, so any offset is valid for it, such as 0.
    """
    if problem.must_share:
        raise RuntimeError(
            f"{problem.name}: buffers that share an offset must be joined before packing"
        )
    live = problem.solid
    owner, start, end = live.owner, live.start, live.end
    ids = np.unique(owner)
    if not len(ids):
        return
    unit = unit_of(problem, live) if rules.units else 1
    # The extra steps of sets to keep apart come after all live ranges.
    in_time = start < problem.end.max()
    begin = np.full(len(problem), np.iinfo(np.int64).max, np.int64)
    until = np.full(len(problem), np.iinfo(np.int64).min, np.int64)
    np.minimum.at(begin, owner[in_time], start[in_time])
    np.maximum.at(until, owner[in_time], end[in_time])
    # By start, so that one sweep finds the breaks between components.
    ids = ids[np.lexsort((until[ids], begin[ids]))]
    # A component ends where no earlier live range reaches the next start.
    reach = np.maximum.accumulate(until[ids])
    breaks = np.flatnonzero((begin[ids][1:] >= reach[:-1]) & rules.components) + 1
    group = np.zeros(len(problem), np.int64)
    group[ids[breaks]] = 1
    group[ids] = np.cumsum(group[ids])
    # Sets to keep apart connect components that no step connects.
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
    """Renumber the groups of buffers, merging those connected by a set of buffers to keep apart.

    `owner` lists the buffers of these sets and `step` the number of each one's set, in ascending
    order.
    """
    if not len(owner):
        return group
    root = list(range(int(group.max()) + 1))

    def find(number: int) -> int:
        while root[number] != number:
            root[number] = number = root[root[number]]
        return number

    # Neighbors in a set are connected. Most are of one group: few pairs of groups are left.
    one, other = group[owner[:-1]], group[owner[1:]]
    linked = (step[:-1] == step[1:]) & (one != other)
    for link in distinct(one[linked] * len(root) + other[linked]).tolist():
        low, high = sorted(map(find, divmod(link, len(root))))
        root[high] = low
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
    # Equal buffers become neighbors, as rule `identical` compares neighbors only.
    keys = [getattr(problem, what)[ids] for what in (*reversed(DEFAULTS), "size")]
    keys += list(sections.masks.T)
    if is_partial:
        occupancy = make_occupancy(owner, sections, parts)
        keys.append(occupancy.kinds(len(ids)))
    order = np.lexsort((*keys, sections.last, sections.first))
    if occupancy is not None:
        # The rows of the occupancy are renumbered with the buffers.
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
