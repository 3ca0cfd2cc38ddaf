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
    pairs: IntArray,
    partners: IntArray,
    tightest: bool,
) -> IntArray:
    """Return the offsets of all buffers, shape `(k,)`.

    Parameters
    ----------
    sequence
        Buffers in order of placement.
    start, end, size, alignment, pin
        Columns of the packing problem.
    pairs, partners
        Buffer `i` must not overlap any of `partners[pairs[i]:pairs[i + 1]]`, even if they are never
        live together.
    tightest
        If True, use the smallest hole that is large enough, and the lowest one among equals; if
        False, the lowest hole that is large enough. Without such a hole the buffer goes above all
        placed buffers that overlap it in time.

    Notes
    -----
    Placed buffers are kept sorted by offset. One pass over those that overlap the new buffer in
    time finds the holes between them. The kernel takes O(k) memory and O(k^2) time with a small
    constant, because the fields that the pass reads of a buffer (start, end, offset and end of its
    bytes, id) are adjacent in memory.
    """
    offsets = np.zeros(len(sequence), np.int64)
    placed, count = np.empty((len(sequence), 5), np.int64), 0
    # A stamp per buffer instead of a set: nothing has to be cleared between two buffers.
    apart, has_pairs = np.full(len(sequence), -1, np.int64), len(partners) > 0
    for i in sequence:
        for k in range(pairs[i], pairs[i + 1]):
            apart[partners[k]] = i
        first, last = start[i], end[i]
        # A pinned buffer has its offset already, so no hole is looked for.
        found, spare, low = pin[i], 2**63 - 1, 0
        for q in range(count if found < 0 else 0):
            meets = max(first, placed[q, 0]) < min(last, placed[q, 1])
            if not meets and not (has_pairs and apart[placed[q, 4]] == i):
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
            # Unrolled, so that the row is moved at once rather than in five separate steps.
            placed[at, 0], placed[at, 1] = placed[at - 1, 0], placed[at - 1, 1]
            placed[at, 2], placed[at, 3] = placed[at - 1, 2], placed[at - 1, 3]
            placed[at, 4] = placed[at - 1, 4]
            at -= 1
        placed[at, 0], placed[at, 1], placed[at, 4] = first, last, i
        placed[at, 2], placed[at, 3] = found, found + size[i]
        count += 1
    return offsets
