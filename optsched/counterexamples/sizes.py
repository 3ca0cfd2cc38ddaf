"""Simpler sizes: fewer different ones, then fewer bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import gcd


def simpler_sizes(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield sizes of which fewer are different, or as many with fewer bytes, by one change each.

    All are divided by their common divisor; all of one size become smaller, down to 1 or by a
    half, a quarter and so on; or one takes a size that another has. Each change lowers the number
    of different sizes, or else the bytes, so that a chain of them ends.
    """
    divisor = gcd(*sizes) if sizes else 1
    if divisor > 1:
        yield [size // divisor for size in sizes]
    count = Counter(sizes)
    for old in sorted(count, reverse=True):
        for new in _below(old):
            yield [new if size == old else size for size in sizes]
    for i, old in enumerate(sizes):
        for new in sorted(count):
            if new < old or (new > old and count[old] == 1):
                yield [*sizes[:i], new, *sizes[i + 1 :]]


def _below(size: int) -> list[int]:
    """1, then less by a half, a quarter, ... , 1."""
    found = {1: None} if size > 1 else {}
    step = size
    while step > 1:
        step //= 2
        found[size - step] = None
    return list(found)
