"""Best-fit strip packing with fixed abscissae: the lowest gap takes the widest buffer that fits.

Source: E. Burke, G. Kendall, G. Whitwell, "A new placement heuristic for the orthogonal
stock-cutting problem", Operations Research 52(4), 2004; here the abscissae are fixed by the live
ranges.

Example: heights 0, 0, 3 over three sections. The lowest gap is [0, 2). Of the buffers that fit into
it, the one live in both sections is placed; if none fits, the gap rises to 3.
"""

from __future__ import annotations

import numpy as np

from heuristics.kernels.place import align
from heuristics.kernels.place_indexed import sink
from optsched.model.arrays import IntArray
from optsched.runtime.kernel import inner, kernel


@inner
def push(keys: IntArray, items: IntArray, count: int, key: int, item: int) -> int:
    """Add an entry to a heap, lowest key first; return its new length."""
    at = count
    while at > 0 and keys[(at - 1) >> 1] > key:
        keys[at], items[at] = keys[(at - 1) >> 1], items[(at - 1) >> 1]
        at = (at - 1) >> 1
    keys[at], items[at] = key, item
    return count + 1


@inner
def least_rank(tree: IntArray, base: int, leaves: int, count: int) -> int:
    """Return the minimum of the first `count` leaves of the tree at `tree[base:]`."""
    least = 2**62
    left, right = leaves, leaves + count
    while left < right:
        if left & 1:
            least = min(least, tree[base + left])
            left += 1
        if right & 1:
            right -= 1
            least = min(least, tree[base + right])
        left, right = left >> 1, right >> 1
    return least


@kernel
def run_skyline(
    by_start: IntArray,
    begun: IntArray,
    first: IntArray,
    last: IntArray,
    size: IntArray,
    alignment: IntArray,
) -> IntArray:
    """Return the offsets, shape `(k,)`, of buffers numbered by priority, without pins.

    `by_start`: buffers by ascending start. `begun`: shape `(sections + 1,)`: number of buffers that
    start before each section. `first`, `last`: live ranges in sections; not empty. `size`,
    `alignment`: columns of the packing problem.

    Notes
    -----
    The skyline is the lowest free offset of each section, stored as segments of equal height. The
    lowest segment takes the first buffer by priority that lives within it. Without such a buffer,
    the segment rises to the lower one of its neighbors. The query for the first buffer that starts
    at or after `a` and ends by `b` uses a binary tree over the buffers by start. Each of its nodes
    has its buffers sorted by end, with a tree of minimum ranks over them. The kernel takes O(k
    log^2 k) time and O(k log k) memory.
    """
    k, sections = len(first), len(begun) - 1
    offsets = np.zeros(k, np.int64)
    rows, width = 1, 1
    while width < k:
        rows, width = rows + 1, 2 * width
    # Row h has the buffers by start in blocks of 2^h, and each block is sorted by end; `spot` is
    # the position of a buffer in each row.
    order, spot = np.empty((rows, width), np.int64), np.empty((rows, k), np.int64)
    least = np.full((rows, 2 * width), 2**62)
    for p in range(width):
        order[0, p] = by_start[p] if p < k else -1
    for h in range(rows):
        block = 1 << h
        for p in range(0, width, block):
            if h > 0:
                left, right = p, p + block // 2
                for q in range(p, p + block):
                    i = order[h - 1, left] if left < p + block // 2 else -1
                    j = order[h - 1, right] if right < p + block else -1
                    # The merge of two halves that are sorted by end.
                    if j < 0 or (i >= 0 and last[i] <= last[j]):
                        order[h, q], left = i, left + 1
                    else:
                        order[h, q], right = j, right + 1
            for q in range(block):
                i = order[h, p + q]
                if i >= 0:
                    spot[h, i] = p + q
                    # Buffers are numbered by priority, so the number is the rank.
                    least[h, 2 * p + block + q] = i
            for q in range(block - 1, 0, -1):
                least[h, 2 * p + q] = min(least[h, 2 * p + 2 * q], least[h, 2 * p + 2 * q + 1])

    # Segments are identified by their first section: `until` is the end and `height` the height of
    # a segment, `before[b]` is the segment that ends at `b`.
    until, height = np.zeros(sections + 1, np.int64), np.full(sections + 1, -1)
    before = np.zeros(sections + 1, np.int64)
    keys, items = np.empty(6 * k + 8, np.int64), np.empty(6 * k + 8, np.int64)
    until[0], height[0], before[sections] = sections, 0, 0
    count = push(keys, items, 0, 0, 0)
    left_over = k
    while left_over > 0:
        floor, a = keys[0], items[0]
        count -= 1
        keys[0], items[0] = keys[count], items[count]
        sink(keys, items, 0, count)
        if height[a] != floor:
            # Outdated entry of the heap: the segment has been raised or merged.
            continue
        b = until[a]
        # Split the buffers that start in [a, b) into nodes of the tree, and query each node for
        # the first one by priority that ends by b.
        best = 2**62
        left, right, h = begun[a], begun[b], 0
        while left < right:
            for side in range(2):
                p = -1
                if side == 0 and left & 1:
                    p = left << h
                    left += 1
                elif side == 1 and right & 1:
                    right -= 1
                    p = right << h
                if p >= 0:
                    low, high = p, p + (1 << h)
                    while low < high:
                        middle = (low + high) >> 1
                        if order[h, middle] >= 0 and last[order[h, middle]] <= b:
                            low = middle + 1
                        else:
                            high = middle
                    best = min(best, least_rank(least[h], 2 * p, 1 << h, low - p))
            left, right, h = left >> 1, right >> 1, h + 1
        if best < 2**62:
            # Remove the buffer from every row of the tree.
            i = best
            # The ranks of a buffer in the trees become infinite; positions stay, so no row is
            # rebuilt.
            left_over -= 1
            for h in range(rows):
                block = 1 << h
                p = spot[h, i] >> h << h
                q = block + spot[h, i] - p
                least[h, 2 * p + q] = 2**62
                while q > 1:
                    q >>= 1
                    least[h, 2 * p + q] = min(least[h, 2 * p + 2 * q], least[h, 2 * p + 2 * q + 1])
            offsets[i] = align(floor, alignment[i])
            s, e = first[i], last[i]
            # The parts of the segment beside the buffer keep the old height as segments of their
            # own.
            if a < s:
                until[a], before[s] = s, a
                count = push(keys, items, count, floor, a)
            if e < b:
                until[e], height[e], before[b] = b, floor, e
                count = push(keys, items, count, floor, e)
            a, b, floor = s, e, offsets[i] + size[i]
        else:
            # Nothing fits: the segment rises to its lower neighbor and is merged with it below.
            floor = 2**63 - 1
            if a > 0:
                floor = height[before[a]]
            if b < sections:
                floor = min(floor, height[b])
        # The segment [a, b) has a new height; merge it with neighbors of equal height.
        if a > 0 and height[before[a]] == floor:
            # Its entry in the heap becomes outdated: no floor equals -1.
            height[a] = -1
            a = before[a]
        if b < sections and height[b] == floor:
            height[b] = -1
            b = until[b]
        until[a], height[a], before[b] = b, floor, a
        # The heap may keep old entries of a segment; they are skipped when they come up.
        count = push(keys, items, count, floor, a)
    return offsets
