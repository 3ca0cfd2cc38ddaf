"""Cliques: sets of buffers that conflict pairwise, grown greedily or searched for.

Sets of buffers are rows of bits (:func:`optsched.model.arrays.bit_rows`), so that a step of either
kernel takes one instruction for many buffers.

Example: of three buffers of 5, 3 and 2 bytes, the first conflicts with both others. The heaviest
clique has 8 bytes.

>>> from optsched.model.arrays import bit_rows
>>> masks, size = bit_rows(np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], bool)), np.array([5, 3, 2])
>>> found = np.zeros(3, np.int64)
>>> count = heaviest_set(masks, size, 0, 1_000, found)
>>> sorted(found[:count].tolist())
[0, 1]
"""

from __future__ import annotations

import math

import numpy as np

from optsched.model.arrays import ROW_BITS, BoolArray, IntArray
from optsched.runtime.kernel import kernel


@kernel
def grow_set(
    first: int,
    most: int,
    masks: IntArray,
    ptr: IntArray,
    partners: IntArray,
    is_left: BoolArray,
    members: IntArray,
) -> int:
    """Write a maximal clique that contains a buffer to `members`; return its number of buffers.

    The buffer added next is the one that covers most of the pairs left, the first one of equals.
    Few buffers cover any: these are in `near`. Without such a buffer, the first one that may be
    added is next.

    Parameters
    ----------
    first
        Buffer to start with.
    most
        Maximum number of buffers in the clique.
    masks
        Shape `(k, words)`: bits of the buffers that conflict with each, as of :func:`bit_rows`; no
        buffer conflicts with itself.
    ptr, partners
        Row `i` of `partners`, from `ptr[i]` to `ptr[i + 1]`: buffers that are a pair with `i`.
    is_left
        Shape of `partners`: True for pairs not covered by a clique yet; those of this clique are
        cleared.
    members
        Shape `(k,)`: the clique is written to its beginning.
    """
    k, words = len(ptr) - 1, masks.shape[1]
    able = np.full(words, (1 << ROW_BITS) - 1, np.int64)
    gain, near = np.zeros(k, np.int64), np.empty(k, np.int64)
    is_member = np.zeros(k, np.bool_)
    count, near_count, best = 0, 0, first
    while best >= 0 and count < most:
        members[count] = best
        is_member[best] = True
        count += 1
        for word in range(words):
            able[word] &= masks[best, word]
        for x in range(ptr[best], ptr[best + 1]):
            i = partners[x]
            if is_left[x]:
                if not gain[i]:
                    near[near_count] = i
                    near_count += 1
                gain[i] += 1
        best, kept = -1, 0
        for x in range(near_count):
            i = near[x]
            if able[i // ROW_BITS] >> i % ROW_BITS & 1:
                near[kept] = i
                kept += 1
                more = 1 if best < 0 else gain[i] - gain[best]
                if more > 0 or (more == 0 and i < best):
                    best = i
        near_count = kept
        word = 0
        while best < 0 and word < words:
            if able[word]:
                best = ROW_BITS * word + math.frexp(able[word] & -able[word])[1] - 1
            word += 1
    # All pairs of the clique are covered, so they give no further gain.
    for y in range(count):
        for x in range(ptr[members[y]], ptr[members[y] + 1]):
            if is_member[partners[x]]:
                is_left[x] = False
    return count


@kernel
def grow_sets(
    masks: IntArray,
    ptr: IntArray,
    partners: IntArray,
    most_work: int,
    members: IntArray,
    ends: IntArray,
) -> int:
    """Write cliques that together contain all pairs to `members`; return their number.

    Each is grown around the first buffer that has a pair in no clique yet. Once that has taken
    `most_work`, every further pair is a clique of two: that pairs are covered matters, and large
    cliques are a gain.

    `masks`, `ptr`, `partners`: as of :func:`grow_set`; the partners of each buffer ascend, and none
    comes twice. `most_work`: maximum number of buffers examined, exceeded by one clique at most.
    `members`: the cliques one after another, long enough for all of them. `ends`: shape `(pairs,)`:
    the position in `members` after each clique.
    """
    k = len(ptr) - 1
    is_left = np.ones(len(partners), np.bool_)
    count, at, work = 0, 0, 0
    for first in range(k):
        for x in range(ptr[first], ptr[first + 1]):
            # Pairs with a buffer of a smaller number are covered.
            while is_left[x] and partners[x] > first:
                if work > most_work:
                    members[at], members[at + 1] = first, partners[x]
                    is_left[x] = False
                    more = 2
                else:
                    more = grow_set(first, k, masks, ptr, partners, is_left, members[at:])
                work += k * more
                at += more
                ends[count] = at
                count += 1
    return count


@kernel
def heaviest_set(
    masks: IntArray, size: IntArray, known: int, most_work: int, found: IntArray
) -> int:
    """Write the heaviest clique of more than `known` bytes to `found`; return its members' number.

    Branch and bound. The buffers that may be added to the clique are colored so that no two of one
    color conflict. A clique contains at most one buffer per color, so the sum of the heaviest
    buffer of each color is an upper limit on the bytes that can be added (Babel 1994). The stack
    `able` has, level after level, the buffers that may be added, by color; `limit` has beside each
    the most bytes that it and those before it on its level can add.

    `masks`: shape `(k, words)`: bits of the buffers that conflict with each, as of
    :func:`bit_rows`. `size`: shape `(k,)`: bytes, in descending order. `known`: bytes that the
    clique must exceed. `most_work`: maximum number of buffers colored, exceeded by one coloring at
    most. `found`: shape `(k,)`: the clique is written to its beginning.
    """
    k, words = len(size), masks.shape[1]
    able = np.empty(k * (k + 1) // 2, np.int64)
    limit = np.empty(len(able), np.int64)
    begin, end = np.zeros(k + 1, np.int64), np.zeros(k + 1, np.int64)
    weight, members = np.zeros(k + 1, np.int64), np.zeros(k, np.int64)
    left, blocked = np.zeros(words, np.int64), np.zeros(words, np.int64)
    for i in range(k):
        left[i // ROW_BITS] |= 1 << i % ROW_BITS
    count, level, work, uncolored = 0, 0, 0, k
    while level >= 0:
        # Color the buffers in `left`: each color takes the first one, then the next one that
        # does not conflict with that color, and so on.
        at, total = begin[level], 0
        work += uncolored
        while uncolored:
            blocked[:] = 0
            heaviest = 0
            for word in range(words):
                free = left[word] & ~blocked[word]
                while free:
                    lowest = free & -free
                    i = ROW_BITS * word + math.frexp(lowest)[1] - 1
                    heaviest = max(heaviest, size[i])
                    able[at], limit[at] = i, total + heaviest
                    at += 1
                    uncolored -= 1
                    left[word] ^= lowest
                    for later in range(word, words):
                        blocked[later] |= masks[i, later]
                    free = left[word] & ~blocked[word]
            total += heaviest
        end[level] = at
        # Go back to the last level on which more than `known` bytes are still possible.
        while level >= 0 and (
            end[level] == begin[level]
            or weight[level] + limit[end[level] - 1] <= known
            or work > most_work
        ):
            level -= 1
        if level < 0:
            break
        # Add the last buffer of this level, which has the largest limit. The branch that has it is
        # searched now, the one without it next.
        end[level] -= 1
        i = able[end[level]]
        members[level] = i
        weight[level + 1] = weight[level] + size[i]
        if weight[level + 1] > known:
            known, count = weight[level + 1], level + 1
            found[:count] = members[:count]
        for x in range(begin[level], end[level]):
            j = able[x]
            if masks[i, j // ROW_BITS] >> j % ROW_BITS & 1:
                left[j // ROW_BITS] |= 1 << j % ROW_BITS
                uncolored += 1
        begin[level + 1] = end[level]
        level += 1
    return count
