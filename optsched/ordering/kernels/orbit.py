"""Hashes of states that do not change when identical blocks are swapped.

The hash of a state is made of the random codes of the ops placed. Corresponding ops of identical
blocks share a code. The codes of a block are combined by exclusive or (its *part*), the part is
mixed, and the mixed parts of all blocks are summed: a sum does not depend on which block has which
part. All other ops are combined by exclusive or. There are two 62-bit hashes; sums are taken modulo
2**62, so that Python and compiled code agree.

Example: blocks (a1, a2) and (b1, b2) with the codes 5 and 9. The states {a1} and {b1} both have the
parts 5 and 0 in some sequence, so the sum mix(5) + mix(0); {a1, b1} has mix(5) + mix(5).
"""

from __future__ import annotations

from typing import NamedTuple

from numpy import int64

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.kernels.state import Downset
from optsched.ordering.kernels.states import Moves
from optsched.runtime.kernel import inner

HASH = (1 << 62) - 1
HALF, HALF_BITS = (1 << 31) - 1, 31
ROUNDS = (0x5DEECE67, 0x6C078965, 0x41C64E6D, 0x7FEB352D)
"""Odd factors below `2**31` for mixing bits."""

LOW, HIGH = 0, 1


class Keys(NamedTuple):
    """Codes from which hashes are made, and the parts of the blocks in the current state."""

    codes: IntArray
    """Shape `(2, n)`: random codes of the ops; below `2**62` for ops of blocks."""
    block: IntArray
    """Shape `(n,)`: the block of an op, or -1."""
    salt: IntArray
    """Shape `(2, blocks)`: initial part of a block; equal for blocks that can be swapped."""
    part: IntArray
    """Shape `(2, blocks)`: the salt combined with the codes of all ops placed."""
    total: IntArray
    """Shape `(2,)`: sums of the mixed parts."""
    same: IntArray
    """Shape `(blocks,)`: 1 if an earlier block has the same part, so that the two can be
    swapped."""
    slot: IntArray
    """Hash table with open addressing: a block by its part, or -1."""


@inner
def mixed(value: Int) -> Int:
    """Return a pseudo-random permutation of the numbers below `2**62` (a Feistel network)."""
    left, right = value >> HALF_BITS, value & HALF
    for factor in ROUNDS:
        left, right = right, left ^ (((right * factor) >> 16) & HALF)
    return (left << HALF_BITS) | right


@inner
def take_stock(state: Downset, forward: bool, keys: Keys) -> tuple[Int, Int]:
    """Compute the parts of the blocks; return the two hashes of all other ops placed.

    An op counts as placed if it is in the downset, or not in it if the search is backward,
    regardless of whether this search has placed it.
    """
    codes, block, part, slot = keys.codes, keys.block, keys.part, keys.slot
    # The parts are computed from the state, as it may have been reached along another path.
    for j in range(len(keys.same)):
        part[LOW, j], part[HIGH, j] = keys.salt[LOW, j], keys.salt[HIGH, j]
    low, high = int64(0), int64(0)
    for v in range(len(block)):
        if state.done[v] == forward:
            if block[v] >= 0:
                turn_part(keys, v)
            else:
                low ^= codes[LOW, v]
                high ^= codes[HIGH, v]
    keys.total[LOW] = keys.total[HIGH] = 0
    # The table is emptied for each state; its size is a small multiple of the blocks.
    for i in range(len(slot)):
        slot[i] = -1
    for j in range(len(keys.same)):
        count_part(keys, int64(j), 1)
        keys.same[j] = 0
        # Blocks with equal parts meet in the same slot, so equal pairs need no comparison of all
        # pairs.
        at = part[LOW, j] & (len(slot) - 1)
        while slot[at] >= 0:
            i = slot[at]
            if part[LOW, i] == part[LOW, j] and part[HIGH, i] == part[HIGH, j]:
                keys.same[j] = 1
                break
            at = (at + 1) & (len(slot) - 1)
        if slot[at] < 0:
            slot[at] = j
    return low, high


@inner
def count_part(keys: Keys, j: Int, sign: Int) -> None:
    """Add the mixed part of a block to the sums (`sign` 1), or subtract it (-1)."""
    for h in range(2):
        keys.total[h] = (keys.total[h] + sign * mixed(keys.part[h, j])) & HASH


@inner
def add_moves(
    keys: Keys, moves: Moves, first: Int, end: Int, hashes: tuple[Int, Int]
) -> tuple[Int, Int]:
    """Return the two hashes of the state after `moves[first:end]`; the keys are unchanged.

    `hashes` are those of the ops placed so far that are not in a block.
    """
    low, high = hashes
    if len(keys.same) == 0:
        for k in range(first, end):
            low ^= keys.codes[LOW, moves[k]]
            high ^= keys.codes[HIGH, moves[k]]
        return low, high
    low_total, high_total = keys.total[LOW], keys.total[HIGH]
    for k in range(first, end):
        v = moves[k]
        if keys.block[v] >= 0:
            # A sum needs the old mixed part taken off before the part changes.
            count_part(keys, keys.block[v], -1)
            turn_part(keys, v)
            count_part(keys, keys.block[v], 1)
        else:
            low ^= keys.codes[LOW, v]
            high ^= keys.codes[HIGH, v]
    low ^= keys.total[LOW]
    high ^= keys.total[HIGH]
    # An exclusive or undoes itself: this restores the parts.
    for k in range(first, end):
        if keys.block[moves[k]] >= 0:
            turn_part(keys, moves[k])
    keys.total[LOW], keys.total[HIGH] = low_total, high_total
    return low, high


@inner
def turn_part(keys: Keys, v: Int) -> None:
    """Add the code of an op to the part of its block, or remove it: both are an exclusive or."""
    keys.part[LOW, keys.block[v]] ^= keys.codes[LOW, v]
    keys.part[HIGH, keys.block[v]] ^= keys.codes[HIGH, v]
