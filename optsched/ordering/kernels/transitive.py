"""Who runs before another member of the same row: what a problem says more often than it must.

Ops are numbered in topological order. Each has a bit for every op of a block that runs before it,
and the blocks are gone through one by one: that takes little memory, however many ops there are.
"""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.bits import WORD, has_bit, set_bit
from optsched.ordering.kernels.cut import Flags
from optsched.ordering.kernels.max_flow import Int
from optsched.runtime.kernel import inner, kernel


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
