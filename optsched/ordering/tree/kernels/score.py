"""Which pairs of ops to split on: both orders cost most, at the ops where there is least slack."""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.bits import has_bit
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.problem import OrderingProblem
from optsched.ordering.tree.kernels.downsets import (
    Branch,
    Supports,
    flow_at,
    lowest,
    shift,
)
from optsched.ordering.tree.kernels.release import (
    begin_with,
    close_without,
    least_with,
    least_without,
    mark_late,
    mark_lost,
    put_away,
    undo,
)
from optsched.ordering.tree.kernels.workspace import Desk
from optsched.runtime.kernel import inner

COST_PARTS = 1 << 20
"""Costs are compared in so many parts of the slack at least."""


@inner
def insert_choice(choice: IntArray, count: Int, row: tuple[Int, Int, Int]) -> Int:
    """Insert (score, op, other op) where it belongs; return how many choices there are."""
    if count == len(choice):
        if row[0] <= choice[count - 1, 0]:
            return count
        count -= 1
    at = count
    while at > 0 and choice[at - 1, 0] < row[0]:
        for j in range(3):
            choice[at, j] = choice[at - 1, j]
        at -= 1
    for j in range(3):
        choice[at, j] = row[j]
    return count + 1


@inner
def tallest(branch: Branch, supports: Supports, every: IntArray) -> IntArray:
    """Least live bytes of any support of each op, -1 for those in order with all others."""
    n = len(branch.before)
    height = np.full(n, -1, np.int64)
    for v in range(n):
        free = -1
        for w in range(len(every)):
            rest = every[w] & ~(branch.before[v, w] | branch.after[v, w])
            while rest != 0 and free <= 0:
                rest &= rest - 1
                free += 1
        if free <= 0:
            continue
        height[v] = supports.live[v, lowest(branch, supports, v)]
    return height


@inner
def score(cost_in: Int, cost_out: Int, slack: Int, unit: Int) -> Int:
    """How good it is to split on a pair of which the two orders cost so much at an op."""
    return (tenths(min(cost_in, slack + 1), unit) + 1) * (
        tenths(min(cost_out, slack + 1), unit) + 1
    )


@inner
def tenths(cost: Int, unit: Int) -> Int:
    """Ten times a cost in units; ten times the cost itself may be more than 64 bits hold."""
    return 10 * (cost // unit) + 10 * (cost % unit) // unit


@inner
def weigh(
    net: OrderingProblem, base: Int, budget: Int, branch: Branch, supports: Supports, desk: Desk,
    blame: IntArray, tops: Int, choice: IntArray,
) -> Int:  # fmt: skip
    """List the pairs of ops whose two orders cost most at the ops with the least slack.

    Of ops with the same slack, those blamed more often are looked at, `tops` of them; and then as
    many that are blamed most of all.
    """
    height = tallest(branch, supports, desk.every)
    low, high = np.empty_like(desk.every), np.empty_like(desk.every)
    more = np.empty_like(desk.every)
    count, least = np.int64(0), np.int64(-1)
    for turn in range(2 * tops):
        v = np.int64(-1)
        for i in range(len(height)):
            if height[i] < 0:
                continue
            better = v < 0 or blame[i] > blame[v]
            if v >= 0 and turn < tops:
                better = height[i] > height[v] or (height[i] == height[v] and better)
            if better:
                v = np.int64(i)
        if v < 0:
            break
        height[v] = -1
        slack = budget - flow_at(net, base, budget, branch.before, branch, desk, v)
        for w in range(len(low)):
            low[w] = branch.before[v, w] | (desk.free[w] & desk.mark[0, w])
        mark_late(desk, branch.before, high)
        mark_lost(desk)
        for w in range(len(high)):
            high[w] = branch.before[v, w] | (desk.free[w] & ~high[w])
        # Costs in parts of the slack fit 64 bits when multiplied.
        unit = max(slack, 0) // COST_PARTS + 1
        for i in range(len(height)):
            u = np.int64(i)
            if not has_bit(desk.free, u):
                continue
            # Both orders should cost something, as both have to be refuted. No flow is needed
            # where what it costs to move an op with all that must go along is too little.
            cost_in, cost_out = np.int64(0), np.int64(0)
            if not has_bit(high, u):
                cost_in = shift(net, desk, high, branch.before[u], u, np.int64(0), more)
            if has_bit(low, u):
                cost_out = shift(net, desk, low, branch.after[u], u, np.int64(1), more)
            if score(cost_in, cost_out, slack, unit) <= least:
                continue
            if cost_in > 0:
                begin_with(desk)
                cost_in = least_with(desk, branch.before, u, slack)
                undo(desk, np.int64(0))
            if score(cost_in, cost_out, slack, unit) <= least:
                continue
            if cost_out > 0:
                cost_out = least_without(desk, u, slack)
                close_without(desk, u, slack)
            count = insert_choice(choice, count, (score(cost_in, cost_out, slack, unit), v, u))
            least = choice[count - 1, 0] if count == len(choice) else np.int64(-1)
        put_away(desk, v)
    return count
