"""Buffers to pack as columns of numbers, and the rectangles of steps and bytes they occupy."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from optsched.model.arrays import IntArray, Integers, Rows
from optsched.model.conflicts import NO_SETS, Conflicts, Whole
from optsched.model.elements import MAX_ADDRESS
from optsched.model.parts import Gap, Parts, fullest
from optsched.model.sharing import Rectangle

DEFAULTS = {"alignment": 1, "pin": -1, "below": MAX_ADDRESS}
"""Columns of constraints on the offset of a buffer, with the value of a buffer without one."""
COLUMNS = ("start", "end", "size", *DEFAULTS)
"""All columns of integers, shape `(k,)`."""


@dataclass(frozen=True, init=False)
class PackingBuffers:
    """Columns of a packing problem, which :class:`PackingProblem` describes and fills in.

    Checks, joined groups and selections of buffers read the columns from here.
    """

    names: tuple[str, ...]
    start: IntArray
    end: IntArray
    size: IntArray
    alignment: IntArray
    pin: IntArray
    below: IntArray
    gaps: tuple[tuple[Gap, ...], ...]
    capacity: int | None
    name: str
    memory_model: str = field(compare=False)
    uses: Rows | None = field(compare=False, repr=False)
    keep_apart: IntArray
    must_share: tuple[tuple[int, ...], ...]
    is_widened: bool = field(compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.names)

    def rectangles(self, i: int) -> list[Rectangle]:
        """Return the rectangles that a buffer occupies: half-open steps and half-open bytes."""
        at, end, size = int(self.start[i]), int(self.end[i]), int(self.size[i])
        rows: list[Rectangle] = []
        # Fully occupied up to a gap; in the gap, only its window, if any.
        for gap in self.gaps[i] if self.gaps else ():
            rows.append((at, gap.start, 0, size))
            if gap.window is not None:
                rows.append((gap.start, gap.end, *gap.window))
            at = gap.end
        rows.append((at, end, 0, size))
        return [row for row in rows if row[0] < row[1]]

    @cached_property
    def parts(self) -> Parts:
        """The rectangles of all buffers."""
        if not self.gaps:
            whole = np.arange(len(self), dtype=np.int64)
            return Parts(whole, self.start, self.end, np.zeros_like(self.size), self.size)
        rows = [(i, *row) for i in range(len(self)) for row in self.rectangles(i)]
        table = np.array(rows, np.int64).reshape(-1, 5)
        return Parts(*(np.ascontiguousarray(column) for column in table.T))

    @cached_property
    def solid(self) -> Parts:
        """The nonempty parts, followed by one extra step per set of buffers to keep apart.

        Buffers of such a set must be pairwise disjoint, because of pairs or steps. They are live
        together at the extra step, which comes after the last step.
        """
        live, sets = self._live, self.apart_sets
        if not len(sets.idx):
            return live
        owner = sets.idx
        # After the last step, so that these steps meet no live range.
        step = sets.owners() + int(self.end.max())
        more = Parts(owner, step, step + 1, np.zeros_like(owner), self.size[owner])
        return Parts(*(np.concatenate(both) for both in zip(live, more, strict=True)))

    @property
    def _live(self) -> Parts:
        """The nonempty parts."""
        parts = self.parts
        there = (parts.end > parts.start) & (parts.high > parts.low)
        return Parts(*(column[there] for column in parts))

    @cached_property
    def apart_sets(self) -> Rows:
        """Sets of buffers to keep apart; they cover all pairs that do not appear in any step."""
        takes_room = (self.size > 0) & (self.end > self.start)
        pairs = self.keep_apart[takes_room[self.keep_apart].all(axis=1)]
        if not len(pairs):
            return NO_SETS
        live = self._live
        # Only parts in which a buffer is fully occupied keep others off all of its bytes.
        whole = live.high - live.low == self.size[live.owner]
        stretches = Whole(live.owner[whole], live.start[whole], live.end[whole])
        return Conflicts(stretches, self.size, pairs).cliques(fullest(live))

    @cached_property
    def is_in_range(self) -> bool:
        """Return True if buffers stacked in any sequence end within 64-bit integers."""
        total = sum(self.size.tolist()) + sum(self.alignment.tolist())
        return bool(total + max(self.pin.tolist(), default=0) < 2**63)

    @cached_property
    def has_limits(self) -> bool:
        """Return True if some buffer has an upper limit."""
        return bool((self.below < MAX_ADDRESS).any())

    def keeps_limits(self, offsets: IntArray) -> bool:
        """Return True if live buffers at these offsets, shape `(k,)`, end within their limits."""
        live = self.end > self.start
        return not self.has_limits or bool((offsets + self.size <= self.below)[live].all())

    def use_entries(self) -> tuple[IntArray, IntArray]:
        """Return all uses of buffers: the buffer and the step of each, without duplicates.

        If `uses` is None, a buffer is assumed to be written at the first step of its live range and
        read at the last one.
        """
        if self.uses is not None:
            return self.uses.owners(), self.uses.idx
        live = np.flatnonzero(self.end > self.start)
        longer = live[self.end[live] - self.start[live] > 1]
        steps = np.concatenate([self.start[live], self.end[longer] - 1])
        return np.concatenate([live, longer]), steps

    def slab_size(self, offsets: Integers) -> int:
        """Return `max(offset + size)` over the buffers that are ever live."""
        live = self.end > self.start
        return int((np.asarray(offsets)[live] + self.size[live]).max(initial=0))
