"""Candidate stages at the positions where they can run, with the inputs that die in them.

Example: an input that another op reads as well dies in a stage that runs after that op, and lives
on in the same stage before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optsched.model.arrays import BoolArray, IntArray
from optsched.model.rows import RowOp, Rows
from optsched.runtime.clock import Clock
from optsched.solver.tiling.anchored import anchored_loads
from optsched.solver.tiling.candidates import Candidates, packed, stage_arrays
from optsched.solver.tiling.kernels import FIGURES
from optsched.solver.tiling.lattice import Lattice
from optsched.solver.tiling.loads import stage_loads

BATCH = 200
"""Variants measured between two looks at the clock."""
WORK = 100
"""Runs of an op in a band per unit of work."""
READERS = 4
"""Ops of a stage, as a rule, up to the last one that reads an input."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A stage, with positions at which it can run and at which the same inputs die."""

    ops: tuple[int, ...]
    """Op ids in the order in which bands run them."""
    dying: tuple[int, ...]
    """Buffers that the stage is the last to read; -1 - b for a buffer b that others read before, or
    with rows that no op reads."""
    positions: tuple[int, ...]
    """The positions."""
    mask: int
    """The ops as bits."""

    @property
    def dead(self) -> tuple[int, ...]:
        """Ids of the buffers that the stage is the last to read."""
        return tuple(b if b >= 0 else -1 - b for b in self.dying)


def variants(lattice: Lattice, stages: Candidates) -> tuple[Variant, ...]:
    """Return the stages at their positions."""
    found = []
    for stage in stages.stages:
        ops = tuple(sorted(stage, key=lattice.place.__getitem__))
        own = sum(1 << v for v in ops)
        # Inputs that the stage may be the last to read, with their other users.
        inputs = [
            (span.buffer, span.users & ~own, span.waiting < span.size)
            for span in lattice.spans
            if span.users & own and not (span.made & own or span.kept)
        ]
        groups: dict[tuple[int, ...], list[int]] = {}
        for position in lattice.starts(ops):
            dying = tuple(
                -1 - b if others or dead else b
                for b, others, dead in inputs
                if not others & ~position
            )
            groups.setdefault(dying, []).append(position)
        found += [Variant(ops, dying, tuple(rows), own) for dying, rows in groups.items()]
    return tuple(found)


def counts_of(rows: Rows, bands: int) -> IntArray:
    """Return numbers of bands up to `bands`, but not above the rows of any result."""
    tallest = (rows.heights[op.output] for op in rows.ops if isinstance(op, RowOp))
    return np.arange(2, min(bands, max(tallest, default=0)) + 1)


def measured(
    lattice: Lattice, rows: tuple[Variant, ...], counts: IntArray, clock: Clock
) -> tuple[IntArray, bool]:
    """Return the figures of variants with all counts, and False if time ended before the last."""
    found = np.full((len(rows), len(counts), len(FIGURES)), -1, np.int64)
    # Stages with the same last op are measured together.
    turn = sorted(range(len(rows)), key=lambda t: rows[t].ops[-1])
    part = np.full_like(found, -1)
    done = True
    if len(rows) and len(counts):
        packed_rows = _packed([rows[t] for t in turn])
        arrays, listed = stage_arrays(lattice.rows), np.array([*lattice.place], np.int64)
        for first in range(0, len(found), BATCH):
            if clock.expired():
                done = False
                break
            here = part[first : first + BATCH]
            work = (len(here) * READERS + len(listed)) * int(counts.sum())
            run = stage_loads.for_work(work)
            run(arrays, listed, *packed_rows, counts, first, here)
            clock.spend(work // WORK)
    found[turn] = part
    return found, done


def anchored(
    lattice: Lattice,
    rows: tuple[Variant, ...],
    counts: IntArray,
    clock: Clock,
    wanted: BoolArray,
) -> IntArray:
    """Return the anchored bytes of variants, shape `(stages, counts, 5)`; -1 if not `wanted`.

    `wanted` has the shape `(stages, counts)`. Those that time left out are 0.
    """
    found = np.full((len(rows), len(counts), len(FIGURES)), -1, np.int64)
    found[wanted] = 0
    if not len(rows) or not len(counts):
        return found
    arrays, packed_rows = stage_arrays(lattice.rows), _packed(rows)
    sizes = np.diff(packed_rows[0]) * (wanted * counts).sum(axis=1)
    for first in range(0, len(found), BATCH):
        if clock.expired():
            break
        work = int(sizes[first : first + BATCH].sum())
        run = anchored_loads.for_work(work)
        run(arrays, *packed_rows, counts, first, found[first : first + BATCH])
        clock.spend(work // WORK)
    return found


def _packed(rows: Sequence[Variant]) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    return *packed([row.ops for row in rows]), *packed([row.dying for row in rows])
