"""Helpers of the orderings: their type, and sorted rows of neighbors.

Example: an ordering of a graph of three ops returns an array such as `[1, 0, 2]`: op 1 runs first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np

from optsched.model.arrays import GraphArrays, IntArray, Rows
from optsched.model.graph import Graph
from optsched.model.inplace import matched_bytes


class Ordering(Protocol):
    """Function that returns a valid order of a graph; equal graphs and seeds give equal orders."""

    def __call__(self, graph: Graph, seed: int = 0) -> IntArray:
        """Return the op ids, first to run first, shape `(n,)`."""


def work_of(arrays: GraphArrays) -> int:
    """Return the number of elements that a sorter visits, which decides if compiling pays off."""
    return arrays.op_count + len(arrays.pred.idx) + len(arrays.read.idx)


@lru_cache(maxsize=4)
def balance(count: int) -> IntArray:
    """Return random weights that balance a tree of ops, shape `(count + 1,)`.

    They do not affect any order.
    """
    return np.append(np.random.default_rng(0).permutation(count), count).astype(np.int64)


def sort_rows(rows: Rows, *keys: IntArray) -> Rows:
    """Sort the entries of each row by keys, most significant first, with one value per entry."""
    return Rows(rows.ptr, rows.idx[np.lexsort((*reversed(keys), rows.owners()))])


def savings(arrays: GraphArrays) -> tuple[IntArray, IntArray]:
    """Return the in-place data of LPMF's kernels, `gain` and `cap` (see there).

    For an op with several outputs and inputs, the kernels take the sum of the maximum gains of its
    inputs, up to the size of the heaviest matching. This can exceed the real saving, but is close
    enough as a sort key.
    """
    cap = np.zeros(arrays.op_count, np.int64)
    if not len(arrays.inplace_op):
        return np.zeros(0, np.int64), cap
    gain = np.zeros(len(arrays.user.idx), np.int64)
    rows: dict[int, list[tuple[int, int]]] = {}
    for v, output, source in zip(
        arrays.inplace_op.tolist(),
        arrays.inplace_output.tolist(),
        arrays.inplace_source.tolist(),
        strict=True,
    ):
        rows.setdefault(v, []).append((output, source))
        # A row of users is ascending, so that the entry is found by bisection.
        at = arrays.user.ptr[source] + int(np.searchsorted(arrays.user.row(source), v))
        gain[at] = max(gain[at], arrays.size[output])
    for v, pairs in rows.items():
        cap[v] = matched_bytes(pairs, arrays.size)
    return gain, cap
