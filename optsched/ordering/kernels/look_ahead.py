"""The look-ahead bound: what an op still to come costs on any way from a state to the goal.

It is the closure bound of the op, with all that the state has done as done and nothing else of the
segment: a minimum cut. A state at which it passes the budget leads nowhere within it.
"""

from __future__ import annotations

from numpy import int64

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.cut import around, least_given
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.kernels.state import Downset
from optsched.ordering.problem import OrderingProblem
from optsched.runtime.kernel import inner

SELDOM = 64
"""A bound that keeps failing is tried at one state in this many."""

FIRST_LOOK = 16
"""Expansions before it is tried first: short searches go without."""

PERIOD, WAIT, TURN = 0, 1, 2


@inner
def least_ahead(
    problem: OrderingProblem, state: Downset, forward: bool, op: Int, spot: IntArray
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
    return least_given(problem, before, after, op, spot)


@inner
def look_ahead_bound(
    problem: OrderingProblem,
    state: Downset,
    forward: bool,
    budget: Int,
    checked: IntArray,
    gauge: IntArray,
    spot: IntArray,
) -> Int:
    """Return bytes above the budget that some op ahead costs on any way to the goal, or 0.

    Of the ops `checked`, the two ops ahead that did last are tried, and one more in turn. The more
    often that fails, the seldomer it is tried at all: `gauge` holds the period, the states to wait
    for the next try, which the caller counts down, and the turn.
    """
    gauge[TURN] = (gauge[TURN] + 1) % len(checked)
    tried = 0
    for i in range(len(checked)):
        at = i if tried < 2 else max(int64(i), gauge[TURN])
        v = checked[at]
        if not state.within[v] or state.done[v] == forward:
            if tried < 2:
                continue
            break
        cost = least_ahead(problem, state, forward, v, spot)
        if cost > budget:
            for j in range(at, 0, -1):
                checked[j] = checked[j - 1]
            checked[0] = v
            gauge[PERIOD] //= 2
            gauge[WAIT] = gauge[PERIOD]
            return cost
        tried += 1
        if tried == 3:
            break
    gauge[PERIOD] = min(gauge[PERIOD] + 1, int64(SELDOM))
    gauge[WAIT] = gauge[PERIOD]
    return int64(0)
