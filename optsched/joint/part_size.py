"""Sizes of the parts of a plan that are searched one after another, each with a short limit.

A part that is decided makes the next one larger, and one that is not decided makes it smaller: the
parts grow until they just fit the limit.

>>> resized(16, True, (6, 80)), resized(16, False, (6, 80)), resized(80, True, (6, 80))
(19, 13, 80)
"""

from __future__ import annotations

LARGER, SMALLER = 1.15, 0.8
"""Factors of the size after a part that was decided, and after one that was not."""


def resized(size: int, decided: bool, limits: tuple[int, int]) -> int:
    """Return the size of the next part, within the smallest and the largest size."""
    low, high = limits
    return int(min(high, max(low, size * (LARGER if decided else SMALLER) + 1)))
