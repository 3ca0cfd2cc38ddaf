"""The checker's view of buffers that are kept apart or share an offset, in plain integers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from optsched.check.overlap import Rectangle
from optsched.errors import PlanError

Extent = tuple[int, int, str]
"""Half-open bytes, and the name of the buffer."""


def check_pairs(pairs: Iterable[tuple[int, int]], extent: Mapping[int, Extent]) -> None:
    """Check that no pair shares a byte; who has no extent takes no room.

    Raises
    ------
    PlanError
        If a pair does.
    """
    for a, b in pairs:
        if a not in extent or b not in extent:
            continue
        one, other = extent[a], extent[b]
        if one[0] < other[1] and other[0] < one[1]:
            raise PlanError(
                f"buffers {one[2]!r} at [{one[0]}, {one[1]}) and {other[2]!r} at "
                f"[{other[0]}, {other[1]}) share bytes and are to be kept apart"
            )


def check_same_offset(group: Sequence[int], place: Sequence[int], names: Sequence[str]) -> None:
    """Check that the members of a group start at one byte.

    Raises
    ------
    PlanError
        If two do not.
    """
    for i in group[1:]:
        if place[i] != place[group[0]]:
            raise PlanError(
                f"buffers {names[group[0]]!r} at {place[group[0]]} and {names[i]!r} at {place[i]} "
                "must share an offset"
            )


def group_rectangles(rows: Sequence[tuple[Rectangle, bool]], size: int) -> list[Rectangle]:
    """Return what a group fills: all of it while a member is there as a whole.

    Parameters
    ----------
    rows
        What its members fill, and whether that is all of the member.
    size
        Bytes of its largest member.
    """
    found = []
    steps = sorted({step for row, _ in rows for step in row[:2]})
    for start, end in pairwise(steps):
        here = [(row, whole) for row, whole in rows if row[0] <= start < row[1]]
        if not here:
            continue
        name = here[0][0][4]
        low, high = min(row[2] for row, _ in here), max(row[3] for row, _ in here)
        base = [row[2] for row, whole in here if whole]
        if base:
            low, high = base[0], base[0] + size
        found.append((start, end, low, high, name))
    return found
