"""Placement of many buffers, with an index over time in place of a scan over all buffers.

A buffer conflicts with the placed buffers that are live at one of its steps. A segment tree over
the sections of time keeps their byte ranges, so that a placement reads the few nodes that cover its
live range instead of all placed buffers.

Example: with sections 0 to 7, a buffer live in [2, 6) reads the nodes of [2, 4) and [4, 6) and
their ancestors.
"""

from __future__ import annotations

import numpy as np

from heuristics.kernels.place import align
from optsched.model.arrays import IntArray
from optsched.runtime.kernel import inner, kernel


@inner
def nodes_of(first: int, last: int, leaves: int, whole: IntArray, part: IntArray) -> int:
    """Find the tree nodes that are relevant to the sections `[first, last)`.

    `first`, `last`: sections, `first < last`. `leaves`: number of leaves of the tree, a power of
    two. Node `v` has the children `2v` and `2v + 1`; leaf `s` is node `leaves + s`. `whole`,
    `part`: output: the fewest nodes that together cover exactly the sections, and their ancestors.

    Return number of nodes in `whole`, plus 1000 times the number of nodes in `part`.
    """
    # The standard walk of a segment tree from the leaves up, which takes the outermost nodes.
    wholes, parts = 0, 0
    left, right = first + leaves, last + leaves
    while left < right:
        if left & 1:
            whole[wholes] = left
            wholes, left = wholes + 1, left + 1
        if right & 1:
            right -= 1
            whole[wholes] = right
            wholes += 1
        left, right = left >> 1, right >> 1
    # All nodes that meet the range but are not covered by it: ancestors of its first and last
    # leaf.
    left, right, width = first + leaves, last - 1 + leaves, 1
    while left > 0:
        if left * width - leaves < first or (left + 1) * width - leaves > last:
            part[parts] = left
            parts += 1
        if right != left and (right + 1) * width - leaves > last:
            part[parts] = right
            parts += 1
        # In the row above, node numbers are halved and each node is twice as wide.
        left, right, width = left >> 1, right >> 1, width << 1
    return wholes + 1000 * parts


@inner
def add_bytes(lows: IntArray, highs: IntArray, begin: int, length: int, low: int, high: int) -> int:
    """Add `[low, high)` to a sorted list of disjoint byte ranges; return its new length."""
    # Bisection for the first range that ends at the new one or later.
    at, end = begin, begin + length
    while at < end:
        middle = (at + end) >> 1
        if highs[middle] < low:
            at = middle + 1
        else:
            end = middle
    end = begin + length
    past = at
    # All ranges that touch the new one are merged into it, which keeps the lists short.
    while past < end and lows[past] <= high:
        past += 1
    if past == at:
        for q in range(end, at, -1):
            lows[q], highs[q] = lows[q - 1], highs[q - 1]
        lows[at], highs[at] = low, high
        return length + 1
    lows[at] = min(low, lows[at])
    highs[at] = max(high, highs[past - 1])
    gone = past - at - 1
    if gone > 0:
        for q in range(past, end):
            lows[q - gone], highs[q - gone] = lows[q], highs[q]
    return length - gone


@kernel
def sink(keys: IntArray, items: IntArray, at: int, count: int) -> None:
    """Move an entry of a heap, lowest key first, down to its place."""
    key, item = keys[at], items[at]
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[at], items[at] = keys[child], items[child]
        at = child
    keys[at], items[at] = key, item


@inner
def find_hole(
    lows: IntArray,
    highs: IntArray,
    at: IntArray,
    end: IntArray,
    keys: IntArray,
    items: IntArray,
    lists: int,
    size: int,
    alignment: int,
    tightest: bool,
) -> int:
    """Return the offset of the lowest or tightest hole between the byte ranges of several lists.

    List `l` is `lows[at[l]:end[l]]` with its `highs`; it is not empty. `at`, `end`, `keys` and
    `items` are overwritten.

    Sketch: merge the lists by ascending range. The longest list is scanned directly, the others are
    merged by a heap, so that most steps do not touch the heap. `low` is the highest end so far; a
    range that starts above it leaves a hole. Ranges of a list that follow each other too closely to
    leave a hole of the needed size are skipped at once.
    """
    longest = 0
    for q in range(1, lists):
        if end[q] - at[q] > end[longest] - at[longest]:
            longest = q
    p, past = 0, 0
    if lists > 0:
        p, past, lists = at[longest], end[longest], lists - 1
        # The last list takes the place of the longest, so the heap has no hole.
        at[longest], end[longest] = at[lists], end[lists]
    # The heap has the lowest start of each list.
    for q in range(lists):
        keys[q], items[q] = lows[at[q]], q
    for q in range(lists // 2 - 1, -1, -1):
        sink(keys, items, q, lists)
    low, best, spare = 0, -1, 2**62
    # Ranges come by ascending start: below each of them there may be a hole above `low`.
    while p < past or lists > 0:
        walks = p < past and (lists == 0 or lows[p] <= keys[0])
        room = (lows[p] if walks else keys[0]) - low
        # Division is slow. Padding is below `alignment`, so other holes are ruled out first.
        if size <= room < spare + alignment:
            found = align(low, alignment)
            if size <= low + room - found < spare:
                best, spare = found, low + room - found
                if not tightest or spare == size:
                    return best
        if walks:
            low = max(low, highs[p])
            p += 1
            # A range with too little room below it in its own list cannot bound a suitable hole.
            while p < past and lows[p] - low < size:
                low = max(low, highs[p])
                p += 1
            continue
        q = items[0]
        r = at[q]
        low = max(low, highs[r])
        r += 1
        while r < end[q] and lows[r] - low < size:
            low = max(low, highs[r])
            r += 1
        at[q] = r
        if r < end[q]:
            keys[0] = lows[r]
        else:
            lists -= 1
            keys[0], items[0] = keys[lists], items[lists]
        sink(keys, items, 0, lists)
    return best if best >= 0 else align(low, alignment)


@kernel
def run_place_indexed(
    sequence: IntArray,
    first: IntArray,
    last: IntArray,
    size: IntArray,
    alignment: IntArray,
    pin: IntArray,
    pairs: IntArray,
    partners: IntArray,
    sections: int,
    blocks: int,
    tightest: bool,
) -> IntArray:
    """Return the offsets of `run_place`, shape `(k,)`; buffers without bytes lie at 0.

    `sequence`, `size`, `alignment`, `pin`, `pairs`, `partners`, `tightest`: as in `run_place`.
    `first`, `last`: live ranges in sections, numbered below `sections`. `sections`: number of
    sections. `blocks`: number of blocks into which time is divided, a power of two.

    Notes
    -----
    A binary tree covers the sections; the nodes of one of its rows are the blocks. A live range is
    the union of O(log k) nodes, its own nodes. The index consists of lists of occupied byte ranges,
    merged where they touch:

    * per node: the buffers that are live somewhere in the node;
    * per node below the blocks: the buffers that have the node as one of their own;
    * per block: the buffers that are live in all of the block.

    All placed buffers that overlap a live range appear in the first lists of its own nodes, or in
    the other lists of the ancestors of these nodes. The index takes O(k (log k + blocks)) memory at
    worst. A placement costs O(r log log k), where r is the number of merged ranges that it passes;
    r is small if buffers lie close together. The placed partners of a buffer are one more list,
    made for its placement only, in O(p^2) time for p partners.
    """
    # The tree has at least one leaf per block; more sections double it.
    leaves = blocks
    while leaves < sections:
        leaves *= 2
    per_block = leaves // blocks
    whole, part = np.empty(200, np.int64), np.empty(200, np.int64)
    # Lists with numbers below 2 * leaves hold the buffers live in all of a node, the others those
    # live in some part of it.
    begin = np.zeros(4 * leaves + 1, np.int64)
    # Count the entries of each list first, so that all lists fit in one array.
    for i in sequence:
        if size[i] > 0 and first[i] < last[i]:
            counts = nodes_of(first[i], last[i], leaves, whole, part)
            for q in range(counts % 1000):
                if whole[q] >= 2 * blocks:
                    begin[whole[q] + 1] += 1
                begin[2 * leaves + whole[q] + 1] += 1
            for q in range(counts // 1000):
                begin[2 * leaves + part[q] + 1] += 1
            for q in range(-(-first[i] // per_block), last[i] // per_block):
                begin[blocks + q + 1] += 1
    for q in range(4 * leaves):
        begin[q + 1] += begin[q]
    length = np.zeros(4 * leaves, np.int64)
    # The list of the partners of one buffer follows the lists of the index.
    own, most = begin[4 * leaves], 0
    for i in sequence:
        most = max(most, pairs[i + 1] - pairs[i])
    lows, highs = np.empty(own + most, np.int64), np.empty(own + most, np.int64)
    is_placed = np.zeros(len(sequence), np.bool_)
    at, end = np.empty(400, np.int64), np.empty(400, np.int64)
    keys, items = np.empty(400, np.int64), np.empty(400, np.int64)
    offsets = np.zeros(len(sequence), np.int64)
    for i in sequence:
        offsets[i] = max(0, pin[i])
        # A buffer without bytes or without steps overlaps nothing.
        if size[i] == 0 or first[i] >= last[i]:
            continue
        counts = nodes_of(first[i], last[i], leaves, whole, part)
        wholes, parts = counts % 1000, counts // 1000
        if pin[i] < 0:
            lists = 0
            for q in range(wholes + parts + 2):
                if q < wholes:
                    v = 2 * leaves + whole[q]
                elif q < wholes + parts:
                    v = part[q - wholes] if part[q - wholes] >= 2 * blocks else 0
                else:
                    # A buffer that is live in all of a node above the blocks is live in all of one
                    # of the two outer blocks of the live range.
                    v = blocks + (first[i] if q == wholes + parts else last[i] - 1) // per_block
                if length[v] > 0:
                    at[lists], end[lists] = begin[v], begin[v] + length[v]
                    lists += 1
            beside = 0
            for q in range(pairs[i], pairs[i + 1]):
                j = partners[q]
                if is_placed[j]:
                    beside = add_bytes(lows, highs, own, beside, offsets[j], offsets[j] + size[j])
            if beside > 0:
                at[lists], end[lists] = own, own + beside
                lists += 1
            offsets[i] = find_hole(
                lows, highs, at, end, keys, items, lists, size[i], alignment[i], tightest
            )
        low, high, is_placed[i] = offsets[i], offsets[i] + size[i], True
        for q in range(wholes):
            v = whole[q]
            if v >= 2 * blocks:
                length[v] = add_bytes(lows, highs, begin[v], length[v], low, high)
            v += 2 * leaves
            length[v] = add_bytes(lows, highs, begin[v], length[v], low, high)
        for q in range(parts):
            v = 2 * leaves + part[q]
            length[v] = add_bytes(lows, highs, begin[v], length[v], low, high)
        for v in range(blocks - (-first[i] // per_block), blocks + last[i] // per_block):
            length[v] = add_bytes(lows, highs, begin[v], length[v], low, high)
    return offsets
