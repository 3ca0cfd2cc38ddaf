"""Loads of stages in bands: most live bytes, multiplications and added ops, for all counts.

For a stage and a count of bands, the kernel goes through the bands from the last rows to the first,
and back through the ops of each, to find the rows that every run is given and makes
(:func:`optsched.model.kernels.bands.band_rows`). Then it goes through the runs from the last one to
the first, once per direction. Inputs that die in the stage have a window: the hull of the rows that
this run and later ones read. The result has the rows of the bands that have run. What a band makes
lives as a whole from the run that makes it to the last one that reads it.

The sum of these bytes is that of the live pieces of the tiled graph
(:mod:`optsched.model.tiling`), up to buffers that are live during the whole stage, which are added
by the caller.

The same pass gives *anchored* bytes: those of one way to pack the stage. Inputs lie at one end of
the slab, the result at the other, and what a band makes lies next to either, in turn. So the bytes
are enough for the stage, and its result lies where the next stage wants its input.

Example: bands run downwards, X dies from its low end, and `a` and `b` are made from it.

    | Y grows -> | b    free    a | <- X dies |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.kernels.bands import band_rows
from optsched.runtime.kernel import inner, kernel


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


@kernel
def stage_loads(
    arrays: StageArrays,
    ptr: IntArray,
    ops: IntArray,
    dying_ptr: IntArray,
    dying: IntArray,
    counts: IntArray,
    first: int,
    anchored: bool,
    found: IntArray,
) -> None:
    """Write the figures of stages with several counts of bands to `found`.

    Parameters
    ----------
    arrays
        The row maps.
    ptr, ops
        Stage `t` has the ops `ops[ptr[t]:ptr[t + 1]]`, in the order in which a band runs them.
    dying_ptr, dying
        In stage `t` the inputs `dying[dying_ptr[t]:dying_ptr[t + 1]]` are read for the last time;
        -1 - b stands for buffer b if ops outside of the stage have read it before.
    counts
        Numbers of bands.
    first
        Stages are measured from this one on, as many as `found` has rows.
    anchored
        True for anchored bytes in place of live bytes, where `found` is not negative.
    found
        Shape `(stages, counts, 5)`: the figures (:class:`Measured`).
    """
    most = np.int64(1)
    for t in range(len(ptr) - 1):
        most = max(most, ptr[t + 1] - ptr[t])
    buffers = arrays.buffers.shape[1]
    widest = np.int64(1)
    for v in range(arrays.ops.shape[1]):
        widest = max(widest, arrays.ops[9, v] - arrays.ops[8, v])
    bands = counts.max()
    # By band and place in the stage: rows of each input, rows made.
    given = np.zeros((bands, most, widest, 2), np.int64)
    made = np.zeros((bands, most, 2), np.int64)
    need = np.zeros((buffers, 2), np.int64)
    # By buffer: place in the stage of the op that makes it, or -1; edges of the rows that are read;
    # window of the rows that are still to be read.
    maker = np.full(buffers, -1, np.int64)
    edges = np.zeros((buffers, 2), np.int64)
    window = np.zeros((buffers, 2), np.int64)
    dies = np.zeros(buffers, np.int64)
    change = np.zeros(most + 2, np.int64)
    # By place: the last op that reads what the op makes.
    until = np.zeros(most, np.int64)
    # By step of a band: bytes of inputs; end and side of what the step makes.
    places = np.zeros((3, most + 2), np.int64)
    for row in range(found.shape[0]):
        stage = ops[ptr[first + row] : ptr[first + row + 1]]
        for k in range(len(stage)):
            maker[arrays.ops[2, stage[k]]] = k
        for b in dying[dying_ptr[first + row] : dying_ptr[first + row + 1]]:
            dies[b if b >= 0 else -1 - b] = 1 if b >= 0 else 2
        note_last_uses(arrays, stage, maker, until)
        last = arrays.ops[2, stage[-1]]
        for c in range(len(counts)):
            count = counts[c]
            wanted = not anchored or found[row, c, 0] >= 0
            possible = wanted and count <= arrays.buffers[0, last]
            for k in range(count):
                if possible:
                    possible = find_rows(arrays, stage, k, count, maker, need, given, made)
            if not possible:
                found[row, c, 0] = found[row, c, 1] = -1
                continue
            figures = found[row, c]
            count_rows(arrays, stage, count, maker, given, made, edges, figures)
            for way in range(2):
                live, enough = fullest(
                    arrays,
                    stage,
                    count,
                    way,
                    dies,
                    edges,
                    given,
                    made,
                    window,
                    until,
                    change,
                    places,
                    anchored,
                )
                figures[way] = enough if anchored else live
        for v in stage:
            maker[arrays.ops[2, v]] = -1
        for b in dying[dying_ptr[first + row] : dying_ptr[first + row + 1]]:
            dies[b if b >= 0 else -1 - b] = 0


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
) -> bool:
    """Find the rows of each run of a band; return False if a run is impossible."""
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
                return False
            start, end = begin, begin + rows
            given[band, k, j, 0], given[band, k, j, 1] = low, high
            if maker[b] >= 0:
                if need[b, 0] < 0:
                    need[b, 0], need[b, 1] = low, high
                else:
                    need[b, 0], need[b, 1] = min(need[b, 0], low), max(need[b, 1], high)
        made[band, k, 0], made[band, k, 1] = start, end
    return True


@inner
def count_rows(
    arrays: StageArrays,
    stage: IntArray,
    count: int,
    maker: IntArray,
    given: IntArray,
    made: IntArray,
    edges: IntArray,
    figures: IntArray,
) -> None:
    """Write multiplications, slices and tensors, and the edges of the rows that are read."""
    cost = slices = tensors = 0
    top = len(stage) - 1
    for k in range(len(stage)):
        for i in range(arrays.ops[8, stage[k]], arrays.ops[9, stage[k]]):
            edges[arrays.maps[0, i], 0], edges[arrays.maps[0, i], 1] = 1 << 60, 0
    height = arrays.buffers[0, arrays.ops[2, stage[top]]]
    for band in range(count):
        for k in range(len(stage)):
            v = stage[k]
            cost += arrays.ops[3, v] * (made[band, k, 1] - made[band, k, 0])
            tensors += 1
            for i in range(arrays.ops[8, v], arrays.ops[9, v]):
                b, j = arrays.maps[0, i], i - arrays.ops[8, v]
                low, high = given[band, k, j, 0], given[band, k, j, 1]
                edges[b, 0], edges[b, 1] = min(edges[b, 0], low), max(edges[b, 1], high)
                whole = low == 0 and high == arrays.buffers[0, b]
                if maker[b] >= 0:
                    m = maker[b]
                    whole = low == made[band, m, 0] and high == made[band, m, 1]
                if arrays.maps[1, i] > 0 and not whole:
                    slices += 1
        low, high = band * height // count, (band + 1) * height // count
        if made[band, top, 0] != low or made[band, top, 1] != high:
            slices += 1
    figures[2], figures[3], figures[4] = cost, slices, tensors


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
    change: IntArray,
    places: IntArray,
    anchored: bool,
) -> tuple[int, int]:
    """Return the most live bytes of the runs, and the anchored ones if wanted.

    `way` is 0 from the first band, 1 from the last.
    """
    top = len(stage) - 1
    y = arrays.ops[2, stage[top]]
    height, width, size = arrays.buffers[0, y], arrays.buffers[1, y], arrays.buffers[2, y]
    unit = arrays.rounding
    for k in range(top + 1):
        for i in range(arrays.ops[8, stage[k]], arrays.ops[9, stage[k]]):
            window[arrays.maps[0, i], 0], window[arrays.maps[0, i], 1] = 1 << 60, 0
    most = inputs = enough = 0
    for turn in range(count):
        # The band that runs last comes first here.
        band = turn if way else count - 1 - turn
        low, high = band * height // count, (band + 1) * height // count
        # With the last row come the bytes that round the result up.
        before = size - high * width if high < height else 0
        result = before if way else low * width
        own = (size if high == height else high * width) - low * width
        direct = made[band, top, 0] == low and made[band, top, 1] == high
        here = made_bytes(arrays, stage, band, direct, made, until, change)
        places[0, top + 1] = inputs
        if not direct:
            # The step that copies the good rows; all that the band read is dead.
            rows = made[band, top, 1] - made[band, top, 0]
            bytes_ = (rows * width + unit - 1) // unit * unit
            most = max(most, inputs + result + own + bytes_)
        for k in range(top, -1, -1):
            v = stage[k]
            inputs += read_rows(arrays, v, given[band, k], dies, edges, window)
            places[0, k] = inputs
            rows = made[band, k, 1] - made[band, k, 0]
            scratch = arrays.ops[4, v] + arrays.ops[5, v] * rows
            scratch = (scratch + unit - 1) // unit * unit
            direct_bytes = own if direct and k == top else 0
            most = max(most, inputs + result + direct_bytes + here + scratch)
            here -= change[k]
        if anchored:
            bytes_ = np.int64(1) << 60
            for rule in range(3):
                bytes_ = min(
                    bytes_,
                    anchored_bytes(
                        arrays, stage, made[band], result, own, direct, until, places, rule
                    ),
                )
            enough = max(enough, bytes_)
    return most, enough


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
    top, unit, most, side = len(stage) - 1, arrays.rounding, 0, rule % 2
    for k in range(top + (1 if direct else 2)):
        # The step after the last op copies the good rows into the result.
        low = result + own if k == top + (0 if direct else 1) else result
        high = places[0, k]
        for j in range(k):
            if until[j] >= k or (j == top and k > top):
                if places[2, j]:
                    high = max(high, places[1, j])
                else:
                    low = max(low, places[1, j])
        scratch = 0
        if k <= top:
            v = stage[k]
            rows = made[k, 1] - made[k, 0]
            scratch = arrays.ops[4, v] + arrays.ops[5, v] * rows
            scratch = (scratch + unit - 1) // unit * unit
            if k < top or not direct:
                size = rows * arrays.buffers[1, arrays.ops[2, v]]
                size = (size + unit - 1) // unit * unit
                # The rows of the result that are written while it lives.
                is_late = until[k] >= top if direct else k == top
                start = max(low, result + own) if is_late else low
                side = (k + rule) % 2 if rule < 2 else (1 - side if start == low else 1)
                places[2, k] = side
                if side:
                    high += size
                    places[1, k] = high
                else:
                    low = start + size
                    places[1, k] = low
        most = max(most, low + high + scratch)
    return most


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
    top, unit, here = len(stage) - 1, arrays.rounding, 0
    for k in range(top + 2):
        change[k] = 0
    for k in range(top if direct else top + 1):
        v = stage[k]
        rows = made[band, k, 1] - made[band, k, 0]
        bytes_ = rows * arrays.buffers[1, arrays.ops[2, v]]
        bytes_ = (bytes_ + unit - 1) // unit * unit
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
