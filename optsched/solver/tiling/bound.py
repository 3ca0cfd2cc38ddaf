"""A lower bound on the head of all tilings in any order: the op that stands in the way.

Every op runs as it is or in a stage. As it is, its own buffers are live, and those that an earlier
op makes for a later one. In a stage, the load of the stage with its best number of bands is live,
with an input counted by its window if it may die there, and again what an earlier op makes for a
later one. So no tiling has a smaller head than the least of these for any op.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.model.rows import Rows
from optsched.runtime.clock import Clock
from optsched.solver.tiling.candidates import candidates
from optsched.solver.tiling.kernels import FIGURES
from optsched.solver.tiling.lattice import Lattice
from optsched.solver.tiling.variants import Variant, counts_of, measured


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Bytes that no tiling gets below, and the op that needs them; -1 if not known."""

    bound: int
    op: int


def find_obstacle(rows: Rows, bands: int, clock: Clock) -> Obstacle:
    """Return the op that needs most bytes, as it is or in any stage."""
    lattice = Lattice(rows)
    count = len(rows.graph.ops)
    after = _after(lattice)
    least = [_needed(lattice, after, [v]) for v in range(count)]
    found = candidates(rows)
    if not found.complete:
        # Stages that were not listed hold unknown ops; only kept bytes are certain.
        return Obstacle(lattice.live(0), -1)
    stages = tuple(_optimistic(lattice, after, ops) for ops in found.stages)
    figures, done = measured(lattice, stages, counts_of(rows, bands), clock)
    if not done:
        return Obstacle(lattice.live(0), -1)
    for stage, rows_ in zip(stages, figures, strict=True):
        loads = rows_[:, : FIGURES.cost].min(axis=1)
        loads = loads[loads >= 0]
        if len(loads):
            across = _across(lattice, after, stage.mask)
            held = sum(size for b, size in across.items() if b not in stage.dead)
            for v in stage.ops:
                least[v] = min(least[v], held + int(loads.min()))
    op = int(np.argmax(least)) if least else -1
    return Obstacle(least[op] if least else 0, op)


def _after(lattice: Lattice) -> list[int]:
    """Return by op the ops that must run after it, as bits."""
    found = [0] * len(lattice.needs)
    for v, needs in enumerate(lattice.needs):
        for u in range(needs.bit_length()):
            if needs >> u & 1:
                found[u] |= 1 << v
    return found


def _across(lattice: Lattice, after: list[int], own: int) -> dict[int, int]:
    """Return bytes by buffer of what is live all the time while some ops run, in any order."""
    before = later = 0
    for v in lattice.listed(own):
        before |= lattice.needs[v]
        later |= after[v]
    before, later = before & ~own, later & ~own
    return {
        span.buffer: span.least
        for span in lattice.spans
        # Made before, as inputs are, and read after or kept.
        if not span.made & ~before and (span.kept or span.users & later)
    }


def _needed(lattice: Lattice, after: list[int], ops: list[int]) -> int:
    """Return bytes that are live while an op runs as it is, in any order."""
    graph, (v,) = lattice.rows.graph, ops
    live = _across(lattice, after, 1 << v)
    for span in lattice.spans:
        if span.users >> v & 1 or span.made >> v & 1:
            live[span.buffer] = span.size
    # Buffers that no op reads have no span of their own otherwise.
    for b in graph.ops[v].writes:
        if not graph.buffers[b].external:
            live[graph.roots[b]] = graph.buffers[graph.roots[b]].size
    return sum(live.values())


def _optimistic(lattice: Lattice, after: list[int], ops: tuple[int, ...]) -> Variant:
    """Return a stage in which every input dies that may die in it in some order."""
    own = sum(1 << v for v in ops)
    later = 0
    for v in ops:
        later |= after[v]
    dying = tuple(
        -1 - span.buffer if span.users & ~own or span.waiting < span.size else span.buffer
        for span in lattice.spans
        if span.users & own and not span.made & own and not (span.kept or span.users & later & ~own)
    )
    return Variant(ops, dying, (), own)
