"""Arcs between positions: an op as it is, or a stage in bands, with loads and costs.

Example: a chain of two row-local ops has the arcs `a`, `b`, `a` in 2, 3, ... bands, `b` in bands,
and `a b` in bands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.rows import RowOp, Tail
from optsched.model.tiled import joins_of
from optsched.runtime.clock import Clock
from optsched.runtime.kernel import kernel
from optsched.solver.tiling.candidates import candidates
from optsched.solver.tiling.kernels import FIGURES
from optsched.solver.tiling.lattice import Lattice
from optsched.solver.tiling.variants import Variant, counts_of, measured, variants

OPS = 1 << 16
"""Factor of multiplications, so that fewer ops break ties."""
MEASURE_SHARE = 0.6
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


@kernel
def hide_useless(ends: IntArray, start: IntArray, load: IntArray, tail: IntArray) -> None:
    """Give a load out of reach to arcs that another one between the same positions beats.

    Arcs between two positions are neighbors, and ascend in extra.
    """
    first = 0
    for i in range(len(ends)):
        if ends[i] != ends[first] or start[i] != start[first]:
            first = i
        for j in range(first, i):
            if load[j] <= load[i] and tail[j] <= tail[i]:
                load[i] = OUT_OF_REACH
                break


class Lines:
    """Arcs between positions."""

    arcs: Arcs
    """The arcs."""

    @cached_property
    def ends(self) -> IntArray:
        """Shape `(arcs,)`: number of the position where each ends."""
        return np.repeat(np.arange(len(self.arcs.ptr) - 1), np.diff(self.arcs.ptr))


@dataclass(frozen=True)
class Network(Lines):
    """Positions and arcs of a graph.

    Loads of arcs grow while a search learns that bytes cannot be packed (:meth:`raise_load`).
    """

    lattice: Lattice
    """The positions."""
    counts: IntArray
    """Numbers of bands."""
    arcs: Arcs
    """The arcs."""
    what: IntArray
    """Shape `(arcs, 2)`: the stage and the index of its count, or the op and -1."""
    ways: IntArray
    """Shape `(arcs, 2)`: loads by direction, downwards first."""
    stages: tuple[Variant, ...]
    """The stages."""
    figures: IntArray
    """Shape `(stages, counts, 5)`: the figures of each, as measured."""
    complete: bool
    """True if every stage with every count is there."""
    raised: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """Bytes added to the load of a stage with a count in a direction."""

    def raise_load(self, stage: int, count: int, way: int, by: int) -> None:
        """Add bytes to the load of a stage in a direction, wherever it begins."""
        self.raised[stage, count, way] = by
        if not by:
            return
        for arc in np.flatnonzero((self.what == (stage, count)).all(axis=1)).tolist():
            self.ways[arc, way] += by
            # The arcs between the same positions.
            low, high = self.arcs.ptr[self.ends[arc] : self.ends[arc] + 2].tolist()
            near = low + np.flatnonzero(self.arcs.start[low:high] == self.arcs.start[arc])
            self.update(slice(int(near[0]), int(near[-1]) + 1))

    def update(self, part: slice) -> None:
        """Set the loads of arcs from those by direction; hide those that others beat."""
        arcs = self.arcs
        arcs.load[part] = self.ways[part].min(axis=1)
        run = hide_useless.for_work(len(arcs.load[part]))
        run(self.ends[part], arcs.start[part], arcs.load[part], arcs.tail[part])


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
    counts = counts_of(lattice.rows, bands)
    figures, complete = measured(lattice, stages, counts, clock.share(MEASURE_SHARE))
    positions = lattice.positions
    assert positions is not None
    number = {position: k for k, position in enumerate(positions)}
    live = {position: lattice.live(position) for position in positions}
    whole = _whole(lattice, number, live)
    banded = _banded(lattice, stages, counts, figures, tail)
    ptr = np.searchsorted(banded[:, 5], np.arange(len(stages) + 1))
    # By stage and position at which it can run: stage, start, end, live bytes.
    table = [
        (
            *(t, number[position], number[position | x.mask]),
            live[position] - lattice.unread(x.mask, position),
        )
        for t, x in enumerate(stages)
        if ptr[t] < ptr[t + 1]
        for position in x.positions
    ]
    pairs = np.array(table, np.int64).reshape(-1, 4)
    least_of = np.full(len(stages), OUT_OF_REACH, np.int64)
    np.minimum.at(least_of, banded[:, 5], banded[:, 2])
    rough = np.column_stack((pairs[:, 1:3], least_of[pairs[:, 0]] + pairs[:, 3]))
    least = _least_load(len(positions), [*whole[:, :3].tolist(), *rough.tolist()])
    cheap = {(k, v): end for k, end, load, _, _, v, *_ in whole.tolist() if load <= least}
    able = sum(1 << v for v in {v for _, v in cheap})
    needless = np.array(
        [
            not stages[t].mask & ~able and _runs_whole(stages[t].ops, k, cheap)
            for t, k, _, _ in table
        ],
        bool,
    )
    # Each pair of stage and position, with each count.
    sizes = ptr[pairs[:, 0] + 1] - ptr[pairs[:, 0]]
    pair = np.repeat(np.arange(len(pairs)), sizes)
    rows = banded[
        np.arange(len(pair)) - np.repeat(np.cumsum(sizes) - sizes - ptr[pairs[:, 0]], sizes)
    ]
    rows[:, :2] = pairs[pair, 1:3]
    rows[:, [2, 7, 8]] += pairs[pair, 3:]
    kept = (rows[:, 2] < top) & ~needless[pair] if len(pair) else np.zeros(0, bool)
    rows = rows[kept | (rows[:, 3] < 0)]
    complete &= found.complete and len(rows) <= MOST_ARCS
    every = np.concatenate([whole, rows[:MOST_ARCS]])
    every = every[np.lexsort((every[:, 3], every[:, 0], every[:, 1]))]
    begin = np.searchsorted(every[:, 1], np.arange(len(positions) + 1))
    arcs = Arcs(begin, *(np.ascontiguousarray(every[:, k]) for k in (0, 2, 3, 4)))
    what, ways = every[:, 5:7].copy(), every[:, 7:9].copy()
    net = Network(lattice, counts, arcs, what, ways, stages, figures, complete)
    net.update(slice(None))
    return net


def _least_load(positions: int, arcs: list[tuple[int, ...]]) -> int:
    """Return the least load of a path; arcs are start, end and load."""
    found = [0] + [OUT_OF_REACH] * (positions - 1)
    # Positions of fewer ops come first, so all arcs to a start are seen before it.
    for start, end, load in sorted(arcs, key=lambda x: x[1]):
        found[end] = min(found[end], max(found[start], load))
    return found[-1]


def _runs_whole(ops: Sequence[int], at: int, cheap: Mapping[tuple[int, int], int]) -> bool:
    """Return True if ops can run as they are from a position at no cost to any path."""
    for v in ops:
        if (at, v) not in cheap:
            return False
        at = cheap[at, v]
    return True


def _whole(lattice: Lattice, number: Mapping[int, int], live: Mapping[int, int]) -> IntArray:
    """Return the arcs of ops as they are.

    Columns are start, end, load, extra, tail, what (two) and loads by direction (two).
    """
    rows = []
    for position, k in number.items():
        for v in lattice.ready(position):
            load = lattice.whole(v, position, live[position])
            rows.append((k, number[position | 1 << v], load, 0, 0, v, -1, load, load))
    return np.array(rows, np.int64).reshape(-1, 9)


def _banded(
    lattice: Lattice, stages: Sequence[Variant], counts: IntArray, figures: IntArray, tail: Tail
) -> IntArray:
    """Return the arcs of stages by count, without what depends on the position."""
    rows = lattice.rows
    costs = [op.cost * rows.heights[op.output] if isinstance(op, RowOp) else 0 for op in rows.ops]
    # As counted between ops: an input that others read before has its least bytes.
    spans = {span.buffer: span for span in lattice.spans}
    dying = [sum(spans[b].at(~x.mask) for b in x.dead) for x in stages]
    dies = np.array(dying, np.int64)
    cost = np.array([sum(costs[v] for v in x.ops) for x in stages], np.int64)
    stage, column = np.nonzero(figures[:, :, FIGURES.down] >= 0)
    found = figures[stage, column]
    table = np.zeros((len(stage), 9), np.int64)
    table[:, 7:9] = found[:, : FIGURES.cost] - dies[stage, None]
    table[:, 2] = table[:, 7:9].min(axis=1)
    added = found[:, FIGURES.slices] + found[:, FIGURES.tensors]
    table[:, 3] = (found[:, FIGURES.cost] - cost[stage]) * OPS + added
    runs = np.array([sum(tail.ops[v] for v in x.ops) for x in stages], np.int64)
    ops = np.array([len(x.ops) for x in stages], np.int64)
    first = np.array([sum(tail.first[v] for v in x.ops if tail.first) for x in stages], np.int64)
    table[:, 4] = first[stage] + _tails(tail, runs[stage], ops[stage], counts[column], found)
    table[:, 5], table[:, 6] = stage, column
    return table


_joins = cache(joins_of)


def _tails(
    tail: Tail, runs: IntArray, ops: IntArray, counts: IntArray, figures: IntArray
) -> IntArray:
    """Return the bytes that stages add to the tail; `runs` are those of one more band."""
    joins = [_joins(count) for count in counts.tolist()]
    slices = figures[:, FIGURES.slices]
    # The joined tensor takes the place of the untiled result; other joins make a tensor each.
    joined = np.array([len(row) for row in joins], np.int64)
    tensors = figures[:, FIGURES.tensors] + slices + joined - ops
    bytes_ = (counts - 1) * runs + tail.tensor * tensors + tail.slice * slices + tail.join * joined
    result: IntArray = bytes_ + tail.joined * np.array([sum(row) for row in joins], np.int64)
    return result
