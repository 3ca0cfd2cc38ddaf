"""Anchored bytes of stages in bands: those of one way to pack a stage.

Inputs lie at one end of the slab, the result at the other, and what a band makes lies next to
either, in turn. So the bytes are enough for the stage, and its result lies where the next stage
wants its input. Live bytes are those of :mod:`optsched.solver.tiling.loads`.

Example: bands run downwards, X dies from its low end, and `a` and `b` are made from it.

    | Y grows -> | b    free    a | <- X dies |
"""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import inner, kernel
from optsched.solver.tiling.kernels import (
    StageArrays,
    clear_rows,
    find_rows,
    is_direct,
    made_size,
    mark_inputs,
    note_last_uses,
    read_rows,
    result_bytes,
    rows_bytes,
    run_bytes,
)


@kernel
def anchored_loads(
    arrays: StageArrays,
    ptr: IntArray,
    ops: IntArray,
    dying_ptr: IntArray,
    dying: IntArray,
    counts: IntArray,
    first: int,
    found: IntArray,
) -> None:
    """Write the anchored bytes of stages to `found`, shape `(stages, counts, 5)`, by direction.

    Those that are negative there are left out. The other arguments are those of
    :func:`optsched.solver.tiling.loads.stage_loads`; groups need not be neighbors.
    """
    most = widest = np.int64(1)
    for t in range(len(ptr) - 1):
        most = max(most, ptr[t + 1] - ptr[t])
    buffers = arrays.buffers.shape[1]
    for v in range(arrays.ops.shape[1]):
        widest = max(widest, arrays.ops[9, v] - arrays.ops[8, v])
    bands = counts.max()
    # By band and place in the stage: rows of each input, rows made.
    given = np.zeros((bands, most, widest, 2), np.int64)
    made = np.zeros((bands, most, 2), np.int64)
    fits = np.zeros(most, np.int64)
    need = np.zeros((buffers, 2), np.int64)
    # By buffer: place in the stage of the op that makes it, or -1; edges of the rows that are read;
    # window of the rows that are still to be read.
    maker = np.full(buffers, -1, np.int64)
    edges = np.zeros((buffers, 2), np.int64)
    window = np.zeros((buffers, 2), np.int64)
    dies = np.zeros(buffers, np.int64)
    # By place: the last op that reads what the op makes.
    until = np.zeros(most, np.int64)
    # By step of a band: bytes of inputs; end and side of what the step makes; and the steps whose
    # results live.
    places = np.zeros((4, most + 2), np.int64)
    for row in range(found.shape[0]):
        stage = ops[ptr[first + row] : ptr[first + row + 1]]
        for k in range(len(stage)):
            maker[arrays.ops[2, stage[k]]] = k
        inputs = dying[dying_ptr[first + row] : dying_ptr[first + row + 1]]
        mark_inputs(inputs, dies, True)
        note_last_uses(arrays, stage, maker, until)
        for c in range(len(counts)):
            if found[row, c, 0] < 0:
                continue
            fits[:] = 1
            for band in range(counts[c]):
                find_rows(arrays, stage, band, counts[c], maker, need, given, made, fits)
            find_edges(arrays, stage, counts[c], given, edges)
            for way in range(2):
                found[row, c, way] = fullest(
                    arrays, stage, counts[c], way, dies, edges, given, made, window, until, places
                )
        for v in stage:
            maker[arrays.ops[2, v]] = -1
        mark_inputs(inputs, dies, False)


@inner
def find_edges(
    arrays: StageArrays, stage: IntArray, count: int, given: IntArray, edges: IntArray
) -> None:
    """Write the edges of the rows that are read of each buffer."""
    clear_rows(arrays, stage, edges)
    for band in range(count):
        for k in range(len(stage)):
            for i in range(arrays.ops[8, stage[k]], arrays.ops[9, stage[k]]):
                b, j = arrays.maps[0, i], i - arrays.ops[8, stage[k]]
                edges[b, 0] = min(edges[b, 0], given[band, k, j, 0])
                edges[b, 1] = max(edges[b, 1], given[band, k, j, 1])


@inner
def fullest(
    arrays: StageArrays,
    stage: IntArray,
    count: int,
    way: int,
    dies: IntArray,
    edges: IntArray,
    given: IntArray,
    made: IntArray,
    window: IntArray,
    until: IntArray,
    places: IntArray,
) -> int:
    """Return the most anchored bytes of the bands; `way` is 0 from the first, 1 from the last."""
    top = len(stage) - 1
    height = arrays.buffers[0, arrays.ops[2, stage[top]]]
    clear_rows(arrays, stage, window)
    inputs = enough = np.int64(0)
    for turn in range(count):
        # The band that runs last comes first here.
        band = turn if way else count - 1 - turn
        result = result_bytes(arrays, stage[top], band, count, way)
        own = rows_bytes(arrays, stage[top], band, count)
        direct = is_direct(band, count, height, made[band, top])
        places[0, top + 1] = inputs
        for k in range(top, -1, -1):
            inputs += read_rows(arrays, stage[k], given[band, k], dies, edges, window)
            places[0, k] = inputs
        bytes_ = np.int64(1) << 60
        for rule in range(3):
            other = anchored_bytes(
                arrays, stage, made[band], result, own, direct, until, places, rule
            )
            bytes_ = min(bytes_, np.int64(other))
        enough = max(enough, bytes_)
    return int(enough)


@inner
def anchored_bytes(
    arrays: StageArrays,
    stage: IntArray,
    made: IntArray,
    result: int,
    own: int,
    direct: bool,
    until: IntArray,
    places: IntArray,
    rule: int,
) -> int:
    """Return the bytes of a band if what it makes lies next to the result or the inputs.

    Sides alternate from either one (`rule` 0 and 1), or the nearer one is taken (2).
    """
    top, most, side = len(stage) - 1, 0, rule % 2
    alive = 0
    for k in range(top + (1 if direct else 2)):
        # The step after the last op copies the good rows into the result.
        low = result + own if k == top + (0 if direct else 1) else result
        high = places[0, k]
        kept = 0
        for i in range(alive):
            j = places[3, i]
            if until[j] >= k or j == top:
                places[3, kept] = j
                kept += 1
                if places[2, j]:
                    high = max(high, places[1, j])
                else:
                    low = max(low, places[1, j])
        alive = kept
        scratch = 0
        if k <= top:
            v = stage[k]
            scratch = run_bytes(arrays, v, made[k])
            if k < top or not direct:
                size = made_size(arrays, v, made[k])
                # The rows of the result that are written while it lives.
                is_late = until[k] >= top if direct else k == top
                start = max(low, result + own) if is_late else low
                side = (k + rule) % 2 if rule < 2 else (1 - side if start == low else 1)
                places[2, k] = side
                places[3, alive] = k
                alive += 1
                if side:
                    high += size
                    places[1, k] = high
                else:
                    low = start + size
                    places[1, k] = low
        most = max(most, low + high + scratch)
    return most
