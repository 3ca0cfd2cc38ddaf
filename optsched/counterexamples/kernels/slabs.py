"""Tiny packings: the minimum slab by trying all sequences of ascending offsets."""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import kernel


@kernel
def next_capacity(
    start: IntArray, end: IntArray, size: IntArray, capacity: int, offset: IntArray
) -> int:
    """Try all sequences of ascending offsets; return -1 if the buffers pack into a capacity.

    Each buffer is put as low as it goes above those before it; some packing of minimum slab is met
    that way. Equal offsets come by index.

    Parameters
    ----------
    start, end, size
        Shape `(k,)`: live ranges and bytes, without alignment or pins.
    capacity
        Bytes.
    offset
        Shape `(k,)`, overwritten: the packing if there is one.

    Returns
    -------
    int
        If there is none, the smallest larger capacity that is not refused in the same way: with any
        between the two the search would have gone through the same motions.
    """
    n = len(start)
    placed = np.zeros(n, np.int64)
    used = np.zeros(n, np.bool_)
    choice = np.full(n + 1, -1, np.int64)
    depth, more = 0, 2**63 - 1
    while depth >= 0:
        if depth == n:
            return -1
        if choice[depth] >= 0:
            used[choice[depth]] = False
        last = placed[depth - 1] if depth else -1
        floor = offset[last] if depth else -1
        i, low = choice[depth] + 1, 0
        while i < n:
            if not used[i]:
                low = 0
                for k in range(depth):
                    j = placed[k]
                    if start[j] < end[i] and start[i] < end[j]:
                        low = max(low, offset[j] + size[j])
                if low + size[i] > capacity:
                    more = min(more, low + size[i])
                elif low > floor or (low == floor and i > last):
                    break
            i += 1
        choice[depth] = i if i < n else -1
        if i < n:
            used[i], placed[depth], offset[i] = True, i, low
            depth += 1
            if depth < n:
                choice[depth] = -1
        else:
            depth -= 1
    return int(more)


@kernel
def fullest_step(start: IntArray, end: IntArray, size: IntArray) -> int:
    """Bytes live at the fullest step."""
    most = 0
    for t in start:
        load = 0
        for i in range(len(start)):
            if start[i] <= t < end[i]:
                load += size[i]
        most = max(most, load)
    return most


@kernel
def minimum_slab(start: IntArray, end: IntArray, size: IntArray, offset: IntArray) -> int:
    """Return the minimum slab, by exhaustion, and leave offsets that have it in `offset`."""
    capacity = fullest_step(start, end, size)
    more = next_capacity(start, end, size, capacity, offset)
    while more >= 0:
        capacity = more
        more = next_capacity(start, end, size, capacity, offset)
    return int(capacity)
