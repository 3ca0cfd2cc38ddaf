"""Compiled kernels that solve tiny graphs and packings by exhaustive enumeration.

A graph is a list of bit masks. A dynamic program over the sets of finished ops gives the minimum
and the maximum peak of all orders. A packing is a sequence of buffers with ascending offsets; the
minimum slab comes from trying all such sequences.
"""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import kernel

NEVER = 2**63 - 1
"""Marker for a set of ops that no order reaches."""


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
    """Tabulate the minimum peak and the live bytes of every set of finished ops.

    Return maximum bytes live at any step of any order.

    Parameters
    ----------
    before
        Shape `(n,)`: mask of the ops that must run before each op.
    alloc
        Shape `(n,)`: bytes that each op allocates.
    need
        Shape `(m,)`: mask of the ops after which each buffer is freed; 0 if it is never freed.
    size
        Shape `(m,)`: bytes of each buffer.
    initial
        Bytes live before the first step.
    best, live
        Shape `(2**n,)`, overwritten. `best[s]` is the minimum peak of the orders that run exactly
        the ops of mask `s` first, or `NEVER` if there are none; `live[s]` is the bytes live
        afterwards.

    Notes
    -----
    A subset has a smaller mask than its supersets, so one pass in ascending order suffices. The
    time is O(2^n n m) in the worst case, and much less if few sets are closed under predecessors.
    """
    n, m = len(before), len(need)
    best[:] = NEVER
    best[0] = live[0] = most = initial
    for done in range(len(best)):
        # No order runs exactly these ops first: some op of the set has a predecessor outside.
        if best[done] == NEVER:
            continue
        for v in range(n):
            bit = 1 << v
            # `v` has run already, or a predecessor is still missing.
            if done & bit or before[v] & ~done:
                continue
            now = done | bit
            # While an op runs, its operands and its results are live together.
            during = live[done] + alloc[v]
            most = max(most, during)
            if best[now] == NEVER:
                left = during
                for b in range(m):
                    # Freed by this op: it uses the buffer, and all other users have run.
                    if need[b] & bit and not need[b] & ~now:
                        left -= size[b]
                live[now] = left
            # The live bytes depend on the set alone, not on its order; so the best prefix is
            # enough.
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
    """List the sizes for which some order of a graph may have a worse loss than a known one.

    Each op writes one buffer, which its successors read. Buffers without readers are graph outputs.

    Return number of rows of `found` that were filled.

    `before`: shape `(n,)`: mask of the predecessors of each op. `largest`: largest size; all
    combinations of the sizes `1 .. largest` are tried. `value`, `rival`: loss to exceed. `ratio`:
    True to compare ratios, False to compare differences. `found`: shape `(largest**n, n)`,
    overwritten with one row of sizes per match.
    """
    n = len(before)
    need, size = np.zeros(n, np.int64), np.ones(n, np.int64)
    for v in range(n):
        for u in range(n):
            if before[v] >> u & 1:
                # `u` itself, too: its buffer exists once it has run.
                need[u] |= 1 << u | 1 << v
    count = 0
    while True:
        low, high = peak_range(before, size, need, size, 0)
        # high / low > value / rival, multiplied out: exact in integers.
        if (high * rival > value * low) if ratio else (high - low > value - rival):
            found[count] = size
            count += 1
        v = 0
        # Count up like an odometer: with largest = 2, sizes go 1 1, 2 1, 1 2, 2 2.
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
    """Return -1 if the buffers pack into a capacity, else a larger capacity to try next.

    All sequences of buffers with ascending offsets are tried; buffers with equal offsets come in
    index order. Each buffer is placed as low as the buffers placed before it allow. Some packing of
    minimum slab has this form, so the search is exhaustive.

    `start`, `end`, `size`: shape `(k,)`: live ranges and bytes, without alignment or pins.
    `capacity`: bytes. `offset`: shape `(k,)`, overwritten: offsets of the packing, if one exists.

    Returns
    -------
    int
        -1 if the buffers fit; `offset` then holds a packing. Otherwise, the smallest larger
        capacity that admits a placement rejected here. Every capacity between the two rejects the
        same placements, so it fails as well.
    """
    n = len(start)
    placed = np.zeros(n, np.int64)
    used = np.zeros(n, np.bool_)
    choice = np.full(n + 1, -1, np.int64)
    depth, more = 0, 2**63 - 1
    while depth >= 0:
        if depth == n:
            return -1
        # Back from a deeper level: take the buffer tried last off, and try the next.
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
                # Over the capacity. The least such excess is the next capacity worth a trial.
                if low + size[i] > capacity:
                    more = min(more, low + size[i])
                elif low > floor or (low == floor and i > last):
                    # Ascending offsets, so that each packing is met in one sequence only.
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
    """Return the maximum bytes live at any step."""
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
    """Return the minimum slab by exhaustive search, and store its offsets in `offset`."""
    # No slab is below the fullest step, so the first capacity that works is the minimum.
    capacity = fullest_step(start, end, size)
    more = next_capacity(start, end, size, capacity, offset)
    while more >= 0:
        capacity = more
        more = next_capacity(start, end, size, capacity, offset)
    return int(capacity)
