"""What is there of a buffer and when: gaps in live ranges, and the rectangles that they leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.sharing import Rectangle


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch `[start, end)` of a live range in which less than the whole buffer is there.

    Parameters
    ----------
    start, end
        Half-open steps inside the live range.
    window
        The bytes `[low, high)` of the buffer that stay occupied, or None for none of them.
    """

    start: int
    end: int
    window: tuple[int, int] | None = None


class Parts(NamedTuple):
    """Rectangles that move together: part `i` fills `offset[owner[i]] + [low[i], high[i])`.

    A buffer without gaps is one part; each gap splits it. All arrays have shape `(parts,)`.
    """

    owner: IntArray
    start: IntArray
    end: IntArray
    low: IntArray
    high: IntArray


def fullest(parts: Parts) -> int:
    """Return the bytes of the fullest step."""
    steps = np.concatenate([parts.end, parts.start])
    change = np.concatenate([parts.low - parts.high, parts.high - parts.low])
    # At equal steps ends come first: they stand first and the sort is stable.
    return max(0, int(np.cumsum(change[np.argsort(steps, kind="stable")]).max(initial=0)))


def gaps_between(start: int, end: int, size: int, rows: list[Rectangle]) -> tuple[Gap, ...]:
    """Return the gaps that leave these rectangles of a live range."""
    gaps: list[Gap] = []
    at = start
    for begin, until, low, high in rows:
        if at < begin:
            gaps.append(Gap(at, begin))
        if (low, high) != (0, size):
            gaps.append(Gap(begin, until, (low, high)))
        at = until
    if at < end:
        gaps.append(Gap(at, end))
    return tuple(gaps)
