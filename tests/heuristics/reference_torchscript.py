"""The planners of PyTorch pull request 64347 from their description, as slowly as it reads.

Live ranges are closed there, `[first, last]`, and an allocation is `(first, last, offset, size)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Value:
    """A managed value: what `UniqueLiveRange` and its size are there."""

    first: int
    last: int
    name: int
    size: int

    def meets(self, other: Value) -> bool:
        return not (self.last < other.first or other.last < self.first)


def naive(values: Iterable[Value]) -> dict[int, int]:
    """End to end in the order given."""
    offsets, at = {}, 0
    for value in values:
        offsets[value.name] = at
        at += value.size
    return offsets


def smallest_gap(value: Value, placed: dict[Value, int]) -> int:
    """Offset of the smallest gap between allocations that meet the value, else above them all."""
    low, best = 0, None
    for other, offset in sorted(placed.items(), key=lambda item: item[1]):
        if not value.meets(other):
            continue
        gap = offset - low
        if gap >= value.size and (best is None or gap < best[0]):
            best = (gap, low)
        low = max(low, offset + other.size)
    return low if best is None else best[1]


def greedy(values: Iterable[Value]) -> dict[int, int]:
    """Place in the sequence given."""
    placed: dict[Value, int] = {}
    for value in values:
        placed[value] = smallest_gap(value, placed)
    return {value.name: offset for value, offset in placed.items()}


def by_longest_and_size(values: Iterable[Value]) -> dict[int, int]:
    return greedy(sorted(values, key=lambda v: (v.first - v.last, -v.size, v.first, v.name)))


def by_breadth(values: Sequence[Value], ops: Iterable[Iterable[int]]) -> dict[int, int]:
    """`ops` names the values that each op reads and writes."""
    sizes = {value.name: value for value in values}
    rows = [sorted((sizes[b] for b in row if b in sizes), key=by_size_then_start) for row in ops]
    rows.sort(key=lambda row: -sum(value.size for value in row))
    sequence = dict.fromkeys(value for row in rows for value in row)
    rest = sorted((v for v in values if v not in sequence), key=by_size_then_start)
    return greedy([*sequence, *rest])


def by_size_then_start(value: Value) -> tuple[int, int, int, int]:
    return (-value.size, value.first, value.last, value.name)


def linear_scan(values: Iterable[Value]) -> dict[int, int]:
    """Keep every byte ever used in a string: a letter is the value that lives there, a dot none."""
    bytes_of_slab: list[int | None] = []
    ends: dict[int, int] = {}
    offsets: dict[int, int] = {}
    for value in sorted(values, key=lambda v: (v.first, v.last, v.name)):
        for at, name in enumerate(bytes_of_slab):
            if name is not None and ends[name] < value.first:
                bytes_of_slab[at] = None
        fitting = [(high - low, low) for low, high in free_regions(bytes_of_slab)]
        fitting = [region for region in fitting if region[0] >= value.size]
        at = min(fitting)[1] if fitting else len(bytes_of_slab)
        bytes_of_slab[at : at + value.size] = [value.name] * value.size
        offsets[value.name], ends[value.name] = at, value.last
    return offsets


def free_regions(row: Sequence[int | None]) -> list[tuple[int, int]]:
    """Longest stretches of free bytes."""
    found, low = [], 0
    for at in range(len(row) + 1):
        if at == len(row) or row[at] is not None:
            if at > low:
                found.append((low, at))
            low = at + 1
    return found
