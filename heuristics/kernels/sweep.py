"""Placing buffers in the order of their starts: what is free is kept as one list of holes."""

from __future__ import annotations

import numpy as np

from heuristics.kernels.place import align
from heuristics.kernels.place_indexed import add_bytes
from optsched.model.arrays import IntArray
from optsched.runtime.kernel import kernel

ENDLESS = 2**63 - 1


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

    Parameters
    ----------
    sequence, ending
        Buffers by ascending start, and by ascending end.
    start, end, size, alignment, tightest
        As for `run_place`.

    Notes
    -----
    The buffers placed before that overlap a new one are those live at its start, so the holes are
    what they leave free. O(k h) time with h holes, O(k) memory.
    """
    lows, highs = np.empty(len(sequence) + 2, np.int64), np.empty(len(sequence) + 2, np.int64)
    lows[0], highs[0], holes = 0, ENDLESS, 1
    offsets = np.zeros(len(sequence), np.int64)
    ended = 0
    for i in sequence:
        if size[i] == 0 or start[i] == end[i]:
            continue
        while end[ending[ended]] <= start[i]:
            j = ending[ended]
            ended += 1
            if size[j] > 0 and start[j] < end[j]:
                holes = add_bytes(lows, highs, 0, holes, offsets[j], offsets[j] + size[j])
        # The last hole has no end: it is taken where no other holds the buffer.
        hole, spare = holes - 1, ENDLESS
        for q in range(holes - 1):
            if highs[q] - lows[q] < size[i]:
                continue
            room = highs[q] - align(lows[q], alignment[i])
            if size[i] <= room < spare:
                hole, spare = q, room
                if not tightest or room == size[i]:
                    break
        low, high = lows[hole], highs[hole]
        at = align(low, alignment[i])
        top = at + size[i]
        offsets[i] = at
        if low < at and top < high:
            for q in range(holes, hole + 1, -1):
                lows[q], highs[q] = lows[q - 1], highs[q - 1]
            highs[hole], lows[hole + 1], highs[hole + 1] = at, top, high
            holes += 1
        elif low < at:
            highs[hole] = at
        elif top < high:
            lows[hole] = top
        else:
            for q in range(hole, holes - 1):
                lows[q], highs[q] = lows[q + 1], highs[q + 1]
            holes -= 1
    return offsets
