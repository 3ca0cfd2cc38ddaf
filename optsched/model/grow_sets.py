"""Grows sets of buffers that all conflict, one at a time, around pairs that are in none yet."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import kernel

BoolArray = npt.NDArray[np.bool_]


@kernel
def grow_set(
    first: int, most: int, rows: BoolArray, left: BoolArray, size: IntArray, members: IntArray
) -> int:
    """Write a set that holds a buffer, and to which no other can be added; return how many it has.

    Whoever brings most of the pairs that are left comes next, then the larger, then the first.

    Parameters
    ----------
    first, most
        The buffer to begin with, and how many the set may have.
    rows
        Shape `(k, k)`: which buffers conflict; none with itself.
    left
        Shape `(k, k)`: pairs that are in no set yet; those of the set are taken out.
    size
        Shape `(k,)`, bytes.
    members
        Shape `(k,)`: the set is written to its beginning.
    """
    ids = np.arange(len(size))
    gain = np.zeros(len(size), np.int64)
    able, count, best = len(size), 0, first
    while best >= 0 and count < most:
        members[count] = best
        count += 1
        kept, after = 0, -1
        for x in range(able):
            i = ids[x]
            if rows[best, i]:
                ids[kept] = i
                kept += 1
                gain[i] += left[best, i]
                more = 0 if after < 0 else gain[i] - gain[after]
                if after < 0 or more > 0 or (more == 0 and size[i] > size[after]):
                    after = i
        able, best = kept, after
    for x in range(count):
        for y in range(count):
            left[members[x], members[y]] = False
    return count
