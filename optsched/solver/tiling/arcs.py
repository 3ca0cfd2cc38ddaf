"""Arcs between positions: an op as it is, or a stage in bands, with loads and costs.

Example: a chain of two row-local ops has the arcs `a`, `b`, `a` in 2, 3, ... bands, `b` in bands,
and `a b` in bands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.rows import RowOp, Tail
from optsched.model.tiled import joins_of
from optsched.runtime.clock import Clock
from optsched.solver.tiling.candidates import Candidates, candidates, packed, stage_arrays
from optsched.solver.tiling.kernels import FIGURES, stage_loads
from optsched.solver.tiling.lattice import Lattice

MOST_ARCS = 400_000
"""Arcs beyond this are left out; answers then say so."""
BATCH = 200
"""Stages measured between two looks at the clock."""


class Arcs(NamedTuple):
    """Arcs by the position where they end, int64."""

    ptr: IntArray
    """Shape `(positions + 1,)`: arcs that end at position `p` are `ptr[p]` to `ptr[p + 1]`."""
    start: IntArray
    """Number of the position where each begins."""
    load: IntArray
    """Most live bytes, in the direction that has fewer."""
    extra: IntArray
    """Multiplications beyond those of the ops as they are; negative if rows are not computed."""
    tail: IntArray
    """Bytes added to the tail."""


@dataclass(frozen=True)
class Network:
    """Positions and arcs of a graph.

    Parameters
    ----------
    lattice
        The positions.
    counts
        Numbers of bands.
    arcs
        The arcs.
    what
        Shape `(arcs, 2)`: the stage and the index of its count, or the op and -1.
    ways
        Shape `(arcs, 2)`: loads by direction, downwards first.
    stages
        The candidate stages.
    complete
        True if every stage with every count is there.
    """

    lattice: Lattice
    counts: IntArray
    arcs: Arcs
    what: IntArray
    ways: IntArray
    stages: Candidates
    complete: bool


def network(lattice: Lattice, bands: int, tail: Tail, clock: Clock) -> Network:
    """Return the positions and arcs of a graph, with stages in 2 to `bands` bands.

    The lattice has few enough positions.
    """
    stages = candidates(lattice.rows)
    ordered = tuple(tuple(sorted(x, key=lattice.place.__getitem__)) for x in stages.stages)
    stages = Candidates(ordered, stages.complete)
    counts = np.arange(2, bands + 1)
    found, done = _measured(lattice, stages, counts, clock)
    rows, complete = _rows(lattice, stages, counts, found, tail)
    positions = lattice.positions
    assert positions is not None
    table = np.array(rows, np.int64).reshape(-1, 9)
    table = table[np.lexsort((table[:, 3], table[:, 0], table[:, 1]))]
    table = table[_useful(table)]
    ptr = np.searchsorted(table[:, 1], np.arange(len(positions) + 1))
    columns = [np.ascontiguousarray(table[:, k]) for k in (0, 2, 3, 4)]
    arcs = Arcs(ptr, *columns)
    what, ways = table[:, 5:7].copy(), table[:, 7:9].copy()
    whole = stages.complete and done and complete
    return Network(lattice, counts, arcs, what, ways, stages, whole)


def _measured(
    lattice: Lattice, stages: Candidates, counts: IntArray, clock: Clock
) -> tuple[IntArray, bool]:
    """Return the figures of all stages, and False if there was no time for the last ones."""
    found = np.full((len(stages.stages), len(counts), len(FIGURES)), -1, np.int64)
    if not len(stages.stages) or not len(counts):
        return found, True
    arrays = stage_arrays(lattice.rows)
    ptr, ops = packed(stages.stages)
    for first in range(0, len(found), BATCH):
        if clock.expired():
            return found, False
        part = found[first : first + BATCH]
        work = int((ptr[min(first + BATCH, len(found))] - ptr[first]) * counts.sum())
        stage_loads.for_work(work)(arrays, ptr, ops, counts, first, part)
    return found, True


def _rows(
    lattice: Lattice, stages: Candidates, counts: IntArray, found: IntArray, tail: Tail
) -> tuple[list[tuple[int, ...]], bool]:
    """Return the arcs as rows: start, end, load, extra, tail, what (2), loads by direction (2)."""
    positions = lattice.positions
    assert positions is not None
    number = {position: k for k, position in enumerate(positions)}
    live = [lattice.live(position) for position in positions]
    rows: list[tuple[int, ...]] = []
    for k, position in enumerate(positions):
        for v in lattice.ready(position):
            load = lattice.whole(v, live[k])
            rows.append((k, number[position | 1 << v], load, 0, 0, v, -1, load, load))
    spans = _dying(lattice)
    ops = lattice.rows.ops
    for t, stage in enumerate(stages.stages):
        figures = found[t]
        columns = np.flatnonzero(figures[:, FIGURES.down] >= 0)
        if not len(columns):
            continue
        if len(rows) > MOST_ARCS:
            return rows, False
        own = sum(1 << v for v in stage)
        dies = sum(
            size
            for size, made, users in spans
            if users & own and not users & ~own and not made & own
        )
        cost = sum(op.cost * lattice.rows.heights[op.output] for op in _row_ops(ops, stage))
        more = tails(tail, stage, counts[columns], figures[columns]).tolist()
        picked = figures[columns].tolist()
        for position in lattice.starts(stage):
            k = number[position]
            across = live[k] - dies
            end = number[position | own]
            for c, row, added in zip(columns.tolist(), picked, more, strict=True):
                down, up = across + row[0], across + row[1]
                rows.append((k, end, min(down, up), row[2] - cost, added, t, c, down, up))
    return rows, True


def _row_ops(ops: tuple[RowOp | str, ...], stage: tuple[int, ...]) -> list[RowOp]:
    return [op for v in stage if isinstance(op := ops[v], RowOp)]


def _dying(lattice: Lattice) -> list[tuple[int, int, int]]:
    """Return bytes, maker and users of each buffer that is not kept."""
    return [(size, made, users) for size, made, users, kept in lattice.spans if not kept]


def tails(tail: Tail, stage: tuple[int, ...], counts: IntArray, figures: IntArray) -> IntArray:
    """Return the bytes that a stage adds to the tail for each count of bands, shape `(counts,)`."""
    joins = [joins_of(int(count)) for count in counts]
    runs = (counts - 1) * sum(tail.ops[v] for v in stage)
    slices = figures[:, FIGURES.slices]
    # The joined tensor takes the place of the untiled result; other joins make a tensor each.
    joined = np.array([len(row) for row in joins])
    tensors = figures[:, FIGURES.tensors] + slices + joined - len(stage)
    bytes_ = runs + tail.tensor * tensors + tail.slice * slices + tail.join * joined
    result: IntArray = bytes_ + tail.joined * np.array([sum(row) for row in joins])
    return result


def _useful(table: IntArray) -> IntArray:
    """Return the rows that no other row between the same positions makes useless.

    Rows are sorted by end, start and extra.
    """
    kept: list[int] = []
    best: list[tuple[int, int]] = []
    pair = (-1, -1)
    for i, (start, end, load, _, tail, *_rest) in enumerate(table.tolist()):
        if (start, end) != pair:
            pair, best = (start, end), []
        if any(x <= load and y <= tail for x, y in best):
            continue
        best.append((load, tail))
        kept.append(i)
    return np.array(kept, np.int64)
