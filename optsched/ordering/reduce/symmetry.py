"""What identical blocks are good for: fewer states, and precedences that cost nothing.

Let any two of some blocks change places without a change of the problem (:func:`find_blocks`).

*States.* Where blocks have changed places in a state, what may come next has done so as well, as
long as the goal of the search is as it was: of all such states one is enough. They have one hash.
A stored state stays the set it was met as: ways, commits and probes are made of real moves.

*In line.* In any order let the blocks change places so that some op of theirs, the same in each,
runs in the order of the blocks. That is an order of the same peak, so these precedences may be
added to the problem; one such chain for each family of blocks, as families are disjoint. There
blocks that are beyond the op may still change places on the way to the goal: among them, nothing
that is to come knows of the line. All others are told apart.
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
    """What states are hashed by on the way to a downset.

    Two hashes are the same if blocks can change places, and leave the goal as it is, so that the
    one state becomes the other. Where a search begins does not matter: the rest of the way does.
    `codes` are random 64-bit codes of the ops, shape `(2, n)`; `goal` is the downset that the
    search is to end in, shape `(n,)`.
    """
    count = sum(len(family.rows) for family in families)
    block = np.full(codes.shape[1], -1, np.int64)
    salt = np.zeros((2, count), np.int64)
    codes = codes.copy() if count else codes
    rng = np.random.default_rng(count)
    at = 0
    for family in families:
        rows = family.rows
        codes[:, rows] = codes[:, rows[0]][:, np.newaxis] & HASH
        salts: dict[bytes, IntArray] = {}
        for row in rows:
            block[row] = at
            salt[:, at] = salts.setdefault(goal[row].tobytes(), rng.integers(0, HASH, 2))
            if family.line is not None:
                # Told apart until the op in line is placed: then its code takes that away.
                own = rng.integers(0, HASH, 2)
                codes[:, row[family.line]] ^= own
                salt[:, at] ^= own
            at += 1
    total, same = np.zeros(2, np.int64), np.zeros(count, np.int64)
    slot = np.zeros(1 << (2 * count).bit_length(), np.int64)
    return Keys(codes, block, salt, salt.copy(), total, same, slot)


@dataclass(frozen=True, slots=True)
class LinedUp:
    """A problem in which blocks pass one of their ops in line, in the order of their rows.

    It has the same minimum peak.
    """

    context: SearchContext
    families: tuple[BlockFamily, ...]

    @property
    def lines(self) -> tuple[int, ...]:
        """The column in line of each family."""
        return tuple(family.line or 0 for family in self.families)

    @property
    def large(self) -> bool:
        """Whether a good part of the ops is in blocks of more than one op."""
        inside = sum(family.rows.size for family in self.families if family.rows.shape[1] > 1)
        return inside * self.context.effort.large_part >= self.context.ops

    def lead(self, order: Sequence[int]) -> list[int]:
        """An order of the problem as it was, with blocks in other places so that they are in line.

        It has the same peak.
        """
        step = np.empty(len(order), np.int64)
        step[np.asarray(order)] = np.arange(len(order))
        image = np.arange(len(order))
        for family in self.families:
            met = np.argsort(step[family.rows[:, family.line]])
            image[family.rows[met]] = family.rows
        found: list[int] = image[np.asarray(order)].tolist()
        return found


def line_up(
    context: SearchContext,
    families: Sequence[BlockFamily],
    during: IntArray,
    lines: Sequence[int] = (),
) -> LinedUp:
    """Let the blocks pass one of their ops in line.

    It is one with which most others of its block are in order, and of those one at which most bytes
    are live: once it is known who is first there, most else follows.
    `during` are the live bytes while each op runs in some good order, shape `(n,)`; `lines` are the
    columns that an earlier search took, if they are columns here.
    """
    wide = [family.rows.shape[1] for family in families]
    if len(lines) != len(wide) or any(line >= ops for line, ops in zip(lines, wide, strict=True)):
        lines = []
        for family in families:
            context.check_time()
            lines.append(pick_line(context, family.rows, during))
    lined = [BlockFamily(x.rows, line) for x, line in zip(families, lines, strict=True)]
    columns = [family.rows[:, family.line] for family in lined] or [np.zeros(0, np.int64)]
    first = np.concatenate([column[:-1] for column in columns])
    second = np.concatenate([column[1:] for column in columns])
    problem = with_edges(context.problem, first, second)
    made = replace(context, problem=problem, priority=during)
    made.tell_families(lined)
    return LinedUp(made, tuple(lined))


def pick_line(context: SearchContext, rows: IntArray, during: IntArray) -> int:
    """The column of ops that blocks are to pass in line."""
    if len(rows[0]) == 1:
        return 0
    ordered = np.zeros(len(rows[0]), np.int64)
    for i, v in enumerate(rows[0].tolist()):
        context.check_time()
        before, after = context.pick(around)(context.problem, v)
        ordered[i] = np.count_nonzero(before[rows[0]] | after[rows[0]])
    return int(np.lexsort((during[rows].max(axis=0), ordered))[-1])
