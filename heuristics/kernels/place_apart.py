"""Placing buffers one after another where some are kept apart although never live together."""

from __future__ import annotations

import numpy as np

from heuristics.kernels.place import align
from optsched.model.arrays import IntArray
from optsched.runtime.kernel import kernel


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
    """Return offsets, shape `(k,)`, as :func:`heuristics.kernels.place.run_place` does.

    Parameters
    ----------
    sequence
        Buffers, first to be placed first.
    ranges
        Shape `(2, k)`: start and end of the live ranges.
    size, alignment, pin
        Of the packing problem.
    pairs, partners
        Buffer `i` is kept apart from `partners[pairs[i]:pairs[i + 1]]` as well.
    tightest
        Best fit instead of first fit.
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
