"""Simple lower bounds on the peak of every order, each with its witness.

While an op runs, all its ancestors are done and none of its descendants is: a buffer born before
it and used at it or behind it is live, in whatever order. Besides, the graph's inputs are live
before the first step and its outputs after the last. (The closure bound of
:mod:`optsched.ordering` also counts what *some* choice of the incomparable ops must hold; it is
never weaker and costs a maximum flow an op.) In an in-place graph what the op may at most write
into its inputs, in whatever order, is taken off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from optsched.model.arrays import GraphArrays, IntArray, Rows, row_counts
from optsched.model.graph import Graph
from optsched.model.inplace import heaviest_matching
from optsched.model.liveness import running_by_op
from optsched.model.steps import Order
from optsched.ordering.kernels.cut import mark_reach
from optsched.runtime.clock import Clock
from optsched.runtime.kernel import kernel

FOLLOWED = 32
"""Edges that Python follows in the time of one element of work."""


@dataclass(frozen=True, slots=True)
class PeakBound:
    """A number of bytes that no order's peak goes below.

    Parameters
    ----------
    value
        Bytes.
    op
        The op that can not run with fewer, or None where inputs or outputs force the value.
    buffers
        Ids of the buffers that are live then, but for outputs that the op may write into others;
        their sizes add up to `value`.
    """

    value: int
    op: int | None
    buffers: tuple[int, ...]


def peak_lower_bound(
    graph: Graph, orders: Sequence[Order], *, clock: Clock | None = None
) -> PeakBound:
    """Return the best simple bound, looking only at ops that can still raise it.

    Along any order an op runs with at least as many live bytes as its own bound, so ops are tried
    by their lowest known live bytes, most first, until no further one can beat the best.

    Parameters
    ----------
    graph
        The graph.
    orders
        Known orders; more of them spare work. One at least, unless the graph has no ops.
    clock
        At its end the best bound so far is returned.
    """
    arrays = graph.arrays
    used = (np.diff(arrays.user.ptr) > 0) | arrays.keep
    ends = _bound(arrays, (arrays.birth < 0) & used, None), _bound(arrays, arrays.keep, None)
    best = max(ends, key=lambda bound: bound.value)
    if not arrays.op_count:
        return best
    ceiling = np.min([running_by_op(graph, order) for order in orders], axis=0)
    for v in np.argsort(-ceiling, kind="stable").tolist():
        if ceiling[v] <= best.value or (clock and clock.expired()):
            break
        live = _live_with(arrays, v)
        if arrays.size[live].sum() > best.value:
            best = _bound(arrays, live, v)
    return best


def op_bound(
    arrays: GraphArrays, v: int, *, done: Iterable[int] = (), later: Iterable[int] = ()
) -> PeakBound:
    """Return the bytes that are live whenever op `v` runs.

    Parameters
    ----------
    arrays
        Of the graph.
    v
        Op id.
    done, later
        Further ops that are known to have ended then, or not to have begun.
    """
    return _bound(arrays, _live_with(arrays, v, done, later), v)


def _live_with(
    arrays: GraphArrays, v: int, done: Iterable[int] = (), later: Iterable[int] = ()
) -> npt.NDArray[np.bool_]:
    """Flag the buffers that are live whenever an op runs."""
    before = _reachable(arrays.pred, v)
    behind = _reachable(arrays.succ, v)
    behind[v] = True
    _add_reachable(arrays.pred, done, before)
    _add_reachable(arrays.succ, later, behind)
    # The flag appended stands for graph inputs, whose birth is -1: they are born before all.
    born = np.append(before, True)[arrays.birth]
    used = row_counts(arrays.user.ptr, behind[arrays.user.idx]) > 0
    # A buffer born at a parent op waits for its own producer as for a user.
    used |= np.append(behind, False)[arrays.producer]
    live: npt.NDArray[np.bool_] = (born & (used | arrays.keep)) | (arrays.birth == v)
    live[_written_inplace(arrays, v, behind)] = False
    return live


def _written_inplace(arrays: GraphArrays, v: int, behind: npt.NDArray[np.bool_]) -> list[int]:
    """Outputs that an op may at most write into inputs; a user behind it forbids an input."""
    if not len(arrays.inplace_op):
        return []
    first, end = np.searchsorted(arrays.inplace_op, [v, v + 1])
    pairs = []
    for i in range(first, end):
        output, source = int(arrays.inplace_output[i]), int(arrays.inplace_source[i])
        users = arrays.user.row(source)
        if not behind[users[users != v]].any():
            pairs.append((output, source))
    return list(heaviest_matching(pairs, arrays.size).values())


def _bound(arrays: GraphArrays, live: npt.NDArray[np.bool_], op: int | None) -> PeakBound:
    buffers = np.flatnonzero(live & (arrays.size > 0))
    return PeakBound(int(arrays.size[buffers].sum()), op, tuple(buffers.tolist()))


def _reachable(rows: Rows, start: int) -> npt.NDArray[np.bool_]:
    """Flag what can be reached from `start` along `rows`, itself left out."""
    return run_reachable.for_work(len(rows.idx) // FOLLOWED)(rows.ptr, rows.idx, start)


def _add_reachable(rows: Rows, starts: Iterable[int], found: npt.NDArray[np.bool_]) -> None:
    """Flag some rows and what can be reached from them."""
    for u in starts:
        if not found[u]:
            found |= _reachable(rows, u)
            found[u] = True


@kernel
def run_reachable(ptr: IntArray, idx: IntArray, start: int) -> npt.NDArray[np.bool_]:
    """Return what rows lead to from `start`, shape `(rows,)`."""
    seen = np.zeros(len(ptr) - 1, np.bool_)
    mark_reach(ptr, idx, start, seen)
    return seen
