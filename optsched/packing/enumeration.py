"""Enumeration of all packings of a few buffers in Python integers, for sizes beyond the search.

The search counts in 64-bit units and leaves slabs of more than 2**40 units to first fit. Problems
of a few buffers with huge and unequal sizes, pins or alignments are decided here instead.

Consider a packing of minimum slab whose sum of offsets is minimal. No buffer in it can be lowered.
Each buffer therefore starts at 0, at its pin, or at the first aligned byte from the top of another
buffer that is live with it and starts below it. Placing buffers by ascending offset at such bytes,
in all ways, reaches one of these packings.

In the example, the first buffer can start only at 0 or on top of the second, that is at 2**61, and
the second at 0 or at 2**60, on top of the first:

>>> import numpy as np
>>> from optsched.model.packing_problem import PackingProblem
>>> two = PackingProblem(size=[2**60, 3], start=[0, 0], end=[1, 1], alignment=[2**61, 1])
>>> enumerate_packings(two, max_nodes=100).offsets
[0, 1152921504606846976]
"""

from __future__ import annotations

from dataclasses import dataclass

from optsched.model.elements import MAX_ADDRESS
from optsched.model.packing_problem import PackingProblem

HUGE = 1 << 40
"""Total number of bytes below which the search can always represent the problem."""


@dataclass(frozen=True, slots=True)
class Enumerated:
    """Result of an enumeration."""

    offsets: list[int] | None
    """A packing of minimum slab, or the first one found within the given capacity; None if none was
    found. Packings of more than `MAX_ADDRESS` bytes are not considered.
    """
    is_complete: bool
    """True if no packing was left out: `offsets` are then proved minimum, and `offsets=None` proves
    that no packing exists.
    """


def is_for_enumeration(problem: PackingProblem, few: int) -> bool:
    """Return True if there are at most `few` buffers, and sizes that may exceed the search."""
    if len(problem) > few:
        return False
    total: int = sum(problem.size.tolist()) + sum(problem.alignment.tolist())
    total += max(problem.pin.tolist(), default=0)
    return total >= HUGE


def enumerate_packings(
    problem: PackingProblem, capacity: int | None = None, *, max_nodes: int
) -> Enumerated:
    """Find a packing of minimum slab or within a capacity, or prove that there is none.

    The number of packings grows with the factorial of the number of buffers. The enumeration stops
    after placing `max_nodes` buffers. It handles partial occupancy only if each part that remains
    is the beginning of its buffer.
    """
    search = _Enumeration(problem, capacity, max_nodes)
    # A part that begins above its buffer's start could rest below offset 0 of the buffer, which
    # the candidates leave out.
    if any(low for low in problem.solid.low.tolist()):
        return Enumerated(None, False)
    search.place(0)
    return Enumerated(search.best, search.nodes <= max_nodes)


class _Enumeration:
    """Depth-first enumeration of packings, by ascending offset.

    `limit` is the largest slab that the next packing may have. The enumeration ends when `limit`
    falls below `floor`, the smallest slab of interest.
    """

    def __init__(self, problem: PackingProblem, capacity: int | None, max_nodes: int) -> None:
        self.size, self.pin = problem.size.tolist(), problem.pin.tolist()
        self.alignment = problem.alignment.tolist()
        parts = problem.solid
        self.parts: list[list[tuple[int, int, int]]] = [[] for _ in self.size]
        columns = (parts.owner, parts.start, parts.end, parts.high)
        for i, start, end, high in zip(*(x.tolist() for x in columns), strict=True):
            self.parts[i].append((start, end, high))
        self.ids = [i for i, rows in enumerate(self.parts) if rows]
        # No packing that is pushed down needs more room than this.
        room = sum(self.size) + sum(self.alignment) + max([0, *self.pin])
        self.limit = min(MAX_ADDRESS, room if capacity is None else capacity)
        self.floor = problem.max_load if capacity is None else self.limit
        self.offsets = [max(0, pin) for pin in self.pin]
        self.placed: list[int] = []
        self.best: list[int] | None = None
        self.nodes, self.max_nodes = 0, max_nodes

    def place(self, lowest: int) -> None:
        """Place one more buffer at `lowest` or above, in all ways."""
        if len(self.placed) == len(self.ids):
            self.best = list(self.offsets)
            # Only smaller slabs are of interest from here on.
            self.limit = max([0, *(self.offsets[i] + self.size[i] for i in self.ids)]) - 1
            return
        for i in self.ids:
            if i in self.placed:
                continue
            for offset in self._candidates(i):
                self.nodes += 1
                # The limit has fallen below every possible slab, or the work is used up.
                if self.limit < self.floor or self.nodes > self.max_nodes:
                    return
                # Ascending offsets: each packing is reached in one sequence only.
                if offset < lowest or offset + self.size[i] > self.limit:
                    continue
                if not self._meets(i, offset):
                    self.offsets[i] = offset
                    self.placed.append(i)
                    self.place(offset)
                    self.placed.pop()

    def _candidates(self, i: int) -> list[int]:
        """Return the possible offsets of a buffer: its pin, or 0 and the tops of placed buffers."""
        if self.pin[i] >= 0:
            return [self.pin[i]]
        tops = {0}
        for j in self.placed:
            tops |= {self.offsets[j] + high for *_, high in self._together(i, j)}
        return sorted({-(-top // self.alignment[i]) * self.alignment[i] for top in tops})

    def _meets(self, i: int, offset: int) -> bool:
        """Return True if a buffer at an offset would share a byte with a placed buffer."""
        return any(
            offset < self.offsets[j] + theirs and self.offsets[j] < offset + mine
            for j in self.placed
            for mine, theirs in self._together(i, j)
        )

    def _together(self, i: int, j: int) -> list[tuple[int, int]]:
        """Return the heights of all pairs of parts of two buffers that are live together."""
        return [
            (mine, theirs)
            for start, end, mine in self.parts[i]
            for begin, until, theirs in self.parts[j]
            if start < until and begin < end
        ]
