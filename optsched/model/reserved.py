"""Reserved regions: bytes that no buffer may use, at all steps or at some.

Each region becomes a pinned buffer at the end of the problem (:class:`Reserved`), so every packer,
bound and checker respects it without special treatment. Its bytes are part of the slab, which ends
at or above the end of the region.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex

import numpy as np

from optsched.errors import GraphError, UsageError, expect
from optsched.model.arrays import IntArray
from optsched.model.elements import MAX_TOTAL_BYTES
from optsched.model.packing_buffers import DEFAULTS
from optsched.model.packing_problem import PackingProblem
from optsched.runtime.text import free_name


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes `[low, high)` that are reserved at the steps `[start, end)`."""

    low: int
    high: int
    """`low` and `high`: half-open range of bytes of the slab."""
    start: int | None = None
    end: int | None = None
    """`start` and `end`: half-open range of steps; None for the first and last step of the
    problem."""

    def __post_init__(self) -> None:
        for value in (self.low, self.high, self.start or 0, self.end or 0):
            if not isinstance(value, SupportsIndex):
                raise UsageError(f"a reserved region has bytes and steps, got {value!r}")

    def __str__(self) -> str:
        steps = "" if self.start is None else f"@{self.start}-{self.end}"
        return f"{self.low}:{self.high}{steps}"


@dataclass(frozen=True, slots=True)
class Reserved:
    """Reserved regions as pinned buffers after all others: an exact reduction.

    *Proof.* A pinned buffer that covers the bytes and steps of a region excludes exactly the
    placements that the region excludes, and its end is part of the slab as the region's is. Bytes
    at and above `capacity` cannot be used by a packing within the capacity, and steps outside the
    problem concern no buffer, so regions may be cut there. The buffers of the problem keep their
    positions.
    """

    regions: Sequence[Region]
    """Regions, which may overlap and extend over steps outside the problem."""
    capacity: int | None = None
    """Maximum slab in bytes, or None."""

    def reduce(self, problem: PackingProblem) -> tuple[PackingProblem, ...]:
        """Return the problem with the regions as buffers.

        Raise `GraphError` on an empty or reversed region, or a buffer that is pinned into one.
        """
        for region in self.regions:
            expect("reserved", region, Region)
            _check(region)
        # Without buffers the problem has nothing to keep off these bytes.
        if not len(problem):
            return (problem,)
        rows = self._rectangles(problem)
        _check_pins(problem, rows)
        return (_with_buffers(problem, rows) if rows else problem,)

    def lift(self, problem: PackingProblem, offsets: Sequence[IntArray]) -> IntArray:
        """Return the offsets of the problem's own buffers."""
        # Regions lie after the problem's own buffers.
        return offsets[0][: len(problem)]

    def _rectangles(self, problem: PackingProblem) -> list[tuple[int, int, int, int]]:
        """Return disjoint `(start, end, low, high)` within the problem's steps and the capacity."""
        first, last = int(problem.start.min()), int(problem.end.max())
        top = MAX_TOTAL_BYTES if self.capacity is None else self.capacity
        given = [
            (
                first if region.start is None else max(first, region.start),
                last if region.end is None else min(last, region.end),
                region.low,
                min(region.high, top),
            )
            for region in self.regions
        ]
        # Cut to what matters; rectangles that vanish are dropped.
        return _apart([row for row in given if row[0] < row[1] and row[2] < row[3]])


def _with_buffers(
    problem: PackingProblem, rows: Sequence[tuple[int, int, int, int]]
) -> PackingProblem:
    """Return a problem with a pinned buffer for each rectangle after its own buffers."""
    start, end, low, high = np.array(rows, np.int64).T
    taken = set(problem.names)
    names = [
        free_name(f"reserved {low}:{high}@{start}-{end}", taken) for start, end, low, high in rows
    ]
    added = {what: np.full_like(low, value) for what, value in DEFAULTS.items()}
    added |= {"start": start, "end": end, "size": high - low, "pin": low}
    columns: dict[str, Any] = {
        what: np.append(getattr(problem, what), values) for what, values in added.items()
    }
    return replace(
        problem,
        names=(*problem.names, *names),
        **columns,
        # Regions have no gaps of their own.
        gaps=(*problem.gaps, *[()] * len(rows)) if problem.gaps else (),
    )


def _check(region: Region) -> None:
    if not 0 <= region.low < region.high <= MAX_TOTAL_BYTES:
        raise GraphError(
            f"reserved region {region}: its byte range is empty, reversed or above 2**62"
        )
    if (region.start is None) != (region.end is None) or (
        region.start is not None and region.end is not None and region.start >= region.end
    ):
        raise GraphError(f"reserved region {region}: its step range is empty or reversed")


def _apart(rows: Sequence[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Return disjoint rectangles `(start, end, low, high)` that cover the same points."""
    found: list[tuple[int, int, int, int]] = []
    growing: dict[tuple[int, int], int] = {}
    steps = sorted({step for row in rows for step in row[:2]})
    for step in steps:
        # Blocks that are occupied at this step, merged where they touch.
        here = set(_union([row[2:] for row in rows if row[0] <= step < row[1]]))
        # A block that has ended, or changed its extent, becomes a rectangle.
        for low, high in sorted(set(growing) - here):
            found.append((growing.pop((low, high)), step, low, high))
        for block in sorted(here - set(growing)):
            growing[block] = step
    return found


def _union(blocks: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the same bytes as ascending blocks that do not touch."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(blocks):
        # Touching counts as overlapping, so that fewer buffers result.
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


def _check_pins(problem: PackingProblem, rows: Sequence[tuple[int, int, int, int]]) -> None:
    parts = problem.parts
    pin = problem.pin[parts.owner]
    for start, end, low, high in rows:
        meets = (pin >= 0) & (np.maximum(parts.start, start) < np.minimum(parts.end, end))
        meets &= (pin + parts.low < high) & (low < pin + parts.high) & (parts.low < parts.high)
        if meets.any():
            name = problem.names[int(parts.owner[np.argmax(meets)])]
            raise GraphError(f"buffer {name!r} is pinned into the reserved bytes {low}:{high}")
