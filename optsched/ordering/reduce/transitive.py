"""Transitive reduction: edges that follow from others, and users that are never last."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optsched.model.arrays import IntArray, Rows
from optsched.ordering.kernels.bits import WORD, words
from optsched.ordering.kernels.cut import Flags
from optsched.ordering.kernels.transitive import mark_implied

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
