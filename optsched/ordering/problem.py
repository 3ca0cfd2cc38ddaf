"""The ordering problem: the numbers that decide the peak of an order, as flat arrays for kernels.

After the ops of a downset `D` (a set of ops closed under predecessors) have ended, the live bytes
are

    M(D) = base + sum of delta[v] over D - sum of size[b] over shared buffers b with all users in D

`delta[v]` are the bytes that op `v` allocates less those of the buffers that only `v` uses; a
*shared* buffer has at least two users that may be its last. While `v` runs, `rise[v]` bytes more
than before it are live. In an in-place graph the largest of its *savings* whose shared buffers have
no other users left is subtracted (:mod:`optsched.ordering.inplace`); no `M(D)` depends on that.

`M` is submodular, `M(X | Y) + M(X & Y) <= M(X) + M(Y)`: a shared buffer that is freed in `X` or in
`Y` is freed in `X | Y`, and one freed in both is freed in `X & Y` as well. All rules of the engine
rest on this.

Example: op 0 makes 5 bytes that ops 1 and 2 read, which make 2 and 3 bytes that stay. Then
`rise = (5, 2, 3)`, `delta = (5, 2, 3)`, and one shared buffer of size 5 has the users 1 and 2:
`M({0, 1}) = 7`, `M({0, 1, 2}) = 10 - 5`.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from optsched.model.arrays import GraphArrays, IntArray, Rows, transpose
from optsched.ordering.inplace import Savings, graph_savings, pack_savings


class OrderingProblem(NamedTuple):
    """Ops and shared buffers as flat arrays; row `i` of an index is `index[ptr[i]:ptr[i + 1]]`."""

    pred_ptr: IntArray
    pred: IntArray
    succ_ptr: IntArray
    succ: IntArray
    """`pred_ptr`, `pred`, `succ_ptr` and `succ`: rows by op: the ops directly before it, and those
    directly after it."""
    read_ptr: IntArray
    read: IntArray
    """`read_ptr` and `read`: rows by op: the shared buffers that it uses."""
    user_ptr: IntArray
    user: IntArray
    """`user_ptr` and `user`: rows by shared buffer: the ops that use it."""
    rise: IntArray
    delta: IntArray
    """`rise` and `delta`: shape `(n,)`, bytes: live bytes while the op runs, and after it has
    ended, less those before it; without the shared buffers that end."""
    size: IntArray
    """Shape `(m,)`: bytes of the shared buffers, all positive."""
    saving_ptr: IntArray
    saving: IntArray
    need_ptr: IntArray
    need: IntArray
    """`saving_ptr`, `saving`, `need_ptr` and `need`: the fields of
    :class:`optsched.ordering.inplace.Savings`."""
    base: int
    """Bytes live before the first op."""

    @property
    def savings(self) -> Savings:
        """The in-place savings alone."""
        return Savings(self.saving_ptr, self.saving, self.need_ptr, self.need)


def make_problem(
    pred: Rows,
    user: Rows,
    rise: IntArray,
    delta: IntArray,
    size: IntArray,
    savings: Savings | None = None,
    base: int = 0,
) -> OrderingProblem:
    """Return a problem from its predecessors and users; the transposed rows are derived."""
    none = np.zeros(0, np.int64)
    savings = savings or Savings(
        np.zeros(len(rise) + 1, np.int64), none, np.zeros(1, np.int64), none
    )
    succ = transpose(pred, len(rise))
    read = transpose(user, len(rise))
    return OrderingProblem(
        pred.ptr, pred.idx, succ.ptr, succ.idx, read.ptr, read.idx, user.ptr, user.idx, rise, delta,
        size, *savings, base,
    )  # fmt: skip


def topological(problem: OrderingProblem) -> list[int]:
    """Return a topological order of the ops."""
    succ = as_lists(problem.succ_ptr, problem.succ)
    return in_order(range(len(succ)), np.diff(problem.pred_ptr).tolist(), succ)


def in_order(
    ops: Iterable[int],
    missing: MutableSequence[int] | dict[int, int],
    succ: Sequence[Iterable[int]],
) -> list[int]:
    """Return the ops, each after its predecessors; ops without predecessors come first, as given.

    `missing` has the number of predecessors of each op, and is overwritten; `succ` has the
    successors of each op. (Kahn's algorithm.)
    """
    order = [v for v in ops if not missing[v]]
    for v in order:
        for w in succ[v]:
            missing[w] -= 1
            if not missing[w]:
                order.append(w)
    return order


def forced_cuts(problem: OrderingProblem, order: Sequence[int]) -> IntArray:
    """Return the numbers of steps of an order after which it is in a state that every order passes.

    Those are the states before and after an op that is comparable to all others: all ops after
    step `i` descend from its op if each has a predecessor at step `i` or later; all ops before it
    are its ancestors if each has a successor at step `i` or earlier. Linear in the size of the
    problem. In a diamond `a`, then `b` and `c`, then `d`, they are 0, 1, 3 and 4.
    """
    n = len(order)
    step = np.empty(n, np.int64)
    step[order] = steps = np.arange(n)
    # By step: the latest predecessor's and the earliest successor's step.
    latest, earliest = np.full(n, -1), np.full(n, n)
    pred, succ = np.diff(problem.pred_ptr), np.diff(problem.succ_ptr)
    np.maximum.at(latest, np.repeat(step, pred), step[problem.pred])
    np.minimum.at(earliest, np.repeat(step, succ), step[problem.succ])
    # From the right, by step: each op after it has a predecessor at this number or later.
    behind = np.append(np.minimum.accumulate(latest[::-1])[::-1], n)[1:]
    # From the left, by step: each op before it has a successor at this number or earlier.
    ahead = np.append(-1, np.maximum.accumulate(earliest))[:-1]
    at = np.flatnonzero((behind >= steps) & (steps >= ahead))
    return np.union1d([0, n], np.concatenate((at, at + 1)))


def as_lists(ptr: IntArray, idx: IntArray) -> list[list[int]]:
    """Return the rows of an index as lists."""
    flat = idx.tolist()
    return [flat[a:b] for a, b in pairwise(ptr.tolist())]


def build_problem(arrays: GraphArrays) -> OrderingProblem:
    """Return the ordering problem of a graph; buffers with a single user go into `delta`."""
    counts = np.diff(arrays.user.ptr)
    # Kept buffers and those without bytes never change the live bytes when a user ends.
    mortal = ~arrays.keep & (arrays.size > 0)
    single = mortal & (counts == 1)
    # A buffer with one user always ends with that op, so it is part of the op's net change.
    delta = arrays.alloc - arrays.own
    np.subtract.at(delta, arrays.user.idx[arrays.user.ptr[:-1][single]], arrays.size[single])
    shared = mortal & (counts > 1)
    ptr = np.zeros(int(shared.sum()) + 1, np.int64)
    np.cumsum(counts[shared], out=ptr[1:])
    user = Rows(ptr, arrays.user.idx[np.repeat(shared, counts)])
    # Shared buffers are renumbered from 0; the numbers of others are never looked up.
    number = np.cumsum(shared) - 1
    saved, savings = graph_savings(arrays, counts, number)
    packed = pack_savings([savings.get(v, ()) for v in range(arrays.op_count)]) if savings else None
    rise, size = arrays.alloc - saved, arrays.size[shared]
    return make_problem(arrays.pred, user, rise, delta, size, packed, arrays.initial)
