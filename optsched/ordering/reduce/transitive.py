"""Transitive reduction: find edges that follow from others, and users that are never last.

Ops are numbered in topological order. Each op has a set of bits: the ops that run before it. The
sets of all ops together would take `n * n` bits, so the ops that bits stand for are divided into
blocks, and one block is worked out after another in the same memory.

Example: with the edges `a` to `b`, `b` to `c` and `a` to `c`, the last one follows from the others.
If `a` and `b` both read a buffer, `a` is never its last user, as `b` always runs later.
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
"""Words of bits per op and block."""

CheckTime = Callable[[], None]
"""Called now and then; raises an exception once the time is up."""


def find_implied(
    number: IntArray, at: IntArray, pred: Rows, user: Rows, check_time: CheckTime
) -> tuple[Flags, Flags]:
    """Return flags of the edges in `pred`, and of the users in `user`, that follow from others.

    `number` has the topological number of each op, `at` that of the op of each row of `pred`.
    """
    n = len(at)
    edges, pred_at = _numbered(pred, number, at)
    uses, user_at = _numbered(user, number, np.arange(len(user.ptr) - 1))
    # The bits of an op are needed up to the last op that it directly precedes, or that uses a
    # buffer with it. Later ops need no row of this block.
    far = np.zeros(n, np.int64)
    np.maximum.at(far, edges.idx, np.repeat(np.arange(n), np.diff(edges.ptr)))
    np.maximum.at(far, uses.idx, np.repeat(uses.idx[uses.ptr[1:] - 1], np.diff(uses.ptr)))
    marks = np.zeros(len(pred.idx), np.bool_), np.zeros(len(user.idx), np.bool_)
    # One block fits the processor's cache; the number of blocks grows with the ops.
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
    # Flags are in the numbered sequence; give them back in that of the caller.
    for marked, place in zip(marks, (pred_at, user_at), strict=True):
        marked[place] = marked.copy()
    return marks


def without(rows: Rows, marks: Flags) -> Rows:
    """Return the rows without the marked members."""
    left = np.append(0, np.cumsum(~marks))
    return Rows(left[rows.ptr], rows.idx[~marks])


def _numbered(rows: Rows, number: IntArray, at: IntArray) -> tuple[Rows, IntArray]:
    """Return the rows at their places `at`, with members numbered and ascending.

    The second array has the former place of each member.
    """
    row, member = np.repeat(at, np.diff(rows.ptr)), number[rows.idx]
    place = np.lexsort((member, row))
    ptr = np.zeros(len(at) + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=len(at)), out=ptr[1:])
    return Rows(ptr, member[place]), place


@inner
def mark_row(
    member: IntArray, first: Int, end: Int, above: IntArray, start: Int, row: IntArray, marks: Flags
) -> None:
    """Collect in `row` the ops before all members of a row, and mark the members among them."""
    width = len(row)
    # Members before the block have no bits in it, and rows of later ops may be stale.
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
    """Mark the edges from a block of ops, and their uses of buffers, that follow from others.

    An edge follows if its first op runs before another predecessor of its second op. A use of a
    shared buffer can be dropped if the op runs before another user.

    Sketch: for each op in topological order, its set is the union of the sets of its predecessors
    (ancestors at a distance of two or more). A predecessor found in it is implied; then the
    predecessors are added. The rows of users are treated in the same way.

    Parameters
    ----------
    pred_ptr, pred, user_ptr, user
        Predecessors of each op, and users of each shared buffer, ascending in each row. Each op has
        a greater number than its predecessors.
    start, end
        First op of the block; one past the last op of any row that has members of the block.
    above
        Shape `(n, width)`: work space; a block has `width` words of bits.
    edges, uses
        Shapes of `pred` and `user`: flags that are set.
    """
    width = above.shape[1]
    for v in range(start, end):
        row = above[v]
        for w in range(width):
            row[w] = 0
        mark_row(pred, pred_ptr[v], pred_ptr[v + 1], above, start, row, edges)
        # The predecessors are added only now: a bit found before means a path of two edges or
        # more.
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
