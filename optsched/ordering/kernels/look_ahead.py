"""Closure bounds from the current state: what an op still to come costs on any way to the goal."""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.cut import around, least_given
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.kernels.state import State
from optsched.ordering.problem import OrderingProblem
from optsched.runtime.kernel import inner

SELDOM = 64
"""Foresight that keeps failing is tried at one state in so many."""

FIRST_LOOK = 16
"""Short searches go without."""

PERIOD, WAIT, TURN = 0, 1, 2


@inner
def least_ahead(
    problem: OrderingProblem, base: Int, state: State, forward: bool, op: Int, spot: IntArray
) -> Int:
    """Least live bytes while `op` runs, on any way from the current state to the goal.

    `spot` is scratch of shape `(n,)`, all -1.
    """
    before, after = around(problem, op)
    for u in range(len(before)):
        if state.within[u] and state.done[u] != forward:
            continue
        if state.done[u] and (forward or not state.within[u]):
            before[u] = True
        else:
            after[u] = True
    return least_given(problem, base, before, after, op, spot)


@inner
def foresee(
    problem: OrderingProblem,
    base: Int,
    state: State,
    forward: bool,
    budget: Int,
    critics: IntArray,
    gauge: IntArray,
    spot: IntArray,
) -> Int:
    """Return bytes above the budget that some op ahead costs on any way to the goal, or 0.

    Of `critics`, the two ops ahead that did last are tried, and one more in turn. The more often
    that fails, the seldomer it is tried at all: `gauge` holds the period, the wait and the turn.
    """
    gauge[WAIT] -= 1
    if gauge[WAIT] > 0:
        return np.int64(0)
    gauge[TURN] = (gauge[TURN] + 1) % len(critics)
    tried = 0
    for i in range(len(critics)):
        at = i if tried < 2 else max(np.int64(i), gauge[TURN])
        v = critics[at]
        if not state.within[v] or state.done[v] == forward:
            if tried < 2:
                continue
            break
        cost = least_ahead(problem, base, state, forward, v, spot)
        if cost > budget:
            for j in range(at, 0, -1):
                critics[j] = critics[j - 1]
            critics[0] = v
            gauge[PERIOD] //= 2
            gauge[WAIT] = gauge[PERIOD]
            return cost
        tried += 1
        if tried == 3:
            break
    gauge[PERIOD] = min(gauge[PERIOD] + 1, np.int64(SELDOM))
    gauge[WAIT] = gauge[PERIOD]
    return np.int64(0)
