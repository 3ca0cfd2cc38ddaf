"""Arcs between positions: an op as it is, or a stage in bands, with loads and costs.

Example: a chain of two row-local ops has the arcs `a`, `b`, `a` in 2, 3, ... bands, `b` in bands,
and `a b` in bands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.rows import RowOp, Tail
from optsched.model.tiled import joins_of
from optsched.runtime.clock import Clock
from optsched.solver.tiling.candidates import candidates
from optsched.solver.tiling.kernels import FIGURES
from optsched.solver.tiling.lattice import Lattice
from optsched.solver.tiling.variants import Variant, measured, variants

OPS = 1 << 16
"""Factor of multiplications, so that fewer ops break ties."""
MEASURE_SHARE = 0.5
"""Part of the time for the loads of stages; small stages come first."""
OUT_OF_REACH = 1 << 61
"""Load of an arc that no path should take."""
MOST_ARCS = 400_000
"""Arcs beyond this are left out; answers then say so."""


class Arcs(NamedTuple):
    """Arcs by the position where they end, int64."""

    ptr: IntArray
    """Shape `(positions + 1,)`: arcs that end at position `p` are `ptr[p]` to `ptr[p + 1]`."""
    start: IntArray
    """Number of the position where each begins."""
    load: IntArray
    """Most live bytes, in the direction that has fewer."""
    extra: IntArray
    """Multiplications beyond those of the ops as they are, times :data:`OPS`, plus added ops; they
    are negative if rows are not computed."""
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
        The stages.
    figures
        Shape `(stages, counts, 5)`: the figures of each, as measured.
    complete
        True if every stage with every count is there.

    Loads of arcs grow while a search learns that bytes cannot be packed (:meth:`raise_load`).
    """

    lattice: Lattice
    counts: IntArray
    arcs: Arcs
    what: IntArray
    ways: IntArray
    stages: tuple[Variant, ...]
    figures: IntArray
    complete: bool
    raised: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """Bytes added to the load of a stage with a count in a direction."""

    def raise_load(self, stage: int, count: int, way: int, by: int) -> None:
        """Add bytes to the load of a stage in a direction, wherever it begins."""
        self.raised[stage, count, way] = by
        if not by:
            return
        for arc in np.flatnonzero((self.what == (stage, count)).all(axis=1)).tolist():
            self.ways[arc, way] += by
            first, last = self._between(arc)
            self.arcs.load[first:last] = self.ways[first:last].min(axis=1)
            self.hide_useless(first, last)

    def end(self, arc: int) -> int:
        """Return the number of the position where an arc ends."""
        return int(np.searchsorted(self.arcs.ptr, arc, side="right")) - 1

    def _between(self, arc: int) -> tuple[int, int]:
        """Return the range of the arcs between the same positions as one of them."""
        end = self.end(arc)
        low, high = self.arcs.ptr[end : end + 2].tolist()
        starts = self.arcs.start[low:high]
        own = self.arcs.start[arc]
        return (
            low + int(np.searchsorted(starts, own)),
            low + int(np.searchsorted(starts, own, side="right")),
        )

    def hide_useless(self, first: int, last: int) -> None:
        """Give a load out of reach to arcs that another one between the same positions beats."""
        arcs, best, pair = self.arcs, list[tuple[int, int]](), (-1, -1)
        ends = np.searchsorted(arcs.ptr, np.arange(first, last), side="right")
        rows = (ends, *(column[first:last] for column in (arcs.start, arcs.load, arcs.tail)))
        # Arcs between two positions ascend in extra.
        for i, (end, start, load, tail) in enumerate(zip(*(x.tolist() for x in rows), strict=True)):
            if (start, end) != pair:
                pair, best = (start, end), []
            if any(x <= load and y <= tail for x, y in best):
                arcs.load[first + i] = OUT_OF_REACH
            else:
                best.append((load, tail))


def network(
    lattice: Lattice, bands: int, tail: Tail, clock: Clock, top: int = OUT_OF_REACH
) -> Network:
    """Return the positions and arcs of a graph, with stages in 2 to `bands` bands.

    Stages that no good path needs are left out: if they cost something, those with a load of `top`
    or more, the bytes of a known plan without stages, and those whose ops run as they are within
    the least load of all paths. The lattice has few enough positions.
    """
    found = candidates(lattice.rows)
    stages = variants(lattice, found)
    counts = np.arange(2, bands + 1)
    figures, complete = measured(lattice, stages, counts, clock.share(MEASURE_SHARE))
    positions = lattice.positions
    assert positions is not None
    number = {position: k for k, position in enumerate(positions)}
    live = {position: lattice.live(position) for position in positions}
    bases = [_banded(lattice, t, x, counts, figures[t], tail) for t, x in enumerate(stages)]
    whole = _whole(lattice, number, live)
    pairs = [
        (t, x, position) for t, x in enumerate(stages) if len(bases[t]) for position in x.positions
    ]
    low = [int(rows[:, 2].min()) if len(rows) else 0 for rows in bases]
    rough = [
        (number[position], number[position | x.mask], low[t] + live[position])
        for t, x, position in pairs
    ]
    least = _least_load(len(positions), [*whole[:, :3].tolist(), *rough])
    cheap = {(k, v) for k, _, load, _, _, v, *_ in whole.tolist() if load <= least}
    sometimes = {v for _, v in cheap}
    able_whole = [sometimes.issuperset(x.ops) for x in stages]
    tables, total = [whole], 0
    for t, x, position in pairs:
        rows = bases[t].copy()
        rows[:, :2] = number[position], number[position | x.mask]
        rows[:, [2, 7, 8]] += live[position]
        needed = rows[:, 2] < top
        needed &= not (able_whole[t] and _runs_whole(x, position, number, cheap))
        rows = rows[needed | (rows[:, 3] < 0)]
        total += len(rows)
        if total <= MOST_ARCS:
            tables.append(rows)
    table = np.concatenate(tables)
    table = table[np.lexsort((table[:, 3], table[:, 0], table[:, 1]))]
    ptr = np.searchsorted(table[:, 1], np.arange(len(positions) + 1))
    arcs = Arcs(ptr, *(np.ascontiguousarray(table[:, k]) for k in (0, 2, 3, 4)))
    what, ways = table[:, 5:7].copy(), table[:, 7:9].copy()
    complete &= found.complete and total <= MOST_ARCS
    net = Network(lattice, counts, arcs, what, ways, stages, figures, complete)
    net.hide_useless(0, len(table))
    return net


def _least_load(positions: int, arcs: list[tuple[int, ...]]) -> int:
    """Return the least load of a path; arcs are start, end and load."""
    found = [0] + [OUT_OF_REACH] * (positions - 1)
    # Positions of fewer ops come first, so all arcs to a start are seen before it.
    for start, end, load in sorted(arcs, key=lambda x: x[1]):
        found[end] = min(found[end], max(found[start], load))
    return found[-1]


def _runs_whole(
    stage: Variant, position: int, number: Mapping[int, int], cheap: set[tuple[int, int]]
) -> bool:
    """Return True if the ops of a stage can run as they are at no cost to any path."""
    for v in stage.ops:
        if (number[position], v) not in cheap:
            return False
        position |= 1 << v
    return True


def _whole(lattice: Lattice, number: Mapping[int, int], live: Mapping[int, int]) -> IntArray:
    """Return the arcs of ops as they are.

    Columns are start, end, load, extra, tail, what (two) and loads by direction (two).
    """
    rows = []
    for position, k in number.items():
        for v in lattice.ready(position):
            load = lattice.whole(v, live[position])
            rows.append((k, number[position | 1 << v], load, 0, 0, v, -1, load, load))
    return np.array(rows, np.int64).reshape(-1, 9)


def _banded(
    lattice: Lattice, t: int, stage: Variant, counts: IntArray, figures: IntArray, tail: Tail
) -> IntArray:
    """Return the arcs of a stage by count, without what depends on the position."""
    rows = lattice.rows
    columns = np.flatnonzero(figures[:, FIGURES.down] >= 0)
    counts, figures = counts[columns], figures[columns]
    dies = sum(rows.graph.buffers[b].size for b in stage.dead)
    ops = [(op, rows.heights[op.output]) for v in stage.ops if isinstance(op := rows.ops[v], RowOp)]
    cost = sum(op.cost * height for op, height in ops)
    table = np.zeros((len(counts), 9), np.int64)
    table[:, 7:9] = figures[:, : FIGURES.cost] - dies
    table[:, 2] = table[:, 7:9].min(axis=1)
    added = figures[:, FIGURES.slices] + figures[:, FIGURES.tensors]
    table[:, 3] = (figures[:, FIGURES.cost] - cost) * OPS + added
    table[:, 4] = tails(tail, stage.ops, counts, figures)
    table[:, 5], table[:, 6] = t, columns
    return table


_joins = cache(joins_of)


def tails(tail: Tail, stage: tuple[int, ...], counts: IntArray, figures: IntArray) -> IntArray:
    """Return the bytes that a stage adds to the tail for each count of bands, shape `(counts,)`."""
    joins = [_joins(count) for count in counts.tolist()]
    runs = (counts - 1) * sum(tail.ops[v] for v in stage)
    slices = figures[:, FIGURES.slices]
    # The joined tensor takes the place of the untiled result; other joins make a tensor each.
    joined = np.array([len(row) for row in joins])
    tensors = figures[:, FIGURES.tensors] + slices + joined - len(stage)
    bytes_ = runs + tail.tensor * tensors + tail.slice * slices + tail.join * joined
    result: IntArray = bytes_ + tail.joined * np.array([sum(row) for row in joins])
    return result
