"""Loads tightened where the packing of a path fails, so that the next path has room there.

A path is chosen by the load of each stage. Its packing may need more bytes than that at some ops,
since a tensor that lives on cannot move: then arcs with these ops whose load is as large as that of
the path there are left out, and the next path has more room at these ops. Such paths are found for
plans alone; they prove nothing.

Example: of X, Y and Z, 100 bytes each, two live at a time. If Y lies in the middle of 200 bytes, Z
has no place. With the ops of Z in bands, Z grows where Y dies.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from optsched.model.plan import Plan
from optsched.model.tiled import TiledGraph
from optsched.solver.tiling.arcs import OUT_OF_REACH, Network
from optsched.solver.tiling.paths import Path, Paths
from optsched.solver.tiling.realize import crowded_arcs, steps_of
from optsched.solver.tiling.sides import Sides


def tighten(
    net: Network,
    path: Path,
    tiled: TiledGraph,
    plan: Plan,
    limit: int,
    by: int,
    sides: Sides | None = None,
) -> None:
    """Leave out arcs with ops at which a plan of a path has bytes above a limit.

    They have at least the load of the path there, less `by` bytes. They are those of the network,
    or of its `sides` if they are given.
    """
    ops, load = set[int](), 0
    crowded = crowded_arcs(net, path, tiled, plan, limit)
    for arc, (v, own, _), full in zip(path.arcs, steps_of(net, path), crowded, strict=True):
        if full:
            ops.update(own or (v,))
            load = max(load, int(net.ways[arc].min()))
    is_stage, listed = net.what[:, 1] >= 0, [*ops]
    holds = np.array([not ops.isdisjoint(x.ops) for x in net.stages], bool)
    near = np.isin(net.what[:, 0], listed) & ~is_stage
    near[is_stage] = holds[net.what[is_stage, 0]]
    loads = net.arcs.load
    if sides is not None:
        near, loads = near[sides.own] & (sides.own >= 0), sides.arcs.load
    loads[near & (loads >= load - by)] = OUT_OF_REACH


@contextmanager
def tightened(net: Network, paths: Paths) -> Iterator[None]:
    """Restore the loads, and the note of dropped labels, at the end."""
    load, dropped = net.arcs.load.copy(), paths.dropped
    try:
        yield
    finally:
        net.arcs.load[:], paths.dropped = load, dropped
