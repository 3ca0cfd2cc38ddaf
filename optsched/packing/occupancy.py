"""Partial occupancy: the bytes of each buffer that are occupied in each section.

An output that is written in place into a larger buffer keeps only a part of that buffer occupied. A
packing problem can state this for any stretch of a live range (:class:`model.packing_problem.Gap`).

Example: a buffer of 8 bytes covers sections 0 to 2, and only its upper half is occupied after
section 0. Its rows are (first 0, last 1, low 0, high 8) and (first 1, last 3, low 4, high 8); it
adds 8, 4 and 4 bytes to the loads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.packing_problem import Parts
from optsched.packing.cliques import Sections


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Rows stating that bytes `[low, high)` of a buffer are occupied in sections `[first, last)`.

    All arrays have shape `(r,)` and are sorted by owner, then by section. In a section without a
    row, no byte of the buffer is occupied.
    """

    owner: IntArray
    """Index of the buffer in its component."""
    first: IntArray
    last: IntArray
    """Half-open range of sections."""
    low: IntArray
    high: IntArray
    """Half-open range of bytes; every `low` is a multiple of the component's unit."""

    def in_units(self, unit: int) -> IntArray:
        """Return `first`, `last`, `low` and `high`, shape `(4, r)`; bytes as units rounded up."""
        # Lower bounds are multiples of the unit already; upper bounds cover the rest of their
        # unit.
        return np.array([self.first, self.last, self.low // unit, -(-self.high // unit)])

    def ranges(self, buffers: int) -> IntArray:
        """Return the half-open range of rows of each buffer, shape `(n, 2)`."""
        borders = np.searchsorted(self.owner, np.arange(buffers + 1))
        return np.column_stack([borders[:-1], borders[1:]])

    def spread(self, values: IntArray, first: IntArray, length: IntArray) -> IntArray:
        """Return a value for each pair of a buffer and a section of its range.

        `values` has one value per row, shape `(r,)`. `first` and `length`, shape `(n,)`, give each
        buffer's range of sections. Pairs in which the buffer is not occupied get 0.
        """
        result = np.zeros(int(length.sum()), np.int64)
        width = self.last - self.first
        # Position of each row's first section in the concatenated ranges of all buffers.
        begin = (np.cumsum(length) - length - first)[self.owner] + self.first
        within = np.arange(int(width.sum())) - np.repeat(np.cumsum(width) - width, width)
        result[np.repeat(begin, width) + within] = np.repeat(values, width)
        return result

    def load(self, sections: int) -> IntArray:
        """Return the number of bytes occupied in each section."""
        change = np.zeros(sections + 1, np.int64)
        np.add.at(change, self.first, self.high - self.low)
        np.subtract.at(change, self.last, self.high - self.low)
        return np.cumsum(change)[:-1]

    def kinds(self, buffers: int) -> IntArray:
        """Return a number for each buffer; buffers with equal rows have equal numbers."""
        rows = list(
            zip(*(x.tolist() for x in (self.first, self.last, self.low, self.high)), strict=True)
        )
        seen: dict[tuple[tuple[int, ...], ...], int] = {}
        found = [
            seen.setdefault(tuple(rows[a:b]), len(seen)) for a, b in self.ranges(buffers).tolist()
        ]
        return np.array(found, np.int64)


def make_occupancy(owner: IntArray, sections: Sections, parts: Parts) -> Occupancy:
    """Return the occupancy for the parts that sections were cut from.

    `owner` holds the index in the component of each part's buffer.
    """
    order = np.lexsort((sections.part_first, owner))
    return Occupancy(
        owner[order],
        sections.part_first[order],
        sections.part_last[order],
        parts.low[order],
        parts.high[order],
    )
