"""Orders of ops, and the step at which each op runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from optsched.errors import PlanError, UsageError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph

Order = Sequence[int] | IntArray


def order_ids(graph: Graph, order: Order | Sequence[str]) -> IntArray:
    """Return the op ids of an order given by ids or names; shape `(n,)`.

    Raise `PlanError` if a name is not in the graph, or an id is not an integer.
    """
    given = np.asarray(order_of(order))
    # Names: looked up one by one, so that an unknown one can be named.
    if given.dtype.kind == "U":
        try:
            return np.array([graph.op_ids[name] for name in given.tolist()], np.int64)
        except KeyError as error:
            raise PlanError(f"order names op {error}, which is not in the graph") from None
    if given.dtype.kind not in "iu" and given.size:
        raise PlanError(f"order must list op names or ids, got {given.dtype}")
    return given.astype(np.int64, copy=False)


@runtime_checkable
class HasOrder(Protocol):
    """A plan."""

    @property
    def order(self) -> tuple[int, ...]:
        """Op ids, first to run first."""


@runtime_checkable
class Answered(Protocol):
    """A result of a solver."""

    @property
    def graph_and_plan(self) -> tuple[Graph, HasOrder | None]:
        """The graph whose ops and buffers the plan names, and the plan."""


def has_both(what: object) -> TypeGuard[Answered]:
    """Return True for a result, which has a graph and a plan."""
    # Asked of the class: the property of a packing raises.
    return hasattr(type(what), "graph_and_plan")


def order_of(order: Any) -> Any:
    """Return the order of a plan or of a result; anything else is an order already."""
    if has_both(order):
        plan = order.graph_and_plan[1]
        if plan is None:
            raise UsageError("the result has no plan, and so no order")
        return plan.order
    # A plan; others have no such tuple.
    return getattr(order, "order", order)


def graph_and_order(graph: object, order: Any) -> tuple[Graph, Any]:
    """Return a graph and an order; a result alone has both."""
    if has_both(graph):
        return graph.graph_and_plan[0], graph if order is None else order
    if not isinstance(graph, Graph):
        raise UsageError(f"expected a Graph or a result, got {type(graph).__name__}")
    if order is None:
        raise UsageError("give an order as well: ids or names of ops, or a plan")
    return graph, order


def steps_of(graph: Graph, order: Order | Sequence[str]) -> IntArray:
    """Return the step of each op, shape `(n,)`.

    Raise `PlanError` if `order` is not a permutation of the ops or breaks a dependency.
    """
    n = len(graph.ops)
    given = order_ids(graph, order)
    if given.ndim != 1:
        raise PlanError(f"order must be a flat list of ops, got {given.ndim} dimensions")
    unknown = given[(given < 0) | (given >= n)]
    if len(unknown):
        raise PlanError(f"order names op number {unknown[0]}, but the graph has {n} ops")
    times = np.bincount(given, minlength=n)
    for v in np.flatnonzero(times != 1)[:1]:
        name = repr(graph.ops[v].name)
        fault = f"names op {name} {times[v]} times" if times[v] else f"misses op {name}"
        raise PlanError(f"order {fault}")
    steps = np.empty(n, np.int64)
    steps[given] = np.arange(n)
    pred = graph.arrays.pred
    # A dependency is broken if the predecessor's step is later.
    late = np.flatnonzero(steps[pred.idx] > np.repeat(steps, np.diff(pred.ptr)))
    if len(late):
        u = int(pred.idx[late[0]])
        v = int(np.searchsorted(pred.ptr, late[0], side="right")) - 1
        raise PlanError(
            f"order runs op {graph.ops[v].name!r} (step {steps[v]}) "
            f"before {graph.ops[u].name!r} (step {steps[u]}), which it needs"
        )
    return steps
