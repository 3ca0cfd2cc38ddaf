"""The closure bound: bytes that are live while an op runs, in every order.

When op `v` runs, its ancestors have ended, but not `v` or its descendants. The minimum of
live bytes over all downsets of this kind is a minimum cut (:mod:`optsched.ordering.kernels.cut`),
so for every op

    peak >= LB(v) = rise(v) + min { M(D) : ancestors of v in D; v and its descendants not in D }

In a known order, `v` runs with some `during(v) >= LB(v)` bytes live. An op whose smallest `during`
over the known orders is at most the bound so far cannot raise the bound, and is not looked at.
Usually one flow is enough.

Example: `a` and `b` each make 4 bytes, which `join` reads to make 3. When `join` runs, both `a` and
`b` have ended, so `LB(join) = 8 + 3`. That is the peak of any order: it is proved by one flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import running_by_op
from optsched.model.steps import Order
from optsched.ordering.effort import EFFORT, OrderingEffort
from optsched.ordering.kernels.cut import around, least_given
from optsched.ordering.kernels.max_flow import UNBOUNDED
from optsched.ordering.problem import OrderingProblem, build_problem
from optsched.ordering.reduce.blocks import find_blocks
from optsched.runtime.clock import Clock

FLOW_SECONDS = 3e-4
"""Seconds of a flow."""


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """Bytes that are live in every order: while an op runs, or before or after all ops."""

    value: int
    """Bytes; the minimum over all ops that may be the one, if several may."""
    op: int | None
    """Id of an op that attains it; None if the inputs or the outputs of the graph do."""
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    """`before` and `after`: ops that have ended then, or start later, besides what edges imply."""


@dataclass(frozen=True, slots=True)
class ClosureBound(Bottleneck):
    """The best bound that a single op forces."""

    flows: int = 0
    """Number of ops that were looked at."""
    complete: bool = True
    """True if no other op can give more; False if the limit was reached first."""


def closure_bound(
    graph: Graph,
    orders: Sequence[Order] = (),
    *,
    clock: Clock | None = None,
    most: int | None = None,
    effort: OrderingEffort = EFFORT,
) -> ClosureBound:
    """Return the best closure bound over all ops.

    `orders`: known orders; the better they are, the fewer flows are needed. `clock`: limit on time
    or work; once it has expired the best bound so far is returned. `most`: limit on the number of
    flows (default: none). `effort`: number of flows after which identical blocks are looked for.

    Examples
    --------
    >>> from optsched import GraphBuilder
    >>> builder = GraphBuilder("join")
    >>> builder.op("a", writes={"x": 4})
    >>> builder.op("b", writes={"y": 4})
    >>> builder.op("join", reads=["x", "y"], writes={"z": 3})
    >>> builder.output("z")
    >>> found = closure_bound(builder.build())
    >>> found.value, found.op
    (11, 2)
    """
    arrays = graph.arrays
    n = arrays.op_count
    problem = build_problem(arrays)
    cap = np.full(n, UNBOUNDED, np.int64)
    for number, order in enumerate(orders):
        # The first order saves most flows, so it is always used.
        if number and clock and clock.expired():
            break
        cap = np.minimum(cap, running_by_op(graph, order))
    # Inputs are live before the first step and kept buffers after the last, so both are bounds.
    kept = int(arrays.size[arrays.keep].sum())
    return raise_closure(
        problem,
        cap,
        max(arrays.initial, kept),
        clock=clock,
        most=most,
        effort=effort,
    )


def raise_closure(
    problem: OrderingProblem,
    cap: IntArray,
    value: int,
    *,
    clock: Clock | None = None,
    most: int | None = None,
    effort: OrderingEffort = EFFORT,
) -> ClosureBound:
    """Return the closure bound of a problem, or the known bound `value` if that is larger.

    `cap` has an upper limit of the bytes that each op forces, shape `(ops,)`; values found are
    written to it. The other arguments are those of :func:`closure_bound`.
    """
    n = len(problem.delta)
    best, flows = None, 0
    work = 8 * (len(problem.pred) + len(problem.user) + n)
    enclose, evaluate = around.for_work(work), least_given.for_work(work)
    spot = np.full(n, -1, np.int64)
    # Popped from the end of the list, hence the largest limit last; `stable` makes runs
    # repeatable.
    waiting = np.argsort(-cap, kind="stable").tolist()[::-1]
    while waiting:
        # Ops with the largest upper limit first: once it is at most the bound, no op is left.
        v = waiting.pop()
        if cap[v] <= value:
            break
        # At least one flow is always made: without any, the result would say nothing about the
        # search.
        late = clock is not None and flows and clock.expired()
        if late or flows == most:
            return ClosureBound(value, best, flows=flows, complete=False)
        flows += 1
        if clock:
            clock.spend(1, FLOW_SECONDS)
        before, after = enclose(problem, v)
        found = int(evaluate(problem, before, after, v, spot))
        cap[v] = found
        if found > value:
            value, best = found, v
        if flows == effort.block_flows:
            _share(problem, cap, clock)
            # Caps have become smaller, so the order in which the ops are tried changes.
            waiting = np.argsort(-cap, kind="stable").tolist()[::-1]
    return ClosureBound(value, best, flows=flows)


def _share(problem: OrderingProblem, cap: IntArray, clock: Clock | None) -> None:
    """Keep one op per set of ops that identical blocks can swap, with the smallest of their caps.

    Swapping two blocks leaves the problem unchanged, so corresponding ops force the same bytes.
    """

    def look() -> None:
        if clock and clock.expired():
            raise TimeoutError

    with suppress(TimeoutError):
        for rows in find_blocks(problem, look):
            cap[rows[0]] = cap[rows].min(axis=0)
            # A cap of 0 is never above the bound: these ops are not tried again.
            cap[rows[1:]] = 0
