"""Placing buffers one after another, each into the first or tightest hole that holds it."""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import inner, kernel


@inner
def align(offset: int, alignment: int) -> int:
    """Return the first multiple of `alignment` from `offset` on."""
    return -(-offset // alignment) * alignment


@kernel
def run_place(
    sequence: IntArray,
    start: IntArray,
    end: IntArray,
    size: IntArray,
    alignment: IntArray,
    pin: IntArray,
    tightest: bool,
) -> IntArray:
    """Return offsets, shape `(k,)`.

    Parameters
    ----------
    sequence
        Buffers, first to be placed first.
    start, end, size, alignment, pin
        Of the packing problem.
    tightest
        Take the smallest hole that is large enough, the lowest among equals; else the lowest
        hole. Where there is none the buffer goes above all it meets.

    Notes
    -----
    Buffers placed so far stand in ascending offset; one pass over those that overlap the new one
    in time shows the holes between them. O(k) memory, O(k^2) time with a small constant: what the
    pass needs of a buffer, start, end, offset and end of its bytes, lies side by side.
    """
    offsets = np.zeros(len(sequence), np.int64)
    placed, count = np.empty((len(sequence), 4), np.int64), 0
    for i in sequence:
        first, last = start[i], end[i]
        found, spare, low = pin[i], 2**63 - 1, 0
        for q in range(count if found < 0 else 0):
            if max(first, placed[q, 0]) >= min(last, placed[q, 1]):
                continue
            # Division is slow: most holes are too small even without alignment.
            if size[i] <= placed[q, 2] - low:
                at = align(low, alignment[i])
                if size[i] <= placed[q, 2] - at < spare:
                    found, spare = at, placed[q, 2] - at
                    if not tightest:
                        break
            low = max(low, placed[q, 3])
        if found < 0:
            found = align(low, alignment[i])
        offsets[i] = found
        at = count
        while at > 0 and placed[at - 1, 2] > found:
            # Not in a loop, of which a processor would make four moves and not one.
            placed[at, 0], placed[at, 1] = placed[at - 1, 0], placed[at - 1, 1]
            placed[at, 2], placed[at, 3] = placed[at - 1, 2], placed[at - 1, 3]
            at -= 1
        placed[at, 0], placed[at, 1] = first, last
        placed[at, 2], placed[at, 3] = found, found + size[i]
        count += 1
    return offsets


@kernel
def run_place_apart(
    sequence: IntArray,
    ranges: IntArray,
    size: IntArray,
    alignment: IntArray,
    pin: IntArray,
    pairs: IntArray,
    partners: IntArray,
    tightest: bool,
) -> IntArray:
    """Return offsets as :func:`run_place` does, where some buffers are kept apart as well.

    Buffer `i` is kept apart from `partners[pairs[i]:pairs[i + 1]]`. Start and end of the live
    ranges are `ranges`, shape `(2, k)`. Where there are no such pairs `run_place` is quicker.
    """
    start, end = ranges[0], ranges[1]
    offsets = np.zeros(len(sequence), np.int64)
    placed, count = np.empty(len(sequence), np.int64), 0
    apart = np.full(len(sequence), -1, np.int64)
    for i in sequence:
        for k in range(pairs[i], pairs[i + 1]):
            apart[partners[k]] = i
        found, spare, low = pin[i], 2**63 - 1, 0
        for q in range(count if found < 0 else 0):
            j = placed[q]
            if apart[j] != i and max(start[i], start[j]) >= min(end[i], end[j]):
                continue
            if size[i] <= offsets[j] - low:
                at = align(low, alignment[i])
                if size[i] <= offsets[j] - at < spare:
                    found, spare = at, offsets[j] - at
                    if not tightest:
                        break
            low = max(low, offsets[j] + size[j])
        if found < 0:
            found = align(low, alignment[i])
        offsets[i] = found
        at = count
        while at > 0 and offsets[placed[at - 1]] > found:
            placed[at] = placed[at - 1]
            at -= 1
        placed[at] = i
        count += 1
    return offsets
