"""Loads of stages in bands: most live bytes, multiplications and added ops, for all counts.

For a count of bands, the kernel goes through the bands from the last rows to the first, and back
through the ops of each, to find the rows that every run is given and makes
(:func:`optsched.model.kernels.bands.band_rows`). Then it goes through the runs from the last one to
the first, once per direction. Inputs that die in the stage have a window: the hull of the rows that
this run and later ones read. The result has the rows of the bands that have run. What a band makes
lives as a whole from the run that makes it to the last one that reads it.

The sum of these bytes is that of the live pieces of the tiled graph
(:mod:`optsched.model.tiling`), up to buffers that are live during the whole stage, which are added
by the caller.

Stages with the same last op are a *group*. An op is in a stage only with all ops that read what it
makes, so in each stage of a group it makes the same rows. After the last op of a stage that reads
an input of the stage, all ops of the group are in the stage, and the same is live in each of these
stages, up to inputs and result. So the rows of a group and the fullest op from each op on are found
once, and a stage looks only at its ops up to the last one that reads an input.

Example: in a chain `a b c`, the group of `c` has the stages `c`, `b c` and `a b c`. What is live
while `c` runs is found once, and so are the rows of `a` and `b`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import inner, kernel
from optsched.solver.tiling.kernels import (
    StageArrays,
    clear_rows,
    find_rows,
    is_direct,
    made_bytes,
    made_size,
    mark_inputs,
    note_last_uses,
    read_rows,
    result_bytes,
    rows_bytes,
    run_bytes,
)


class Runs(NamedTuple):
    """Runs of the ops of a group with one count of bands, by place in the group; int64."""

    given: IntArray
    """Shape `(bands, ops, maps, 2)`: rows of each input."""
    made: IntArray
    """Shape `(bands, ops, 2)`: rows made."""
    fits: IntArray
    """Shape `(ops,)`: 0 if a run is impossible."""
    slices: IntArray
    """Shape `(2, ops, maps)`: slices of each input, if it is made in the stage, and otherwise."""
    edges: IntArray
    """Shape `(ops, maps, 2)`: first row that is read of each input, and the end of the last."""
    cost: IntArray
    """Shape `(ops,)`: multiplications."""
    live: IntArray
    """Shape `(bands, ops)`: what the band has made, with workspace and the rows of the result, at
    the fullest op from each place on."""


@kernel
def stage_loads(
    arrays: StageArrays,
    listed: IntArray,
    ptr: IntArray,
    ops: IntArray,
    dying_ptr: IntArray,
    dying: IntArray,
    counts: IntArray,
    first: int,
    found: IntArray,
) -> None:
    """Write the figures of stages with several counts of bands to `found`.

    `listed` are all ops, in the order in which bands run them. Stage `t` has the ops
    `ops[ptr[t]:ptr[t + 1]]`, in this order; stages of a group are neighbors. It is the last to read
    the inputs `dying[dying_ptr[t]:dying_ptr[t + 1]]`; -1 - b stands for buffer b if ops outside of
    the stage have read it before. `counts` are numbers of bands. Stages are measured from `first`
    on, as many as `found`, shape `(stages, counts, 5)`, has rows (:class:`Measured`).
    """
    buffers, total = arrays.buffers.shape[1], arrays.ops.shape[1]
    widest = np.int64(1)
    for v in range(total):
        widest = max(widest, arrays.ops[9, v] - arrays.ops[8, v])
    # Places in the group by op and by maker of a buffer, and places in the stage by those.
    place, spot = np.full(total, -1, np.int64), np.full(total, -1, np.int64)
    maker = np.full(buffers, -1, np.int64)
    group = np.zeros(total, np.int64)
    need = np.zeros((buffers, 2), np.int64)
    edges = np.zeros((buffers, 2), np.int64)
    window = np.zeros((buffers, 2), np.int64)
    dies = np.zeros(buffers, np.int64)
    change = np.zeros(total + 2, np.int64)
    until = np.zeros(total, np.int64)
    begin, bands = 0, counts.max()
    while begin < found.shape[0]:
        last = ops[ptr[first + begin + 1] - 1]
        end = begin + 1
        while end < found.shape[0] and ops[ptr[first + end + 1] - 1] == last:
            end += 1
        size = gather(
            arrays, listed, ops[ptr[first + begin] : ptr[first + end]], place, maker, group
        )
        own = group[:size]
        note_last_uses(arrays, own, maker, until)
        runs = Runs(
            np.zeros((bands, size, widest, 2), np.int64),
            np.zeros((bands, size, 2), np.int64),
            np.zeros(size, np.int64),
            np.zeros((2, size, widest), np.int64),
            np.zeros((size, widest, 2), np.int64),
            np.zeros(size, np.int64),
            np.zeros((bands, size), np.int64),
        )
        here = np.zeros((bands, size), np.int64)
        for c in range(len(counts)):
            count = counts[c]
            if count > arrays.buffers[0, arrays.ops[2, last]]:
                found[begin:end, c, :2] = -1
                continue
            copies = find_runs(arrays, own, count, maker, need, until, change, runs)
            for row in range(begin, end):
                stage = ops[ptr[first + row] : ptr[first + row + 1]]
                inputs = dying[dying_ptr[first + row] : dying_ptr[first + row + 1]]
                mark_inputs(inputs, dies, True)
                for k in range(len(stage)):
                    spot[place[stage[k]]] = k
                figures = found[row, c]
                if count_runs(arrays, stage, place, spot, maker, count, runs, figures):
                    figures[3] += copies
                    late = last_reader(arrays, stage, spot, maker, dies)
                    find_edges(arrays, stage[: late + 1], place, runs, edges)
                    sum_made(arrays, stage, late, count, place, spot, until, runs, change, here)
                    for way in range(2):
                        figures[way] = fullest(
                            arrays, stage, late, count, way, place, dies, edges, runs, here, window
                        )
                spot[place[stage]] = -1
                mark_inputs(inputs, dies, False)
        place[own], maker[arrays.ops[2, own]] = -1, -1
        begin = end


@inner
def gather(
    arrays: StageArrays,
    listed: IntArray,
    wanted: IntArray,
    place: IntArray,
    maker: IntArray,
    group: IntArray,
) -> int:
    """Write the ops of a group in order, with their places; return their number."""
    size = 0
    place[wanted] = 0
    for v in listed:
        if place[v] == 0:
            place[v], group[size], maker[arrays.ops[2, v]] = size, v, size
            size += 1
    return size


@inner
def find_runs(
    arrays: StageArrays,
    group: IntArray,
    count: int,
    maker: IntArray,
    need: IntArray,
    until: IntArray,
    change: IntArray,
    runs: Runs,
) -> int:
    """Write the runs of a group with a count of bands; return the number of copying slices."""
    given, made, fits = runs.given, runs.made, runs.fits
    top, copies = len(group) - 1, 0
    height = arrays.buffers[0, arrays.ops[2, group[top]]]
    fits[:] = 1
    runs.cost[:], runs.slices[:] = 0, 0
    runs.edges[:, :, 0], runs.edges[:, :, 1] = 1 << 60, 0
    for band in range(count):
        find_rows(arrays, group, band, count, maker, need, given, made, fits)
    for band in range(count):
        direct = is_direct(band, count, height, made[band, top])
        copies += 0 if direct else 1
        for k in range(top + 1):
            v = group[k]
            if not fits[k]:
                made[band, k, 0] = made[band, k, 1] = 0
            runs.cost[k] += arrays.ops[3, v] * (made[band, k, 1] - made[band, k, 0])
            for i in range(arrays.ops[8, v], arrays.ops[9, v]):
                b, j = arrays.maps[0, i], i - arrays.ops[8, v]
                low, high = given[band, k, j, 0], given[band, k, j, 1]
                runs.edges[k, j, 0] = min(runs.edges[k, j, 0], low)
                runs.edges[k, j, 1] = max(runs.edges[k, j, 1], high)
                if arrays.maps[1, i] == 0:
                    continue
                m = maker[b]
                if m >= 0 and (low != made[band, m, 0] or high != made[band, m, 1]):
                    runs.slices[0, k, j] += 1
                if low != 0 or high != arrays.buffers[0, b]:
                    runs.slices[1, k, j] += 1
        here = made_bytes(arrays, group, band, direct, made, until, change)
        most = np.int64(0)
        for k in range(top, -1, -1):
            more = run_bytes(arrays, group[k], made[band, k])
            if direct and k == top:
                more += rows_bytes(arrays, group[k], band, count)
            most = max(most, np.int64(here + more))
            runs.live[band, k] = most
            here -= change[k]
    return copies


@inner
def count_runs(
    arrays: StageArrays,
    stage: IntArray,
    place: IntArray,
    spot: IntArray,
    maker: IntArray,
    count: int,
    runs: Runs,
    figures: IntArray,
) -> bool:
    """Write multiplications, slices of inputs and tensors; return False for an impossible stage."""
    cost = slices = np.int64(0)
    for v in stage:
        k = place[v]
        if not runs.fits[k]:
            figures[0] = figures[1] = -1
            return False
        cost += runs.cost[k]
        for i in range(arrays.ops[8, v], arrays.ops[9, v]):
            m = maker[arrays.maps[0, i]]
            outside = 0 if m >= 0 and spot[m] >= 0 else 1
            slices += runs.slices[outside, k, i - arrays.ops[8, v]]
    figures[2], figures[3], figures[4] = cost, slices, count * len(stage)
    return True


@inner
def last_reader(
    arrays: StageArrays, stage: IntArray, spot: IntArray, maker: IntArray, dies: IntArray
) -> int:
    """Return the place of the last op that reads an input which dies, or one that the group makes.

    It is -1 if no op does.
    """
    for k in range(len(stage) - 1, -1, -1):
        for i in range(arrays.ops[8, stage[k]], arrays.ops[9, stage[k]]):
            b = arrays.maps[0, i]
            if dies[b] or (maker[b] >= 0 and spot[maker[b]] < 0):
                return k
    return -1


@inner
def find_edges(
    arrays: StageArrays, readers: IntArray, place: IntArray, runs: Runs, edges: IntArray
) -> None:
    """Write the edges of the rows that are read of each input."""
    clear_rows(arrays, readers, edges)
    for v in readers:
        for i in range(arrays.ops[8, v], arrays.ops[9, v]):
            b, j = arrays.maps[0, i], i - arrays.ops[8, v]
            edges[b, 0] = min(edges[b, 0], runs.edges[place[v], j, 0])
            edges[b, 1] = max(edges[b, 1], runs.edges[place[v], j, 1])


@inner
def sum_made(
    arrays: StageArrays,
    stage: IntArray,
    late: int,
    count: int,
    place: IntArray,
    spot: IntArray,
    until: IntArray,
    runs: Runs,
    change: IntArray,
    here: IntArray,
) -> None:
    """Write by band and place, up to `late`, what the band has made, with workspace and result."""
    top = len(stage) - 1
    height = arrays.buffers[0, arrays.ops[2, stage[top]]]
    for band in range(count):
        for k in range(late + 2):
            change[k] = 0
        direct = is_direct(band, count, height, runs.made[band, place[stage[top]]])
        total = np.int64(0)
        for k in range(late + 1):
            v = stage[k]
            made = runs.made[band, place[v]]
            total += change[k]
            more = run_bytes(arrays, v, made)
            if direct and k == top:
                more += rows_bytes(arrays, v, band, count)
            else:
                bytes_ = made_size(arrays, v, made)
                total += bytes_
                change[min(spot[until[place[v]]], late) + 1] -= bytes_
            here[band, k] = total + more


@inner
def fullest(
    arrays: StageArrays,
    stage: IntArray,
    late: int,
    count: int,
    way: int,
    place: IntArray,
    dies: IntArray,
    edges: IntArray,
    runs: Runs,
    here: IntArray,
    window: IntArray,
) -> int:
    """Return the most live bytes of the runs; `way` is 0 from the first band, 1 from the last."""
    top = len(stage) - 1
    height = arrays.buffers[0, arrays.ops[2, stage[top]]]
    clear_rows(arrays, stage[: late + 1], window)
    most = inputs = np.int64(0)
    for turn in range(count):
        # The band that runs last comes first here.
        band = turn if way else count - 1 - turn
        result = result_bytes(arrays, stage[top], band, count, way)
        made = runs.made[band, place[stage[top]]]
        if not is_direct(band, count, height, made):
            # The step that copies the good rows; all that the band read is dead.
            own = rows_bytes(arrays, stage[top], band, count)
            most = max(most, inputs + result + own + made_size(arrays, stage[top], made))
        if late < top:
            most = max(most, inputs + result + runs.live[band, place[stage[late + 1]]])
        for k in range(late, -1, -1):
            given = runs.given[band, place[stage[k]]]
            inputs += read_rows(arrays, stage[k], given, dies, edges, window)
            most = max(most, inputs + result + here[band, k])
    return int(most)
