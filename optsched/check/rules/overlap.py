"""Rule: buffers of a pool that are live at the same step share no byte.

An output written in place needs its own bytes one step later (:mod:`optsched.check.inplace`), and
a member of a must-share group fills as many bytes as the largest member. A plan of 300,000 buffers
is checked in seconds.

A valid plan is mostly recognized by sorting arrays, in a quarter of the time. If that shows an
overlap, or takes too much memory, a sweep over the steps in Python's integers decides, and finds
the buffers to name.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from optsched.check.facts import Extent, PlanFacts
from optsched.errors import PlanError

Rectangle = tuple[int, int, int, int, str]
"""Half-open range of steps, half-open range of bytes, and the name of the buffer."""

MOST_MET = 2**21
"""Pairs of a rectangle and a lowest byte in it that are sorted: each takes some 60 bytes."""

PART = 512
"""Numbers in a part of the set of live rectangles."""


def check(facts: PlanFacts) -> None:
    """Check the buffers of each pool."""
    buffers, own, filled, pools = facts.graph.buffers, facts.own, facts.filled, facts.pools
    together: dict[str, list[int]] = defaultdict(list)
    for b in filled:
        together[pools[b]].append(b)
    for ids in together.values():
        if not is_free([own[b] for b in ids], [filled[b] for b in ids]):
            check_overlap([(*own[b], *filled[b], buffers[b].name) for b in ids])


def is_free(steps: Sequence[Extent], filled: Sequence[Extent]) -> bool:
    """Return True if it is certain that no two rectangles, of steps and bytes, overlap.

    Of two rectangles that share bytes, one contains the lowest byte of the other. So it is enough
    to take each lowest byte, and the rectangles that contain it by their first steps: each must end
    before the next one starts.
    """
    try:
        (start, end), (low, high) = _columns(steps), _columns(filled)
    except OverflowError:
        return False
    # Rectangles are numbered by their first steps; empty ones are left out.
    number = np.argsort(start, kind="stable")
    number = number[(start < end)[number] & (low < high)[number]]
    start, end, low, high = start[number], end[number], low[number], high[number]
    lowest = np.unique(low)
    first = np.searchsorted(lowest, low)
    count = np.searchsorted(lowest, high) - first
    if count.sum() > MOST_MET:
        return False
    # One entry per rectangle and lowest byte in it, sorted by both.
    row = np.repeat(np.arange(len(number)), count)
    byte = np.arange(len(row)) - np.repeat(np.cumsum(count) - count - first, count)
    byte, row = np.divmod(np.sort(byte * len(number) + row), max(1, len(number)))
    return not ((byte[1:] == byte[:-1]) & (end[row[:-1]] > start[row[1:]])).any()


def _columns(pairs: Sequence[Extent]) -> npt.NDArray[np.int64]:
    """Return pairs as two rows, shape `(2, pairs)`."""
    return np.fromiter(chain.from_iterable(pairs), np.int64, 2 * len(pairs)).reshape(-1, 2).T


def check_overlap(rows: list[Rectangle]) -> None:
    """Check that no two rectangles overlap, in a sweep over the steps.

    A rectangle that starts is compared with the live ones directly below and above it. The live
    ones do not overlap each other, so if it misses these two, it misses all of them.
    """
    # Sorted by address, so that the neighbors of a live rectangle are those in the list.
    rows = sorted((r for r in rows if r[0] < r[1] and r[2] < r[3]), key=itemgetter(2))
    starts = sorted(range(len(rows)), key=[row[0] for row in rows].__getitem__)
    ends = sorted(range(len(rows)), key=[row[1] for row in rows].__getitem__)
    # Numbers ascend with addresses. A row that has ended has started before, so it is in the set.
    live = _Numbers(len(rows))
    gone = 0
    for number in starts:
        row = rows[number]
        # Ends before starts at equal steps: the bytes are free by then.
        while rows[ends[gone]][1] <= row[0]:
            live.remove(ends[gone])
            gone += 1
        below, above = live.add(number)
        if below >= 0 and rows[below][3] > row[2]:
            raise _overlap(row, rows[below])
        if above >= 0 and rows[above][2] < row[3]:
            raise _overlap(row, rows[above])


class _Numbers:
    """A set of numbers below a count that finds neighbors, in short sorted lists.

    One list of all would be copied with each number, which takes long where 100,000 buffers are
    live at once.
    """

    def __init__(self, count: int) -> None:
        self.parts: list[list[int]] = [[] for _ in range(count // PART + 1)]
        # Those that are not empty, sorted.
        self.used: list[int] = []

    def add(self, number: int) -> tuple[int, int]:
        """Add a number; return the next smaller and the next larger one, -1 for none."""
        home = number // PART
        own = self.parts[home]
        if not own:
            insort(self.used, home)
        at = bisect_left(own, number)
        own.insert(at, number)
        below = own[at - 1] if at else -1
        above = own[at + 1] if at + 1 < len(own) else -1
        if below < 0 or above < 0:
            place = bisect_left(self.used, home)
            if below < 0 and place:
                below = self.parts[self.used[place - 1]][-1]
            if above < 0 and place + 1 < len(self.used):
                above = self.parts[self.used[place + 1]][0]
        return below, above

    def remove(self, number: int) -> None:
        """Remove a number that is in the set."""
        home = number // PART
        own = self.parts[home]
        del own[bisect_left(own, number)]
        if not own:
            del self.used[bisect_left(self.used, home)]


def _overlap(one: Rectangle, other: Rectangle) -> PlanError:
    return PlanError(
        f"buffers {one[4]!r} at [{one[2]}, {one[3]}) and {other[4]!r} "
        f"at [{other[2]}, {other[3]}) overlap while both are live"
    )
