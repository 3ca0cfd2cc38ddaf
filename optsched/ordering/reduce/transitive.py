"""Transitive reduction: edges that follow from others, and users that are never last.

Ops are numbered in topological order. Each has a bit for every op of a block that runs before it,
and the blocks are gone through one by one: that takes little memory, however many ops there are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optsched.model.arrays import IntArray, Rows
from optsched.ordering.kernels.bits import WORD, has_bit, set_bit, words
from optsched.ordering.kernels.cut import Flags
from optsched.ordering.kernels.max_flow import Int
from optsched.runtime.kernel import inner, kernel

BLOCK_WORDS = 16
"""Words of bits that an op has at a time for those that run before it."""

CheckTime = Callable[[], None]
"""Raises when the time is up."""


def find_implied(
    number: IntArray, at: IntArray, pred: Rows, user: Rows, check_time: CheckTime
) -> tuple[Flags, Flags]:
    """Mark the members of rows that come before others, as :func:`mark_implied` does.

    `number` has the ops in topological order, `at` the number of the op of each row of `pred`.
    """
    n = len(at)
    edges, pred_at = _numbered(pred, number, at)
    uses, user_at = _numbered(user, number, np.arange(len(user.ptr) - 1))
    # An op's block is of use up to the last op that reads of it, or shares a buffer with it.
    far = np.zeros(n, np.int64)
    np.maximum.at(far, edges.idx, np.repeat(np.arange(n), np.diff(edges.ptr)))
    np.maximum.at(far, uses.idx, np.repeat(uses.idx[uses.ptr[1:] - 1], np.diff(uses.ptr)))
    marks = np.zeros(len(pred.idx), np.bool_), np.zeros(len(user.idx), np.bool_)
    width = min(BLOCK_WORDS, max(1, words(n)))
    above = np.empty((n, width), np.int64)
    mark = mark_implied.for_work(n * width)
    for start in range(0, n, width * WORD):
        check_time()
        end = int(far[start : start + width * WORD].max()) + 1
        mark(
            edges.ptr, edges.idx, uses.ptr, uses.idx, np.int64(start), np.int64(end), above,
            *marks,
        )  # fmt: skip
    for marked, place in zip(marks, (pred_at, user_at), strict=True):
        marked[place] = marked.copy()
    return marks


def without(rows: Rows, marks: Flags) -> Rows:
    """The rows without the members that are marked."""
    left = np.append(0, np.cumsum(~marks))
    return Rows(left[rows.ptr], rows.idx[~marks])


def _numbered(rows: Rows, number: IntArray, at: IntArray) -> tuple[Rows, IntArray]:
    """The rows by their places `at`, members by number and ascending; where each member was."""
    row, member = np.repeat(at, np.diff(rows.ptr)), number[rows.idx]
    place = np.lexsort((member, row))
    ptr = np.zeros(len(at) + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=len(at)), out=ptr[1:])
    return Rows(ptr, member[place]), place


@inner
def mark_row(
    member: IntArray, first: Int, end: Int, above: IntArray, start: Int, row: IntArray, marks: Flags
) -> None:
    """Add to `row` what runs before members of a row, and mark the members that are among it."""
    width = len(row)
    for i in range(first, end):
        if member[i] >= start:
            for w in range(width):
                row[w] |= above[member[i], w]
    for i in range(first, end):
        at = member[i] - start
        if 0 <= at < width * WORD and has_bit(row, at):
            marks[i] = True


@kernel
def mark_implied(
    pred_ptr: IntArray,
    pred: IntArray,
    user_ptr: IntArray,
    user: IntArray,
    start: Int,
    end: Int,
    above: IntArray,
    edges: Flags,
    uses: Flags,
) -> None:
    """Mark edges from, and uses by, a block of ops that follow from others.

    An edge does if its first op runs before another predecessor of its second one, and a use of a
    shared buffer if the op runs before another of its users.

    Parameters
    ----------
    pred_ptr, pred, user_ptr, user
        Predecessors of each op, users of each shared buffer, the members of a row ascending. Each
        op has a greater number than its predecessors.
    start, end
        The first op of the block; one past the last op of any row that has members of the block.
    above
        Shape `(n, width)`: room to work in; `width` words of bits make a block.
    edges, uses
        Shapes of `pred` and `user`: marked.
    """
    width = above.shape[1]
    for v in range(start, end):
        row = above[v]
        for w in range(width):
            row[w] = 0
        mark_row(pred, pred_ptr[v], pred_ptr[v + 1], above, start, row, edges)
        for i in range(pred_ptr[v], pred_ptr[v + 1]):
            if start <= pred[i] < start + width * WORD:
                set_bit(row, pred[i] - start)
    row = np.copy(above[0])
    for b in range(len(user_ptr) - 1):
        first, last = user_ptr[b], user_ptr[b + 1]
        if user[first] < start + width * WORD and user[last - 1] >= start:
            for w in range(width):
                row[w] = 0
            mark_row(user, first, last, above, start, row, uses)
