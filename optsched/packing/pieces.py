"""A packing problem brought into the form the search works on: units, sections, pieces."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optsched.arrays import IntArray
from optsched.packing.rules import Rules
from optsched.packing.sections import Sections, cut_sections
from optsched.problem import PackingProblem

MAX_UNITS = 1 << 40
"""Slabs of more units are left to first fit: scores of the search must fit 64 bits."""

MAX_COVER = 20_000_000
"""More pairs of section and buffer would take too much memory; only first fit then."""


@dataclass(frozen=True)
class Piece:
    """Buffers that can be packed apart from all others; offsets are counted in units.

    A buffer of `bytes` fills `size` units, the last perhaps in part: as all starts are whole
    units, nothing else fits there.

    Parameters
    ----------
    ids
        Shape `(n,)`: the buffers' ids in the problem, sorted by first section.
    bytes, size
        In bytes, in units rounded up.
    alignment, pin
        In units; pin -1 for none.
    sections
        What is live together.
    unit
        Bytes per unit.
    """

    ids: IntArray
    bytes: IntArray
    size: IntArray
    alignment: IntArray
    pin: IntArray
    sections: Sections
    unit: int

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

    @cached_property
    def cover(self) -> tuple[IntArray, IntArray]:
        """Buffers of each section: row starts, rows."""
        first, last = self.sections.first, self.sections.last
        length = last - first
        buffer = np.repeat(np.arange(len(self)), length)
        section = np.arange(self.covered) - np.repeat(np.cumsum(length) - length, length)
        section += np.repeat(first, length)
        if self.sections.masks.shape[1]:
            word = self.sections.masks[buffer, section // 60]
            there = (word >> (section % 60)) & 1 == 1
            buffer, section = buffer[there], section[there]
        starts = np.zeros(self.sections.count + 1, np.int64)
        np.cumsum(np.bincount(section, minlength=self.sections.count), out=starts[1:])
        return starts, buffer[np.argsort(section, kind="stable")]

    @cached_property
    def load(self) -> IntArray:
        """Units live in each section."""
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

        In a section all starts are multiples of a common step: from the start of a buffer to the
        next one above there is room for its size rounded up to the step. Only the topmost buffer
        needs no more than its bytes.
        """
        if not len(self):
            return 0
        waste = self.size * self.unit - self.bytes
        ends = np.where(self.pin >= 0, self.pin * self.unit, 0) + self.bytes
        least = int(ends.max())
        if self.covered > MAX_COVER or (self.is_plain and not waste.any()):
            return max(least, int(self.load.max()) * self.unit - int(waste.max()))
        starts, rows = self.cover
        multiple = np.where(self.pin >= 0, np.gcd(self.alignment, self.pin), self.alignment)
        common = np.gcd.reduceat(multiple[rows], starts[:-1]) * self.unit
        step = np.repeat(common, np.diff(starts))
        room = -(-self.bytes[rows] // step) * step
        most = np.maximum.reduceat(room - self.bytes[rows], starts[:-1])
        return max(least, int((np.add.reduceat(room, starts[:-1]) - most).max()))

    def slab(self, offsets: IntArray) -> int:
        """Bytes of a packing given in units."""
        return int((offsets * self.unit + self.bytes).max(initial=0))

    def latest(self, capacity: int) -> IntArray:
        """Greatest start of each buffer, in units, within a capacity in bytes; may be negative."""
        return np.where(self.pin >= 0, self.pin, (capacity - self.bytes) // self.unit)

    def height_after(self, capacity: int) -> int:
        """Least slab above a capacity that a packing of whole units can have."""
        if not len(self):
            return capacity + 1
        residue = np.unique(self.bytes % self.unit)
        return capacity + int(((residue - capacity - 1) % self.unit).min()) + 1


def live_rows(problem: PackingProblem) -> tuple[IntArray, IntArray, IntArray]:
    """Return owner, start and end of the rectangles of buffers that take up room.

    A gap with a window counts as if the buffer were there: what fits then fits always.
    """
    parts = problem.parts
    there = (parts.end > parts.start) & (problem.size[parts.owner] > 0)
    if not problem.gaps:
        return parts.owner[there], parts.start[there], parts.end[there]
    there &= parts.high > parts.low
    return parts.owner[there], parts.start[there], parts.end[there]


def has_windows(problem: PackingProblem) -> bool:
    """Whether some gap leaves a part of its buffer: the search then packs the buffer whole."""
    parts = problem.parts
    width = parts.high - parts.low
    return bool(((width > 0) & (width < problem.size[parts.owner])).any())


def unit_of(problem: PackingProblem, ids: IntArray) -> int:
    """Return the bytes that all starts of buffers pushed down are multiples of."""
    pins = problem.pin[ids]
    alignment = problem.alignment[ids]
    strict = alignment[alignment > 1]
    if len(strict) == len(ids):
        return int(np.gcd.reduce(strict))
    common = np.gcd.reduce(problem.size[ids])
    return math.gcd(int(common), int(np.gcd.reduce(pins[pins >= 0])), int(np.gcd.reduce(strict)))


def make_pieces(problem: PackingProblem, rules: Rules) -> Iterator[Piece]:
    """Yield the pieces of a problem; buffers without a row in any of them may lie at 0."""
    owner, start, end = live_rows(problem)
    ids = np.unique(owner)
    if not len(ids):
        return
    unit = unit_of(problem, ids) if rules.units else 1
    begin = np.full(len(problem), np.iinfo(np.int64).max, np.int64)
    until = np.full(len(problem), np.iinfo(np.int64).min, np.int64)
    np.minimum.at(begin, owner, start)
    np.maximum.at(until, owner, end)
    ids = ids[np.lexsort((until[ids], begin[ids]))]
    reach = np.maximum.accumulate(until[ids])
    breaks = np.flatnonzero((begin[ids][1:] >= reach[:-1]) & rules.pieces) + 1
    group = np.zeros(len(problem), np.int64)
    for number, members in enumerate(np.split(ids, breaks)):
        group[members] = number
    row_group = group[owner]
    order = np.argsort(row_group, kind="stable")
    borders = np.searchsorted(row_group[order], np.arange(1, len(breaks) + 1))
    for members, rows in zip(np.split(ids, breaks), np.split(order, borders), strict=True):
        yield _make_piece(problem, members, owner[rows], start[rows], end[rows], unit, rules)


def _make_piece(
    problem: PackingProblem,
    ids: IntArray,
    owner: IntArray,
    start: IntArray,
    end: IntArray,
    unit: int,
    rules: Rules,
) -> Piece:
    slot = np.zeros(int(ids.max()) + 1, np.int64)
    slot[ids] = np.arange(len(ids))
    sections = cut_sections(slot[owner], start, end, len(ids), maximal=rules.cliques)
    keys = [problem.pin[ids], problem.alignment[ids], problem.size[ids]]
    keys += list(sections.masks.T)
    order = np.lexsort((*keys, sections.last, sections.first))
    ids = ids[order]
    alignment, pin = problem.alignment[ids], problem.pin[ids]
    return Piece(
        ids=ids,
        bytes=problem.size[ids],
        size=-(-problem.size[ids] // unit),
        alignment=np.maximum(1, alignment // unit),
        pin=np.where(pin >= 0, pin // unit, -1),
        sections=Sections(
            sections.count, sections.first[order], sections.last[order], sections.masks[order]
        ),
        unit=unit,
    )
