"""Loads that no packing of a stage meets: the slab of the stage alone takes their place.

*Proof.* Let a plan be given that runs a stage, and let A be the bytes of the buffers that live
during the whole of it. No buffer of the stage shares a byte with them, so closing up their bytes
leaves a packing of the stage alone, in a slab that is smaller by A. Offsets stay aligned if all
sizes are multiples of the alignment; otherwise the stage alone is packed without alignments. Hence
the slab of the plan is at least A plus the least slab of the stage alone.
"""

from __future__ import annotations

import numpy as np

from optsched.joint.oracle import portion
from optsched.model.packing_problem import PackingProblem
from optsched.model.parts import Gap, gaps_between
from optsched.model.places import places_problem
from optsched.model.sharing import Rectangle
from optsched.model.tiled import Stage, TiledKind, Tiling
from optsched.model.tiling import tiled_graph
from optsched.runtime.clock import Clock
from optsched.solver.pack import pack
from optsched.solver.tiling.arcs import Network
from optsched.solver.tiling.kernels import FIGURES
from optsched.solver.tiling.paths import Path
from optsched.solver.tiling.realize import Step, order_of

SECONDS = 1.0
"""Time for the packing of one stage."""


def refine(net: Network, path: Path, clock: Clock) -> bool:
    """Raise the loads of the stages of a path that no packing meets; return True if any rose."""
    rose = False
    for arc in path.arcs:
        stage, count = net.what[arc].tolist()
        for way in range(2) if count >= 0 else ():
            if (stage, count, way) in net.raised or net.ways[arc, way] > path.load:
                continue
            if clock.expired():
                return rose
            by = _gap(net, stage, count, way, clock)
            net.raise_load(stage, count, way, by)
            rose |= by > 0
    return rose


def _gap(net: Network, stage: int, count: int, way: int, clock: Clock) -> int:
    """Return the bytes by which the least slab of a stage alone exceeds its load."""
    rows = net.lattice.rows
    if any(rows.waiting_bytes[b] < rows.graph.buffers[b].size for b in net.stages[stage].dead):
        # Rows that no op reads lie beside others in the stage alone, but may be dead in a plan.
        return 0
    problem, held = stage_problem(net, stage, count, way)
    result = pack(problem, limits=portion(clock, SECONDS, clock.limits.seed))
    result.stop_reason.raise_if_interrupted()
    load = int(net.figures[stage, count, (FIGURES.down, FIGURES.up)[way]])
    # A runtime that places workspace around whole tensors has more live than the load counts.
    return max(0, result.slab_bound + held - load)


def stage_problem(net: Network, stage: int, count: int, way: int) -> tuple[PackingProblem, int]:
    """Return the packing problem of a stage alone, without what lives during the whole of it.

    The second value is the bytes of inputs that die in the stage, but live during the whole of it.
    """
    rows = net.lattice.rows
    variant = net.stages[stage]
    own = Stage(variant.ops, int(net.counts[count]), bool(way))
    tiled = tiled_graph(rows, Tiling((own,)))
    before = variant.positions[0]
    after = (1 << len(rows.graph.ops)) - 1 & ~(before | variant.mask)
    steps: list[Step] = [(v, (), 0) for v in net.lattice.listed(before)]
    first = len(steps)
    steps += [(-1, variant.ops, 0), *((v, (), 0) for v in net.lattice.listed(after))]
    problem, ids = places_problem(tiled, order_of(tiled, steps))
    buffers = {x.place: x.buffer for x in tiled.tensors if not x.shift}
    held = 0
    runs = [op for op in tiled.ops if op.stage == 0 and op.kind != TiledKind.JOIN]
    last = first + len(runs)
    kept: list[tuple[int, int, list[Rectangle]]] = []
    is_cut = False
    for i in range(len(problem)):
        table = [
            (max(a, first), min(b, last), low, high)
            for a, b, low, high in problem.rectangles(i)
            if a < last and b > first
        ]
        size = int(problem.size[i])
        if table and table != [(first, last, 0, size)]:
            # Rows that are dead during the whole of the stage take no bytes of it.
            low, high = min(x[2] for x in table), max(x[3] for x in table)
            is_cut |= high - low < size
            kept.append((i, high - low, [(a, b, c - low, d - low) for a, b, c, d in table]))
        elif table and buffers.get(int(ids[i])) in variant.dead:
            held += size
    gaps: list[tuple[Gap, ...]] = [
        gaps_between(table[0][0], table[-1][1], size, table) for _, size, table in kept
    ]
    rows_ = np.array([i for i, *_ in kept], np.int64)
    alone = PackingProblem(
        names=[problem.names[i] for i in rows_.tolist()],
        start=[table[0][0] for *_, table in kept],
        end=[table[-1][1] for *_, table in kept],
        size=[size for _, size, _ in kept],
        alignment=problem.alignment[rows_] if _is_divisible(problem) and not is_cut else (),
        gaps=gaps if any(gaps) else (),
        name=problem.name,
    )
    return alone, held


def _is_divisible(problem: PackingProblem) -> bool:
    """Return True if closing up the bytes of any buffer keeps the alignment of the others."""
    return not (problem.size % problem.alignment.max()).any()
