"""Hashes of states that are the same for all that identical blocks make of one by changing places.

A state's hash is made of the codes of the ops placed. Ops of identical blocks that correspond to
each other have one code, the exclusive or of a block's codes is mixed, and the blocks are summed:
so it does not matter which block has come how far. Two 62-bit hashes; sums are taken modulo 2**62,
so that plain Python and compiled code agree.
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
"""Odd factors below `2**31` that bits are mixed by."""

LOW, HIGH = 0, 1


class Keys(NamedTuple):
    """What hashes are made of, and what is known of the blocks in the current state.

    Parameters
    ----------
    codes
        Shape `(2, n)`: random codes of the ops; below `2**62` for those of blocks.
    block
        Shape `(n,)`: the block that an op is in, or -1.
    salt
        Shape `(2, blocks)`: what blocks begin with: equal for those that may change places.
    part
        Shape `(2, blocks)`: the same with the codes of all that is placed.
    total
        Shape `(2,)`: sums of the parts, mixed.
    same
        Shape `(blocks,)`: 1 if an earlier block is as far, and may change places with it; or 0.
    slot
        Open addressing: a block by its part, or -1.
    """

    codes: IntArray
    block: IntArray
    salt: IntArray
    part: IntArray
    total: IntArray
    same: IntArray
    slot: IntArray


@inner
def mixed(value: Int) -> Int:
    """A number below `2**62` for another one: one to one, and as good as random."""
    left, right = value >> HALF_BITS, value & HALF
    for factor in ROUNDS:
        left, right = right, left ^ (((right * factor) >> 16) & HALF)
    return (left << HALF_BITS) | right


@inner
def take_stock(state: Downset, forward: bool, keys: Keys) -> tuple[Int, Int]:
    """Work out the parts of the blocks; return the two hashes of all other ops placed.

    Placed is all that the state has, or lacks if it is to shrink: not by this search alone.
    """
    codes, block, part, slot = keys.codes, keys.block, keys.part, keys.slot
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
    for i in range(len(slot)):
        slot[i] = -1
    for j in range(len(keys.same)):
        count_part(keys, int64(j), 1)
        keys.same[j] = 0
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
    """Add the part of a block to the sums, or take it out."""
    for h in range(2):
        keys.total[h] = (keys.total[h] + sign * mixed(keys.part[h, j])) & HASH


@inner
def add_moves(
    keys: Keys, moves: Moves, first: Int, end: Int, hashes: tuple[Int, Int]
) -> tuple[Int, Int]:
    """Return the two hashes of the current state with `moves[first:end]` made.

    `hashes` are those of the ops placed so far that are in no block.
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
            count_part(keys, keys.block[v], -1)
            turn_part(keys, v)
            count_part(keys, keys.block[v], 1)
        else:
            low ^= keys.codes[LOW, v]
            high ^= keys.codes[HIGH, v]
    low ^= keys.total[LOW]
    high ^= keys.total[HIGH]
    for k in range(first, end):
        if keys.block[moves[k]] >= 0:
            turn_part(keys, moves[k])
    keys.total[LOW], keys.total[HIGH] = low_total, high_total
    return low, high


@inner
def turn_part(keys: Keys, v: Int) -> None:
    """Put the code of an op into the part of its block, or take it out."""
    keys.part[LOW, keys.block[v]] ^= keys.codes[LOW, v]
    keys.part[HIGH, keys.block[v]] ^= keys.codes[HIGH, v]
