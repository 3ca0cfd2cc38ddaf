"""The checker's search for two rectangles that share a byte at a step, in plain integers.

Own code like the rest of the checker, and quick: a plan of 300,000 buffers is checked in seconds.
"""

from __future__ import annotations

from bisect import bisect_left

from optsched.errors import PlanError

Rectangle = tuple[int, int, int, int, str]
"""Half-open steps, half-open bytes, and the name of the buffer."""


def check_overlap(rows: list[Rectangle]) -> None:
    """Sweep over the steps: a rectangle that starts must miss its neighbours by address.

    The live ones before it do not overlap each other, so it overlaps none of them if it does not
    overlap the next below and the next above.

    Raises
    ------
    PlanError
        If two rectangles overlap.
    """
    filled = (row for row in rows if row[0] < row[1] and row[2] < row[3])
    rows = sorted(filled, key=lambda row: row[2])
    if not rows:
        return
    # At equal steps ends come first. After the last start nothing can overlap any more.
    starts = [(2 * row[0] + 1, number) for number, row in enumerate(rows)]
    last = max(starts)[0]
    ends = [(2 * row[1], number) for number, row in enumerate(rows) if 2 * row[1] < last]
    live: list[int] = []
    for clock, number in sorted(starts + ends):
        at = bisect_left(live, number)
        if clock % 2 == 0:
            del live[at]
            continue
        for other in live[max(0, at - 1) : at + 1]:
            _check_apart(rows[number], rows[other])
        live.insert(at, number)


def _check_apart(one: Rectangle, other: Rectangle) -> None:
    if one[2] < other[3] and other[2] < one[3]:
        raise PlanError(
            f"buffers {one[4]!r} at [{one[2]}, {one[3]}) and {other[4]!r} "
            f"at [{other[2]}, {other[3]}) overlap while both are live"
        )
