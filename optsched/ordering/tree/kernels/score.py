"""Branching scores: of which pairs of ops both orders cost most, where there is least slack."""

from __future__ import annotations

import numpy as np
from numpy import int64

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.bits import has_bit
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.problem import OrderingProblem
from optsched.ordering.tree.kernels.downsets import (
    Branch,
    WatchedDownsets,
    least_watched,
    minimum_live,
)
from optsched.ordering.tree.kernels.flow import (
    begin_including,
    cost_of_excluding,
    cost_of_including,
    end_excluding,
    find_late,
    save_flow,
    undo,
)
from optsched.ordering.tree.kernels.workspace import FlowWorkspace
from optsched.runtime.kernel import inner

COST_PARTS = 1 << 20
"""Costs are compared in this many parts of the slack at least, so that products fit 64 bits."""


@inner
def insert_choice(choices: IntArray, count: Int, row: tuple[Int, Int, Int]) -> Int:
    """Insert (score, op, other op) where it belongs; return how many choices there are."""
    if count == len(choices):
        if row[0] <= choices[count - 1, 0]:
            return count
        count -= 1
    at = count
    while at > 0 and choices[at - 1, 0] < row[0]:
        for j in range(3):
            choices[at, j] = choices[at - 1, j]
        at -= 1
    for j in range(3):
        choices[at, j] = row[j]
    return count + 1


@inner
def live_at_unordered(branch: Branch, watched: WatchedDownsets, every: IntArray) -> IntArray:
    """Fewest live bytes of each op's watched downsets, -1 if it is in order with all others."""
    n = len(branch.before)
    live = np.full(n, -1, np.int64)
    for v in range(n):
        # The op itself is in order with none.
        unordered = -1
        for w in range(len(every)):
            rest = every[w] & ~(branch.before[v, w] | branch.after[v, w])
            while rest != 0 and unordered <= 0:
                rest &= rest - 1
                unordered += 1
        if unordered > 0:
            live[v] = least_watched(branch, watched, v)
    return live


@inner
def score(cost_in: Int, cost_out: Int, slack: Int, unit: Int) -> Int:
    """How good it is to branch on a pair of which the two orders cost so much at an op.

    Both orders have to be refuted, so both should cost something: the product counts.
    """
    return (tenths(min(cost_in, slack + 1), unit) + 1) * (
        tenths(min(cost_out, slack + 1), unit) + 1
    )


@inner
def tenths(cost: Int, unit: Int) -> Int:
    """Ten times a cost in units; ten times the cost itself may be more than 64 bits hold."""
    return 10 * (cost // unit) + 10 * (cost % unit) // unit


@inner
def score_pairs(
    problem: OrderingProblem, budget: Int, branch: Branch, watched: WatchedDownsets,
    flow: FlowWorkspace, blame: IntArray, critical: Int, choices: IntArray,
) -> Int:  # fmt: skip
    """List the pairs of ops whose two orders cost most at the ops with the least slack.

    Of ops with the same slack, those blamed more often are looked at, `critical` of them; and then
    as many that are blamed most of all.
    """
    live = live_at_unordered(branch, watched, flow.every)
    late = np.empty_like(flow.every)
    count = int64(0)
    for turn in range(2 * critical):
        v = int64(-1)
        for i in range(len(live)):
            if live[i] < 0:
                continue
            better = v < 0 or blame[i] > blame[v]
            if v >= 0 and turn < critical:
                better = live[i] > live[v] or (live[i] == live[v] and better)
            if better:
                v = int64(i)
        if v < 0:
            break
        live[v] = -1
        slack = budget - minimum_live(problem, budget, branch.before, branch, flow, v)
        unit = max(slack, 0) // COST_PARTS + 1
        low = flow.seen[0].copy()
        find_late(flow, branch.before, late)
        for i in range(len(live)):
            u = int64(i)
            if not has_bit(flow.undecided, u):
                continue
            # Nothing where the smallest downset of the minimum lacks the op, or the largest has it.
            cost_in, cost_out = int64(0), int64(0)
            if has_bit(late, u):
                begin_including(flow)
                cost_in = cost_of_including(flow, branch.before, u, slack)
                undo(flow, int64(0))
            if has_bit(low, u):
                cost_out = cost_of_excluding(flow, u, slack)
                end_excluding(flow, u, slack)
            count = insert_choice(choices, count, (score(cost_in, cost_out, slack, unit), v, u))
        save_flow(flow, v)
    return count
