"""Placement of buffers one after another, each in the first or tightest hole that is large enough.

Example: a buffer of 3 bytes overlaps in time with two placed ones, at bytes 0-4 and 10-12. First
fit places it at 4, in the hole 4-10. Without a large enough hole it would go on top, at 12.
"""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import inner, kernel


@inner
def align(offset: int, alignment: int) -> int:
    """Return the first multiple of `alignment` at or above `offset`."""
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
    """Return the offsets of all buffers, shape `(k,)`.

    Parameters
    ----------
    sequence
        Buffers in order of placement.
    start, end, size, alignment, pin
        Columns of the packing problem.
    tightest
        If True, use the smallest hole that is large enough, and the lowest one among equals; if
        False, the lowest hole that is large enough. Without such a hole the buffer goes above all
        placed buffers that overlap it in time.

    Notes
    -----
    Placed buffers are kept sorted by offset. One pass over those that overlap the new buffer in
    time finds the holes between them. The kernel takes O(k) memory and O(k^2) time with a small
    constant, because the fields that the pass reads of a buffer (start, end, offset and end of its
    bytes) are adjacent in memory.
    """
    offsets = np.zeros(len(sequence), np.int64)
    placed, count = np.empty((len(sequence), 4), np.int64), 0
    for i in sequence:
        first, last = start[i], end[i]
        # A pinned buffer has its offset already, so no hole is looked for.
        found, spare, low = pin[i], 2**63 - 1, 0
        for q in range(count if found < 0 else 0):
            if max(first, placed[q, 0]) >= min(last, placed[q, 1]):
                continue
            # Division is slow, so skip holes that are too small even without alignment.
            if size[i] <= placed[q, 2] - low:
                at = align(low, alignment[i])
                if size[i] <= placed[q, 2] - at < spare:
                    found, spare = at, placed[q, 2] - at
                    if not tightest:
                        break
            # Buffers that lie lower may reach higher, so the end of the hole is the highest end so
            # far.
            low = max(low, placed[q, 3])
        if found < 0:
            found = align(low, alignment[i])
        offsets[i] = found
        at = count
        while at > 0 and placed[at - 1, 2] > found:
            # Unrolled, so that the row is moved at once rather than in four separate steps.
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
    """Return offsets as :func:`run_place` does, for problems with pairs to keep apart.

    Buffer `i` must not overlap any of `partners[pairs[i]:pairs[i + 1]]`, even if they are never
    live together. `ranges`, shape `(2, k)`, holds start and end of the live ranges. Without such
    pairs :func:`run_place` is faster.

    Sketch: mark the partners of the next buffer. Scan the placed buffers by ascending offset, and
    skip those that are not marked and do not overlap it in time. Test the hole below each remaining
    buffer. Insert the buffer by insertion sort.
    """
    start, end = ranges[0], ranges[1]
    offsets = np.zeros(len(sequence), np.int64)
    placed, count = np.empty(len(sequence), np.int64), 0
    # A stamp per buffer instead of a set: nothing has to be cleared between two buffers.
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
