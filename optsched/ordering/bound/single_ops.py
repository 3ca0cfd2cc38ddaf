"""Simple lower bounds on the peak of every order, each with its witness.

While an op runs, all its ancestors have ended, and its descendants start later. A buffer
made by an ancestor (or a graph input) that the op or a descendant uses is therefore live, in every
order; the sizes of these buffers add up to a bound. The inputs of the graph are live before the
first step, and its outputs after the last one. In an in-place graph the bytes that the op can write
into its inputs are subtracted, as many as any order allows.

The closure bound (:mod:`optsched.ordering.bound.closure`) also counts bytes that are live for
*every* choice of the unrelated ops that have ended. It is never weaker, and costs a maximum flow
per op.

Example: `a` makes 4 bytes that `b` and `c` read; `b` makes 3 bytes that `c` reads as well, and `c`
makes 1. While `c` runs its inputs and its output are live, so every order needs 8 bytes.
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
"""Edges that count as one element of work when the form of the kernel is chosen."""


@dataclass(frozen=True, slots=True)
class PeakBound:
    """A lower bound on the peak of every order, with the buffers that are its witness."""

    value: int
    """Bytes."""
    op: int | None
    """Id of the op that cannot run with fewer; None if the graph's inputs or outputs force the
    value."""
    buffers: tuple[int, ...]
    """Ids of the buffers that are live at that moment, without outputs that the op may write over
    inputs; their sizes add up to `value`."""


def peak_lower_bound(
    graph: Graph, orders: Sequence[Order], *, clock: Clock | None = None
) -> PeakBound:
    """Return the best simple bound over all ops.

    In any order an op runs with at least as many live bytes as its own bound. So ops are tried in
    descending order of their live bytes in the known orders, until no further op can give more.

    `orders`: known orders, at least one unless the graph has no ops; more orders save work.
    `clock`: limit on time; once it has expired the best bound so far is returned.

    Examples
    --------
    >>> from optsched import GraphBuilder
    >>> builder = GraphBuilder("chain")
    >>> builder.op("a", writes={"x": 4})
    >>> builder.op("b", reads=["x"], writes={"y": 3})
    >>> builder.op("c", reads=["x", "y"], writes={"z": 1})
    >>> builder.output("z")
    >>> peak_lower_bound(builder.build(), [[0, 1, 2]])
    PeakBound(value=8, op=2, buffers=(0, 1, 2))
    """
    arrays = graph.arrays
    used = (np.diff(arrays.user.ptr) > 0) | arrays.keep
    # Two bounds that need no op: unused inputs do not count, as they are released before step 0.
    ends = _bound(arrays, (arrays.birth < 0) & used, None), _bound(arrays, arrays.keep, None)
    best = max(ends, key=lambda bound: bound.value)
    if not arrays.op_count:
        return best
    ceiling = np.min([running_by_op(graph, order) for order in orders], axis=0)
    for v in np.argsort(-ceiling, kind="stable").tolist():
        # All further ops have a lower ceiling and cannot give more.
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

    `arrays`: arrays of the graph. `v`: op id. `done`, `later`: ids of further ops that are known to
    have ended at that time, or not to have started.
    """
    return _bound(arrays, _live_with(arrays, v, done, later), v)


def _live_with(
    arrays: GraphArrays, v: int, done: Iterable[int] = (), later: Iterable[int] = ()
) -> npt.NDArray[np.bool_]:
    """Flag the buffers that are live whenever an op runs."""
    before = _reachable(arrays.pred, v)
    behind = _reachable(arrays.succ, v)
    # While `v` runs, its descendants and `v` itself are still to end.
    behind[v] = True
    _add_reachable(arrays.pred, done, before)
    _add_reachable(arrays.succ, later, behind)
    # Graph inputs have birth -1, which indexes the flag appended: they are live from the start.
    born = np.append(before, True)[arrays.birth]
    used = row_counts(arrays.user.ptr, behind[arrays.user.idx]) > 0
    # A buffer that is allocated at an op before its producer waits for the producer as for a user.
    used |= np.append(behind, False)[arrays.producer]
    live: npt.NDArray[np.bool_] = (born & (used | arrays.keep)) | (arrays.birth == v)
    # What `v` writes over its inputs takes no bytes of its own: the matching saves most.
    live[_written_inplace(arrays, v, behind)] = False
    return live


def _written_inplace(arrays: GraphArrays, v: int, behind: npt.NDArray[np.bool_]) -> list[int]:
    """Return the outputs that an op may write into inputs; no input may have a later user."""
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
    """Flag all rows that can be reached from `start`, without `start`."""
    return run_reachable.for_work(len(rows.idx) // FOLLOWED)(rows.ptr, rows.idx, start)


def _add_reachable(rows: Rows, starts: Iterable[int], found: npt.NDArray[np.bool_]) -> None:
    """Flag some rows and all rows that can be reached from them."""
    for u in starts:
        if not found[u]:
            found |= _reachable(rows, u)
            found[u] = True


@kernel
def run_reachable(ptr: IntArray, idx: IntArray, start: int) -> npt.NDArray[np.bool_]:
    """Return flags of the rows that can be reached from `start`, shape `(rows,)`."""
    seen = np.zeros(len(ptr) - 1, np.bool_)
    mark_reach(ptr, idx, start, seen)
    return seen
