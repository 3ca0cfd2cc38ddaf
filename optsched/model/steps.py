"""Orders of ops, and the step at which each op runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optsched.errors import PlanError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph

Order = Sequence[int] | IntArray


def order_ids(graph: Graph, order: Order | Sequence[str]) -> IntArray:
    """Return the op ids of an order given by ids or names; shape `(n,)`.

    Raises
    ------
    PlanError
        If a name is not in the graph, or an id is not an integer.
    """
    given = np.asarray(order)
    if given.dtype.kind == "U":
        try:
            return np.array([graph.op_ids[name] for name in given.tolist()], np.int64)
        except KeyError as error:
            raise PlanError(f"order names op {error}, which is not in the graph") from None
    if given.dtype.kind not in "iu" and given.size:
        raise PlanError(f"order must list op names or ids, got {given.dtype}")
    return given.astype(np.int64, copy=False)


def steps_of(graph: Graph, order: Order | Sequence[str]) -> IntArray:
    """Return the step of each op, shape `(n,)`.

    Raises
    ------
    PlanError
        If `order` is not a permutation of the ops or breaks a dependency.
    """
    n = len(graph.ops)
    given = order_ids(graph, order)
    if given.shape != (n,):
        raise PlanError(f"order has {given.size} ops, but the graph has {n}")
    if n and (given.min() < 0 or given.max() >= n):
        bad = next(int(v) for v in given if not 0 <= v < n)
        raise PlanError(f"order names op number {bad}, but the graph has {n} ops")
    steps = np.full(n, -1, np.int64)
    steps[given] = np.arange(n)
    if (steps < 0).any():
        raise PlanError(f"order misses op {graph.ops[int(np.argmin(steps))].name!r}")
    pred = graph.arrays.pred
    late = np.flatnonzero(steps[pred.idx] > np.repeat(steps, np.diff(pred.ptr)))
    if len(late):
        u = int(pred.idx[late[0]])
        v = int(np.searchsorted(pred.ptr, late[0], side="right")) - 1
        raise PlanError(
            f"order runs op {graph.ops[v].name!r} (step {steps[v]}) "
            f"before {graph.ops[u].name!r} (step {steps[u]}), which it needs"
        )
    return steps
