"""Candidate stages: all sets of row-local ops that make one tensor for other ops.

A stage is grown from the op that makes its result: an op may join if all that read what it makes
are in the stage. Every stage has a sequence in which its ops join like this, from the last one to
the first, so all are found, unless there are too many.

Example: in a chain `a b c` of row-local ops, the stages that end with `c` are `c`, `b c`, `a b c`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.rows import RowOp, Rows
from optsched.solver.tiling.kernels import StageArrays

MOST_STAGES, MOST_OF_LARGE = 20_000, 8_000
"""More candidates are not listed, and fewer of a large graph; answers then say so."""
LARGE = 400
"""Ops of a large graph, which needs the time for packing."""


@dataclass(frozen=True)
class Candidates:
    """Sets of ops that can run in bands."""

    stages: tuple[tuple[int, ...], ...]
    """Op ids of each, ascending."""
    complete: bool
    """False if there are more."""


def candidates(rows: Rows) -> Candidates:
    """Return the stages of a graph, small ones first."""
    graph = rows.graph
    most = MOST_STAGES if len(graph.ops) < LARGE else MOST_OF_LARGE
    users = users_of(rows)
    makers = graph.producers
    able = [isinstance(op, RowOp) for op in rows.ops]
    by_rows = [all(_maps(rows, v, b) for v in users[b]) for b in range(len(users))]
    waits: list[set[int]] = [set() for _ in graph.ops]
    for v, op in enumerate(rows.ops):
        if isinstance(op, RowOp):
            inner = {x.buffer for x in op.maps}
            rest = {b for b in (*graph.ops[v].reads, *graph.ops[v].uses) if b not in inner}
            for b in inner:
                u = makers[b]
                # A tensor that is used as a whole, or outside, is not an inner one.
                if u is not None and able[u] and graph.buffers[b].output is None:
                    waits[v].add(u)
            waits[v] -= {u for b in rest if (u := makers[b]) is not None}
    found: dict[frozenset[int], None] = {}
    level = [frozenset([v]) for v in range(len(graph.ops)) if able[v]]
    while level and len(found) + len(level) <= most:
        found.update(dict.fromkeys(level))
        grown: dict[frozenset[int], None] = {}
        for stage in level:
            for u in sorted({u for v in stage for u in waits[v]} - stage):
                out = rows.ops[u]
                assert isinstance(out, RowOp)
                if by_rows[out.output] and users[out.output] <= stage:
                    grown[stage | {u}] = None
        level = list(grown)
    return Candidates(tuple(tuple(sorted(x)) for x in found), not level)


def _maps(rows: Rows, v: int, b: int) -> bool:
    """Return True if an op reads a buffer by rows."""
    op = rows.ops[v]
    return isinstance(op, RowOp) and any(x.buffer == b for x in op.maps)


def users_of(rows: Rows) -> list[set[int]]:
    """Return the ops that read or use each buffer, by root."""
    graph = rows.graph
    users: list[set[int]] = [set() for _ in graph.buffers]
    for v, op in enumerate(graph.ops):
        for b in (*op.reads, *op.uses):
            users[graph.roots[b]].add(v)
    return users


def stage_arrays(rows: Rows) -> StageArrays:
    """Return the row maps as flat arrays."""
    graph = rows.graph
    ops = np.zeros((10, len(graph.ops)), np.int64)
    maps: list[tuple[int, int, int, int, int]] = []
    for v, op in enumerate(rows.ops):
        ops[8, v] = len(maps)
        if isinstance(op, RowOp):
            read = [x.buffer for x in op.maps]
            ops[:8, v] = (
                *(int(op.rule), op.more, op.output, op.cost, *op.scratch),
                *(rows.step(read), rows.step([op.output])),
            )
            maps += [(x.buffer, x.window, x.stride, x.pad, x.up) for x in op.maps]
            own = graph.ops[v]
            whole = dict.fromkeys((*own.reads, *own.uses))
            maps += [(b, 0, 1, 0, 1) for b in whole if b not in read]
        ops[9, v] = len(maps)
    table = np.array(maps, np.int64).reshape(-1, 5).T
    sizes = [0 if buffer.external else buffer.size for buffer in graph.buffers]
    buffers = np.array([rows.heights, rows.row_bytes, sizes], np.int64)
    return StageArrays(ops, np.ascontiguousarray(table), buffers, rows.rounding)


def packed(rows: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Return rows of numbers as one array, and where each begins."""
    ptr = np.cumsum([0, *map(len, rows)])
    return ptr, np.array([v for row in rows for v in row], np.int64)
