"""Use of identical blocks: fewer states, and precedences that can be added without loss.

Blocks are *identical* if swapping any two of them leaves the problem unchanged
(:func:`optsched.ordering.reduce.blocks.find_blocks`).

*States.* If two states differ only by a swap of blocks, and the goal of the search does not, then
their completions differ by the same swap, with equal peaks. One of the states is enough, so both
get the same hash. The state that is stored is one that was really reached: paths, commits and
probes consist of real moves.

*Canonical order of copies.* Choose an op of the block. In any order the blocks can be swapped so
that these ops run in the sequence of the blocks, without changing the peak. So these precedences
can be added to the problem, one chain per family of blocks, as families are disjoint. With the
chain only blocks whose chosen op has run may still be swapped, since the rest of their ops does not
depend on the chain. The other blocks are told apart.

Example: four equal heads, each `read`, `scale`, `write`. The states "`read` of head 1 has run" and
"`read` of head 2 has run" count as one. Or the four `scale` ops are chained, which leaves one of
the 24 sequences of the heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.bound.precedences import with_edges
from optsched.ordering.context import BlockFamily, SearchContext
from optsched.ordering.kernels.cut import Flags, around
from optsched.ordering.kernels.orbit import HASH, Keys


def make_keys(families: Sequence[BlockFamily], codes: IntArray, goal: Flags) -> Keys:
    """Return the keys by which the states of a search are hashed.

    Two states get the same hash if a swap of blocks that does not change the goal turns one into
    the other. The start of the search does not matter, as only completions are compared. `codes`
    are random 64-bit codes of the ops, shape `(2, n)`; `goal` is the downset in which the search
    ends, shape `(n,)`.
    """
    count = sum(len(family.rows) for family in families)
    block = np.full(codes.shape[1], -1, np.int64)
    salt = np.zeros((2, count), np.int64)
    # Codes change for blocks only; without any the caller's array can be used as it is.
    codes = codes.copy() if count else codes
    rng = np.random.default_rng(count)
    at = 0
    for family in families:
        rows = family.rows
        # Ops of one column get the code of the first row: that makes equal parts equal.
        codes[:, rows] = codes[:, rows[0]][:, np.newaxis] & HASH
        salts: dict[bytes, IntArray] = {}
        # Blocks that the goal treats differently must not be swapped, so they get different salts.
        for row in rows:
            block[row] = at
            salt[:, at] = salts.setdefault(goal[row].tobytes(), rng.integers(0, HASH, 2))
            if family.column is not None:
                # The block has a salt of its own until its chosen op is placed, whose code cancels
                # that salt: from then on the block may be swapped.
                own = rng.integers(0, HASH, 2)
                codes[:, row[family.column]] ^= own
                salt[:, at] ^= own
            at += 1
    total, same = np.zeros(2, np.int64), np.zeros(count, np.int64)
    # A power of two, and more than twice as many slots as blocks.
    slot = np.zeros(1 << (2 * count).bit_length(), np.int64)
    return Keys(codes, block, salt, salt.copy(), total, same, slot)


@dataclass(frozen=True, slots=True)
class OrderedCopies:
    """A problem with a canonical order of identical blocks; its minimum peak is the same."""

    context: SearchContext
    families: tuple[BlockFamily, ...]

    @property
    def columns(self) -> tuple[int, ...]:
        """The column of the chained ops, by family."""
        return tuple(family.column or 0 for family in self.families)

    @property
    def large(self) -> bool:
        """True if a considerable part of the ops is in blocks of more than one op."""
        inside = sum(family.rows.size for family in self.families if family.rows.shape[1] > 1)
        return inside * self.context.effort.large_part >= self.context.ops

    def lead(self, order: Sequence[int]) -> list[int]:
        """Turn an order of the original problem into one of this problem, with the same peak.

        Blocks are swapped so that their chosen ops run in the sequence of the rows.
        """
        step = np.empty(len(order), np.int64)
        step[np.asarray(order)] = np.arange(len(order))
        image = np.arange(len(order))
        for family in self.families:
            # `met` are the rows by the step of their chosen op: the i-th to run takes the place of
            # row i.
            met = np.argsort(step[family.rows[:, family.column]])
            image[family.rows[met]] = family.rows
        found: list[int] = image[np.asarray(order)].tolist()
        return found


def order_copies(
    context: SearchContext,
    families: Sequence[BlockFamily],
    during: IntArray,
    chosen: Sequence[int] = (),
) -> OrderedCopies:
    """Return the problem with a canonical order of its identical blocks.

    The chosen op of a block is one that is related to most other ops of its block, and of these the
    one with most live bytes: its sequence implies most about the others. `during` are the live
    bytes while each op runs in some good order, shape `(n,)`; `chosen` are the columns that an
    earlier search chose, which are used if the blocks have them.
    """
    wide = [family.rows.shape[1] for family in families]
    # Columns from a file may not fit these blocks; they are only a hint.
    if len(chosen) != len(wide) or any(
        column >= ops for column, ops in zip(chosen, wide, strict=True)
    ):
        chosen = []
        for family in families:
            context.check_time()
            chosen.append(pick_column(context, family.rows, during))
    ordered = [BlockFamily(x.rows, column) for x, column in zip(families, chosen, strict=True)]
    columns = [family.rows[:, family.column] for family in ordered] or [np.zeros(0, np.int64)]
    first = np.concatenate([column[:-1] for column in columns])
    second = np.concatenate([column[1:] for column in columns])
    problem = with_edges(context.problem, first, second)
    made = replace(context, problem=problem, priority=during)
    made.set_families(ordered)
    return OrderedCopies(made, tuple(ordered))


def pick_column(context: SearchContext, rows: IntArray, during: IntArray) -> int:
    """Return the column of the op that blocks are ordered by."""
    if len(rows[0]) == 1:
        return 0
    ordered = np.zeros(len(rows[0]), np.int64)
    for i, v in enumerate(rows[0].tolist()):
        context.check_time()
        before, after = context.pick(around)(context.problem, v)
        ordered[i] = np.count_nonzero(before[rows[0]] | after[rows[0]])
    # Most relations first, then most live bytes: `lexsort` sorts by its last key first.
    return int(np.lexsort((during[rows].max(axis=0), ordered))[-1])
