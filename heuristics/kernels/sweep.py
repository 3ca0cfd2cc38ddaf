"""Placement of buffers in order of their starts, with a list of free byte ranges.

A buffer placed in this order can only overlap those that are live at its start. A sweep over time
that returns the bytes of ended buffers to the free list therefore replaces the scan over all placed
buffers.

Example: `a` [0, 4) and `b` [1, 2) of 4 bytes each lie at 0 and 4. When `c` starts at step 2, `b`
has ended, and its bytes 4 to 8 are free again.
"""

from __future__ import annotations

import numpy as np

from heuristics.kernels.place import align
from heuristics.kernels.place_indexed import add_bytes
from optsched.model.arrays import IntArray
from optsched.runtime.kernel import inner, kernel

ENDLESS = 2**63 - 1


@inner
def carve(lows: IntArray, highs: IntArray, count: int, hole: int, at: int, top: int) -> int:
    """Remove `[at, top)` from one of `count` ascending free ranges; return their new number."""
    low, high = lows[hole], highs[hole]
    # Bytes are left on both sides of the buffer: one range becomes two.
    if low < at and top < high:
        for q in range(count, hole + 1, -1):
            lows[q], highs[q] = lows[q - 1], highs[q - 1]
        highs[hole], lows[hole + 1], highs[hole + 1] = at, top, high
        return count + 1
    if low < at:
        highs[hole] = at
    elif top < high:
        lows[hole] = top
    else:
        for q in range(hole, count - 1):
            lows[q], highs[q] = lows[q + 1], highs[q + 1]
        return count - 1
    return count


@kernel
def run_sweep(
    sequence: IntArray,
    ending: IntArray,
    start: IntArray,
    end: IntArray,
    size: IntArray,
    alignment: IntArray,
    tightest: bool,
) -> IntArray:
    """Return the same offsets as `run_place`, shape `(k,)`; buffers without bytes lie at 0.

    `sequence` is sorted by ascending start, `ending` by ascending end; the other parameters are as
    in `run_place`. Placed buffers that overlap a new one are those live at its start, so the holes
    are the bytes they leave free. The kernel takes O(k h) time with h holes, and O(k) memory.
    """
    lows, highs = np.empty(len(sequence) + 2, np.int64), np.empty(len(sequence) + 2, np.int64)
    lows[0], highs[0], holes = 0, ENDLESS, 1
    offsets = np.zeros(len(sequence), np.int64)
    ended = 0
    for i in sequence:
        if size[i] == 0 or start[i] == end[i]:
            continue
        # Buffers that have ended by now give their bytes back before the next one is placed.
        while end[ending[ended]] <= start[i]:
            j = ending[ended]
            ended += 1
            if size[j] > 0 and start[j] < end[j]:
                holes = add_bytes(lows, highs, 0, holes, offsets[j], offsets[j] + size[j])
        # The last hole is unbounded; it is used if no other hole is large enough.
        hole, spare = holes - 1, ENDLESS
        for q in range(holes - 1):
            if highs[q] - lows[q] < size[i]:
                continue
            room = highs[q] - align(lows[q], alignment[i])
            if size[i] <= room < spare:
                hole, spare = q, room
                if not tightest or room == size[i]:
                    break
        offsets[i] = align(lows[hole], alignment[i])
        holes = carve(lows, highs, holes, hole, offsets[i], offsets[i] + size[i])
    return offsets


@kernel
def run_scan(
    sequence: IntArray,
    ending: IntArray,
    start: IntArray,
    end: IntArray,
    size: IntArray,
    alignment: IntArray,
) -> IntArray:
    """Return offsets, shape `(k,)`; buffers without bytes lie at 0; parameters as in `run_sweep`.

    All bytes below the highest top so far are either live or in a free region; adjacent regions are
    merged. A buffer takes the smallest region that is large enough, and the lowest one among
    equals. Without such a region it takes new bytes above that top, even if a region that is too
    small ends there, which distinguishes the method from `run_sweep`. The kernel takes O(k h) time
    with h regions, and O(k) memory.
    """
    room = 2 * len(sequence) + 2
    lows, highs, regions = np.empty(room, np.int64), np.empty(room, np.int64), 0
    offsets = np.zeros(len(sequence), np.int64)
    ended, top = 0, 0
    for i in sequence:
        if size[i] == 0 or start[i] == end[i]:
            continue
        while end[ending[ended]] <= start[i]:
            j = ending[ended]
            ended += 1
            if size[j] > 0 and start[j] < end[j]:
                regions = add_bytes(lows, highs, 0, regions, offsets[j], offsets[j] + size[j])
        found, least = -1, ENDLESS
        for q in range(regions):
            width = highs[q] - lows[q]
            if size[i] <= width < least and align(lows[q], alignment[i]) + size[i] <= highs[q]:
                found, least = q, width
        if found >= 0:
            offsets[i] = align(lows[found], alignment[i])
            regions = carve(lows, highs, regions, found, offsets[i], offsets[i] + size[i])
            continue
        offsets[i] = align(top, alignment[i])
        # The padding below an aligned offset is free for others.
        if offsets[i] > top:
            regions = add_bytes(lows, highs, 0, regions, top, offsets[i])
        top = offsets[i] + size[i]
    return offsets
