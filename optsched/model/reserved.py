"""Reserved regions: bytes that no buffer may use, at all steps or at some.

Each region becomes a pinned buffer at the end of the problem, so every packer, bound and checker
respects it without special treatment. Its bytes are part of the slab, which ends at or above the
end of the region.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import SupportsIndex

import numpy as np

from optsched.errors import GraphError, UsageError, expect
from optsched.model.elements import MAX_TOTAL_BYTES
from optsched.model.packing_problem import PackingProblem
from optsched.runtime.text import free_name


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes `[low, high)` that are reserved at the steps `[start, end)`.

    Parameters
    ----------
    low, high
        Half-open range of bytes of the slab.
    start, end
        Half-open range of steps; None for the first and last step of the problem.
    """

    low: int
    high: int
    start: int | None = None
    end: int | None = None

    def __post_init__(self) -> None:
        for value in (self.low, self.high, self.start or 0, self.end or 0):
            if not isinstance(value, SupportsIndex):
                raise UsageError(f"a reserved region has bytes and steps, got {value!r}")

    def __str__(self) -> str:
        steps = "" if self.start is None else f"@{self.start}-{self.end}"
        return f"{self.low}:{self.high}{steps}"


def with_reserved(
    problem: PackingProblem, regions: Sequence[Region], *, capacity: int | None = None
) -> PackingProblem:
    """Return the problem with regions as pinned buffers after all others.

    The first `len(problem)` offsets that a packer returns are those of the original problem.
    Regions may overlap and may extend over steps outside the problem. Bytes at and above `capacity`
    cannot be used anyway, so regions end there.

    Raises
    ------
    GraphError
        On an empty or reversed region, or a buffer that is pinned into one.
    """
    for region in regions:
        expect("reserved", region, Region)
        _check(region)
    if not len(problem):
        return problem
    first, last = int(problem.start.min()), int(problem.end.max())
    roof = MAX_TOTAL_BYTES if capacity is None else capacity
    given = [
        (
            first if region.start is None else max(first, region.start),
            last if region.end is None else min(last, region.end),
            region.low,
            min(region.high, roof),
        )
        for region in regions
    ]
    rows = _apart([row for row in given if row[0] < row[1] and row[2] < row[3]])
    _check_pins(problem, rows)
    if not rows:
        return problem
    start, end, low, high = np.array(rows, np.int64).T
    taken = set(problem.names)
    names = [
        free_name(f"reserved {low}:{high}@{start}-{end}", taken) for start, end, low, high in rows
    ]
    return replace(
        problem,
        names=(*problem.names, *names),
        start=np.append(problem.start, start),
        end=np.append(problem.end, end),
        size=np.append(problem.size, high - low),
        alignment=np.append(problem.alignment, np.ones_like(low)),
        pin=np.append(problem.pin, low),
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
        here = set(_union([row[2:] for row in rows if row[0] <= step < row[1]]))
        for low, high in sorted(set(growing) - here):
            found.append((growing.pop((low, high)), step, low, high))
        for block in sorted(here - set(growing)):
            growing[block] = step
    return found


def _union(blocks: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the same bytes as ascending blocks that do not touch."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(blocks):
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
