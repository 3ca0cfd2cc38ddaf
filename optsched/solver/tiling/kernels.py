"""Arrays of row maps, and the steps that kernels of stages share: rows of runs, and their bytes."""

from __future__ import annotations

from typing import NamedTuple

from optsched.model.arrays import IntArray
from optsched.model.kernels.bands import band_rows
from optsched.runtime.kernel import inner


class StageArrays(NamedTuple):
    """Row maps as flat arrays, int64; ops and buffers by id, maps one op after another."""

    ops: IntArray
    """Shape `(10, ops)`: rule, more, output, cost, scratch, scratch per row, the steps of views of
    inputs and output, and where the op's maps begin and end."""
    maps: IntArray
    """Shape `(5, maps)`: buffer, window (0: the whole buffer is read), stride, pad, up."""
    buffers: IntArray
    """Shape `(3, buffers)`: rows, bytes of a row, size."""
    rounding: int


class Measured(NamedTuple):
    """Columns of the figures of a stage with a count of bands."""

    down: int = 0
    """Most live bytes if the first band runs first; -1 if some band is impossible."""
    up: int = 1
    cost: int = 2
    """Multiplications."""
    slices: int = 3
    tensors: int = 4
    """Tensors in the slab that the bands make, without those that slices or joins make."""


FIGURES = Measured()


@inner
def is_direct(band: int, count: int, height: int, made: IntArray) -> bool:
    """Return True if the last op of a band makes the rows of the result, and no others."""
    low, high = band * height // count, (band + 1) * height // count
    return bool(made[0] == low and made[1] == high)


@inner
def rounded(arrays: StageArrays, bytes_: int) -> int:
    """Return bytes as the runtime reserves them."""
    unit = arrays.rounding
    return int((bytes_ + unit - 1) // unit * unit)


@inner
def made_size(arrays: StageArrays, v: int, made: IntArray) -> int:
    """Return the bytes of the rows that a run makes."""
    return rounded(arrays, (made[1] - made[0]) * arrays.buffers[1, arrays.ops[2, v]])


@inner
def mark_inputs(inputs: IntArray, dies: IntArray, marked: bool) -> None:
    """Mark the inputs that die: 1, or 2 if ops outside of the stage have read them before."""
    for b in inputs:
        dies[b if b >= 0 else -1 - b] = (1 if b >= 0 else 2) if marked else 0


@inner
def clear_rows(arrays: StageArrays, stage: IntArray, rows: IntArray) -> None:
    """Set the rows of all that a stage reads to none: they begin after their end."""
    for v in stage:
        for i in range(arrays.ops[8, v], arrays.ops[9, v]):
            rows[arrays.maps[0, i], 0], rows[arrays.maps[0, i], 1] = 1 << 60, 0


@inner
def result_bytes(arrays: StageArrays, v: int, band: int, count: int, way: int) -> int:
    """Return the bytes of the result of op `v` that the bands before one have made."""
    y = arrays.ops[2, v]
    height, width, size = arrays.buffers[0, y], arrays.buffers[1, y], arrays.buffers[2, y]
    high = (band + 1) * height // count
    # Upwards they are those below, downwards those above, with what rounds the result up.
    if way:
        return int(size - high * width if high < height else 0)
    return int(band * height // count * width)


@inner
def run_bytes(arrays: StageArrays, v: int, made: IntArray) -> int:
    """Return the bytes of workspace of a run."""
    bytes_ = arrays.ops[4, v] + arrays.ops[5, v] * (made[1] - made[0])
    # Most kernels have none, and a division is slow.
    return rounded(arrays, bytes_) if bytes_ else 0


@inner
def rows_bytes(arrays: StageArrays, v: int, band: int, count: int) -> int:
    """Return the bytes of the rows of a result that a band adds."""
    y = arrays.ops[2, v]
    height, width = arrays.buffers[0, y], arrays.buffers[1, y]
    low, high = band * height // count, (band + 1) * height // count
    # With the last row come the bytes that round the result up.
    return int((arrays.buffers[2, y] if high == height else high * width) - low * width)


@inner
def note_last_uses(arrays: StageArrays, stage: IntArray, maker: IntArray, until: IntArray) -> None:
    """Write the place of the last op that reads what each op of a stage makes."""
    for k in range(len(stage)):
        until[k] = k
        for i in range(arrays.ops[8, stage[k]], arrays.ops[9, stage[k]]):
            if maker[arrays.maps[0, i]] >= 0:
                until[maker[arrays.maps[0, i]]] = k


@inner
def find_rows(
    arrays: StageArrays,
    stage: IntArray,
    band: int,
    count: int,
    maker: IntArray,
    need: IntArray,
    given: IntArray,
    made: IntArray,
    fits: IntArray,
) -> None:
    """Find the rows of each run of a band; note ops that have an impossible run, or lead to one.

    `stage` are the ops of a stage or of a group; the last one makes the result. `maker` is the
    place in it of the op that makes a buffer, or -1. By place, `fits` is 0 for impossible ops.
    """
    last = arrays.ops[2, stage[-1]]
    height = arrays.buffers[0, last]
    for k in range(len(stage)):
        need[arrays.ops[2, stage[k]], 0] = -1
    need[last, 0], need[last, 1] = band * height // count, (band + 1) * height // count
    for k in range(len(stage) - 1, -1, -1):
        v = stage[k]
        y = arrays.ops[2, v]
        start, end = -1, -1
        for i in range(arrays.ops[8, v], arrays.ops[9, v]):
            b, j = arrays.maps[0, i], i - arrays.ops[8, v]
            if arrays.maps[1, i] == 0:
                given[band, k, j, 0], given[band, k, j, 1] = 0, max(1, arrays.buffers[0, b])
                continue
            if not fits[k]:
                break
            low, high, begin, rows = band_rows(
                arrays.ops[0, v],
                arrays.maps[1, i],
                arrays.maps[2, i],
                arrays.maps[3, i],
                arrays.maps[4, i],
                arrays.ops[1, v],
                arrays.buffers[0, b],
                need[y, 0],
                need[y, 1],
                arrays.ops[6, v],
                arrays.ops[7, v],
            )
            if rows == 0 or (start >= 0 and (start != begin or end != begin + rows)):
                fits[k] = 0
                break
            start, end = begin, begin + rows
            given[band, k, j, 0], given[band, k, j, 1] = low, high
            if maker[b] >= 0:
                if need[b, 0] < 0:
                    need[b, 0], need[b, 1] = low, high
                else:
                    need[b, 0], need[b, 1] = min(need[b, 0], low), max(need[b, 1], high)
        made[band, k, 0], made[band, k, 1] = start, end
        for i in range(arrays.ops[8, v], arrays.ops[9, v]):
            m = maker[arrays.maps[0, i]]
            if m >= 0 and not fits[k]:
                fits[m] = 0


@inner
def live_rows(
    arrays: StageArrays, b: int, window: IntArray, edges: IntArray, dies: IntArray
) -> int:
    """Return the bytes of an input in its window.

    Rows at the edges that are never read count, unless other ops read the input: theirs are dead.
    """
    if window[b, 1] == 0:
        return 0
    height, size = arrays.buffers[0, b], arrays.buffers[2, b]
    alone = dies[b] == 1
    low = 0 if alone and window[b, 0] == edges[b, 0] else window[b, 0] * arrays.buffers[1, b]
    high: int = window[b, 1] * arrays.buffers[1, b]
    if (alone and window[b, 1] == edges[b, 1]) or window[b, 1] >= height:
        high = size
    return high - low


@inner
def made_bytes(
    arrays: StageArrays,
    stage: IntArray,
    band: int,
    direct: bool,
    made: IntArray,
    until: IntArray,
    change: IntArray,
) -> int:
    """Return the bytes that a band has made when its last op runs; write the changes by op."""
    top, here = len(stage) - 1, 0
    for k in range(top + 2):
        change[k] = 0
    for k in range(top if direct else top + 1):
        bytes_ = made_size(arrays, stage[k], made[band, k])
        change[k] += bytes_
        change[until[k] + 1] -= bytes_
    for k in range(top + 1):
        here += change[k]
    return here


@inner
def read_rows(
    arrays: StageArrays,
    v: int,
    given: IntArray,
    dies: IntArray,
    edges: IntArray,
    window: IntArray,
) -> int:
    """Extend the windows of the inputs that die by the rows of a run; return the bytes added."""
    added = 0
    for i in range(arrays.ops[8, v], arrays.ops[9, v]):
        b, j = arrays.maps[0, i], i - arrays.ops[8, v]
        if dies[b]:
            added -= live_rows(arrays, b, window, edges, dies)
            window[b, 0] = min(window[b, 0], given[j, 0])
            window[b, 1] = max(window[b, 1], given[j, 1])
            added += live_rows(arrays, b, window, edges, dies)
    return added
