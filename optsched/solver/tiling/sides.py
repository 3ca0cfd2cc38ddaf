"""Paths with a known packing: data that lies at one end of the slab, then at the other.

A stage whose input lies at the high end runs downwards: the input dies from its low bytes, and the
result grows from the low end. The next stage runs upwards. An op that runs as it is takes its data
to the other end as well. So each position of the network is there twice, once per end, and a load
is that of a packing with these ends (:mod:`optsched.solver.tiling.anchored`). Paths found here are
packed in most cases. They prove nothing, since other packings may be better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optsched.model.arrays import BoolArray, IntArray
from optsched.runtime.clock import Clock
from optsched.solver.tiling.arcs import OUT_OF_REACH, Arcs, Lines, Network
from optsched.solver.tiling.kernels import FIGURES
from optsched.solver.tiling.paths import Path
from optsched.solver.tiling.variants import anchored

MOST_RUNS = 20_000_000
"""Runs of ops in bands above which only arcs are measured that no other one beats in load, tail and
extra multiplications."""
MEASURE_SHARE = 0.3
"""Part of the time for the anchored bytes of stages."""


@dataclass(frozen=True)
class Sides(Lines):
    """The arcs of a network by the end of the slab at which they begin."""

    net: Network
    arcs: Arcs
    """Arcs between positions with ends; the first and the last position have none."""
    own: IntArray
    way: IntArray
    """`own` and `way`: shape `(arcs,)`: number of the arc in the network, or -1, and direction of a
    stage."""
    anchored: IntArray
    live: IntArray
    """`anchored` and `live`: shape `(arcs,)`: bytes of the known packing, and live bytes, which
    other packings may meet."""

    def relax(self, by: int) -> None:
        """Let packings be found that are smaller than the known ones by at most some bytes."""
        # Loads of the network may have risen.
        stage = (self.own >= 0) & (self.net.what[self.own, 1] >= 0)
        self.live[stage] = self.net.ways[self.own[stage], self.way[stage]]
        self.arcs.load[:] = np.maximum(self.live, self.anchored - by)

    def is_known(self, path: Path, limit: int) -> bool:
        """Return True if the known packing of a path keeps a limit."""
        return bool((self.anchored[list(path.arcs)] <= limit).all())

    def restore(self, path: Path, crowded: Sequence[bool], limit: int) -> bool:
        """Let arcs of a path take as much as is known to do; return False if all do so already.

        They are those of more than a limit that are `crowded`, or else all of more than the limit.
        """
        arcs = np.array([a for a in path.arcs if self.own[a] >= 0], np.int64)
        more = self.anchored[arcs] > limit
        near = more & np.array(crowded, bool)
        arcs = arcs[near if near.any() else more]
        self.arcs.load[arcs] = self.anchored[arcs]
        return len(arcs) > 0

    def resolved(self, path: Path) -> tuple[Path, tuple[bool, ...]]:
        """Return a path as one of the network, with the directions of its stages."""
        arcs = [a for a in path.arcs if self.own[a] >= 0]
        own = tuple(self.own[arcs].tolist())
        load = int(self.net.arcs.load[list(own)].max(initial=0))
        ways = [bool(self.way[a]) for a in arcs if self.net.what[self.own[a], 1] >= 0]
        return replace(path, arcs=own, load=min(load, path.load)), tuple(ways)


def sides(net: Network, clock: Clock) -> Sides:
    """Return the arcs of a network by ends of the slab, with the loads of known packings."""
    is_stage = net.what[:, 1] >= 0
    runs = np.array([len(x.ops) for x in net.stages], np.int64)[net.what[is_stage, 0]]
    is_open = net.arcs.load < OUT_OF_REACH
    if (runs * net.counts[net.what[is_stage, 1]]).sum() <= MOST_RUNS:
        # An arc that another one beats may have a better packing.
        is_open[:] = True
    is_stage &= is_open
    stage, count = net.what[is_stage].T
    wanted = np.zeros((len(net.stages), len(net.counts)), bool)
    wanted[stage, count] = True
    share = clock.share(MEASURE_SHARE)
    figures = anchored(net.lattice, net.stages, net.counts, share, wanted)
    columns = slice(FIGURES.down, FIGURES.up + 1)
    more = figures[stage, count, columns] - net.figures[stage, count, columns]
    loads = net.ways.copy()
    # Stages that time left out are not measured.
    loads[is_stage] += np.where(
        figures[stage, count, columns] > 0, np.maximum(more, 0), OUT_OF_REACH
    )
    arcs, number = net.arcs, np.flatnonzero(is_open)
    stays = _stays(net)[is_open]
    tables = [
        _rows(net, arcs_, way, way if same else 1 - way, loads[arcs_, way])
        for way in range(2)
        for same, arcs_ in ((False, number[~stays]), (True, number[stays]))
    ]
    # A small op may leave its data at the same end, beyond what it reads.
    small = np.flatnonzero(is_open & ~is_stage)
    tables += [_rows(net, small, way, way, 2 * net.ways[small, 0]) for way in range(2)]
    last = 2 * len(arcs.ptr) - 1
    zero = [(0, 1), (0, 2), (last - 2, last), (last - 1, last)]
    tables.append(np.array([(a, b, 0, 0, 0, -1, 0, 0) for a, b in zero], np.int64))
    table = np.concatenate(tables)
    table = table[np.lexsort((table[:, 3], table[:, 0], table[:, 1]))]
    ptr = np.searchsorted(table[:, 1], np.arange(last + 2))
    start, _, load, extra, tail, own, way, live = (x.copy() for x in table.T)
    return Sides(net, Arcs(ptr, start, load, extra, tail), own, way, load.copy(), live)


def _stays(net: Network) -> BoolArray:
    """Return the ops as they are with an input that lives on and is larger than the result."""
    graph, positions = net.lattice.rows.graph, net.lattice.positions
    assert positions is not None
    spans = {span.buffer: span for span in net.lattice.spans}
    found = np.zeros(len(net.what), bool)
    for arc in np.flatnonzero(net.what[:, 1] < 0).tolist():
        op, rest = graph.ops[net.what[arc, 0]], ~positions[net.ends[arc]]
        made = max((graph.buffers[b].size for b in op.writes), default=0)
        own = (spans[b] for b in {graph.roots[b] for b in op.reads} if b in spans)
        found[arc] = any(x.size > made and (x.kept or x.users & rest) for x in own)
    return found


def _rows(net: Network, arcs: IntArray, begin: int, end: int, loads: IntArray) -> IntArray:
    """Return arcs between two ends of the slab.

    Columns are start, end, load, extra, tail, number, way and live bytes.
    """
    own = net.arcs
    return np.column_stack(
        (
            2 * own.start[arcs] + 1 + begin,
            2 * net.ends[arcs] + 1 + end,
            loads,
            own.extra[arcs],
            own.tail[arcs],
            arcs,
            np.full(len(arcs), begin),
            np.where(begin == end, loads, net.ways[arcs, begin]),
        )
    )
