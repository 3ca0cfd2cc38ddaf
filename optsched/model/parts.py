"""Occupied bytes of buffers over time: gaps in live ranges, and the rectangles they leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.sharing import Rectangle


@dataclass(frozen=True, slots=True)
class Gap:
    """An interval `[start, end)` of a live range in which only a part of the buffer is occupied."""

    start: int
    end: int
    """`start` and `end`: half-open steps inside the live range."""
    window: tuple[int, int] | None = None
    """The bytes `[low, high)` of the buffer that stay occupied, or None if no byte does."""


class Parts(NamedTuple):
    """Rectangles with a common offset per buffer.

    Part `i` occupies the bytes `offset[owner[i]] + [low[i], high[i])`. A buffer without gaps has
    one part; each gap splits it. All arrays have shape `(parts,)`.
    """

    owner: IntArray
    start: IntArray
    end: IntArray
    low: IntArray
    high: IntArray


def fullest(parts: Parts) -> int:
    """Return the number of bytes at the fullest step."""
    steps = np.concatenate([parts.end, parts.start])
    change = np.concatenate([parts.low - parts.high, parts.high - parts.low])
    # The sort is stable, so at equal steps ends come before starts.
    return max(0, int(np.cumsum(change[np.argsort(steps, kind="stable")]).max(initial=0)))


def gaps_between(start: int, end: int, size: int, rows: list[Rectangle]) -> tuple[Gap, ...]:
    """Return the gaps of a live range in which exactly the given rectangles are occupied."""
    gaps: list[Gap] = []
    at = start
    for begin, until, low, high in rows:
        # Nothing is occupied between two rectangles.
        if at < begin:
            gaps.append(Gap(at, begin))
        if (low, high) != (0, size):
            gaps.append(Gap(begin, until, (low, high)))
        at = until
    if at < end:
        gaps.append(Gap(at, end))
    return tuple(gaps)
