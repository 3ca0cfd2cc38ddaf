"""Rule: buffers of a pool that are live at the same step share no byte.

An output written in place needs its own bytes one step later (:mod:`optsched.check.inplace`), and
a member of a must-share group fills as many bytes as the largest member. A plan of 300,000 buffers
is checked in seconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from operator import itemgetter

from optsched.check.facts import PlanFacts
from optsched.errors import PlanError

Rectangle = tuple[int, int, int, int, str]
"""Half-open range of steps, half-open range of bytes, and the name of the buffer."""


def check(facts: PlanFacts) -> None:
    """Check the buffers of each pool."""
    pools: dict[str, list[Rectangle]] = defaultdict(list)
    buffers, own = facts.graph.buffers, facts.own
    for b, (low, high) in facts.filled.items():
        buffer, (start, end) = buffers[b], own[b]
        pools[buffer.pool].append((start, end, low, high, buffer.name))
    for rows in pools.values():
        check_overlap(rows)


def check_overlap(rows: list[Rectangle]) -> None:
    """Check that no two rectangles overlap, in a sweep over the steps.

    A rectangle that starts is compared with the live ones directly below and above it. The live
    ones do not overlap each other, so if it misses these two, it misses all of them.
    """
    # Sorted by address, so that the neighbors of a live rectangle are those in the list.
    rows = sorted((r for r in rows if r[0] < r[1] and r[2] < r[3]), key=itemgetter(2))
    starts = sorted(range(len(rows)), key=[row[0] for row in rows].__getitem__)
    ends = sorted(range(len(rows)), key=[row[1] for row in rows].__getitem__)
    # Numbers ascend with addresses. A row that has ended has started before, so it is in the list.
    live: list[int] = []
    gone = 0
    for number in starts:
        row = rows[number]
        # Ends before starts at equal steps: the bytes are free by then.
        while rows[ends[gone]][1] <= row[0]:
            del live[bisect_left(live, ends[gone])]
            gone += 1
        at = bisect_left(live, number)
        if at and rows[live[at - 1]][3] > row[2]:
            raise _overlap(row, rows[live[at - 1]])
        if at < len(live) and rows[live[at]][2] < row[3]:
            raise _overlap(row, rows[live[at]])
        live.insert(at, number)


def _overlap(one: Rectangle, other: Rectangle) -> PlanError:
    return PlanError(
        f"buffers {one[4]!r} at [{one[2]}, {one[3]}) and {other[4]!r} "
        f"at [{other[2]}, {other[3]}) overlap while both are live"
    )
