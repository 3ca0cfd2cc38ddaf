"""Compiled exhaustion of tiny graphs and packings.

Graphs are bit masks: the range of peaks over all orders comes set of finished ops by set. Packings
are sequences of ascending offsets: all are tried for the minimum slab.
"""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import kernel

NEVER = 2**63 - 1
"""The peak of a set that no order reaches."""


@kernel
def fill_sets(
    before: IntArray,
    alloc: IntArray,
    need: IntArray,
    size: IntArray,
    initial: int,
    best: IntArray,
    live: IntArray,
) -> int:
    """Fill the minimum peak and the live bytes of every set of finished ops; return the most bytes.

    Parameters
    ----------
    before
        Shape `(n,)`: the ops that must run before each op, as a mask.
    alloc
        Shape `(n,)`: bytes that each op allocates.
    need
        Shape `(m,)`: the ops after which a buffer is freed, as a mask; 0 for never.
    size
        Shape `(m,)`: bytes of each buffer.
    initial
        Bytes live before the first step.
    best, live
        Shape `(2**n,)`, overwritten: minimum peak of the orders that run exactly this set first, or
        `NEVER`; bytes live after it.

    Returns
    -------
    int
        Bytes live at the fullest step that any order has.

    Notes
    -----
    Every subset stands before its supersets, so one pass in ascending order does. O(2^n n m) at
    worst, and far less where few sets are closed under predecessors.
    """
    n, m = len(before), len(need)
    best[:] = NEVER
    best[0] = live[0] = most = initial
    for done in range(len(best)):
        if best[done] == NEVER:
            continue
        for v in range(n):
            bit = 1 << v
            if done & bit or before[v] & ~done:
                continue
            now = done | bit
            during = live[done] + alloc[v]
            most = max(most, during)
            if best[now] == NEVER:
                left = during
                for b in range(m):
                    if need[b] & bit and not need[b] & ~now:
                        left -= size[b]
                live[now] = left
            best[now] = min(best[now], max(best[done], during))
    return int(most)


@kernel
def peak_range(
    before: IntArray, alloc: IntArray, need: IntArray, size: IntArray, initial: int
) -> tuple[int, int]:
    """Return the minimum peak of all orders, and the most bytes live at any step of any order."""
    best = np.empty(1 << len(before), np.int64)
    live = np.empty(1 << len(before), np.int64)
    most = fill_sets(before, alloc, need, size, initial, best, live)
    return int(best[-1]), most


@kernel
def sized_above(
    before: IntArray, largest: int, value: int, rival: int, ratio: bool, found: IntArray
) -> int:
    """List the sizes of a graph with which some order may be worse than a loss known already.

    One buffer an op, read by the ops that follow it; what nobody reads is kept.

    Parameters
    ----------
    before
        Shape `(n,)`: predecessors as masks.
    largest
        Sizes are `1 .. largest`; all of them are tried.
    value, rival
        The loss to beat.
    ratio
        Whether ratios are compared, else differences.
    found
        Shape `(largest**n, n)`, overwritten.

    Returns
    -------
    int
        How many rows of `found` were filled.
    """
    n = len(before)
    need, size = np.zeros(n, np.int64), np.ones(n, np.int64)
    for v in range(n):
        for u in range(n):
            if before[v] >> u & 1:
                need[u] |= 1 << u | 1 << v
    count = 0
    while True:
        low, high = peak_range(before, size, need, size, 0)
        if (high * rival > value * low) if ratio else (high - low > value - rival):
            found[count] = size
            count += 1
        v = 0
        while v < n and size[v] == largest:
            size[v] = 1
            v += 1
        if v == n:
            return count
        size[v] += 1


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
