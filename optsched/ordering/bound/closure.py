"""The closure bound: bytes that are live while an op runs, whatever the order.

When op `v` runs, its ancestors have ended and neither `v` nor its descendants have. The minimum of
live bytes over all downsets of this kind is a minimum cut, so for every op

    peak >= LB(v) = rise(v) + min { M(D) : ancestors of v in D; v and its descendants not in D }

Along an order that is known, `v` runs at some `during(v) >= LB(v)`; so an op whose lowest `during`
over the known orders is at most the bound so far need not be looked at. Usually one flow is enough.
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


@dataclass(frozen=True, slots=True)
class ClosureBound:
    """A lower bound on the peak of every order.

    Parameters
    ----------
    value
        Bytes.
    op
        The op that forces them; None if the start or the end of the graph does.
    flows
        How many ops were looked at.
    complete
        Whether no other op can give more; False if the clock or the number of flows ended first.
    """

    value: int
    op: int | None
    flows: int
    complete: bool


def closure_bound(
    graph: Graph,
    orders: Sequence[Order] = (),
    *,
    clock: Clock | None = None,
    most: int | None = None,
    effort: OrderingEffort = EFFORT,
) -> ClosureBound:
    """Return the best closure bound over all ops.

    Parameters
    ----------
    graph, orders
        Known orders of the graph; the better they are, the fewer flows are needed.
    clock
        At its end the best bound so far is returned.
    most
        The same after this number of flows; None for no such limit.
    effort
        After how many flows identical blocks are looked for.

    Returns
    -------
    ClosureBound
        Never above the peak of any order.
    """
    arrays = graph.arrays
    n = arrays.op_count
    problem = build_problem(arrays)
    cap = np.full(n, UNBOUNDED, np.int64)
    for number, order in enumerate(orders):
        # The first order spares most flows.
        if number and clock and clock.expired():
            break
        cap = np.minimum(cap, running_by_op(graph, order))
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
    """Return the closure bound of a problem, or the bound `value` that is known.

    `cap` has the bytes that each op forces at most, shape `(ops,)`; what is found is written there.
    The rest is as :func:`closure_bound` takes it.
    """
    n = len(problem.delta)
    best, flows = None, 0
    work = 8 * (len(problem.pred) + len(problem.user) + n)
    enclose, evaluate = around.for_work(work), least_given.for_work(work)
    spot = np.full(n, -1, np.int64)
    waiting = np.argsort(-cap, kind="stable").tolist()[::-1]
    while waiting:
        v = waiting.pop()
        if cap[v] <= value:
            break
        late = clock is not None and flows and clock.expired()
        if late or flows == most:
            return ClosureBound(value, best, flows, complete=False)
        flows += 1
        if clock:
            clock.spend(1)
        before, after = enclose(problem, v)
        found = int(evaluate(problem, before, after, v, spot))
        cap[v] = found
        if found > value:
            value, best = found, v
        if flows == effort.block_flows:
            _share(problem, cap, clock)
            waiting = np.argsort(-cap, kind="stable").tolist()[::-1]
    return ClosureBound(value, best, flows, complete=True)


def _share(problem: OrderingProblem, cap: IntArray, clock: Clock | None) -> None:
    """Of ops that correspond to each other in identical blocks leave one, with the smallest cap.

    The problem stays as it is when blocks change places: these ops force the same bytes.
    """

    def look() -> None:
        if clock and clock.expired():
            raise TimeoutError

    with suppress(TimeoutError):
        for rows in find_blocks(problem, look):
            cap[rows[0]] = cap[rows].min(axis=0)
            cap[rows[1:]] = 0
