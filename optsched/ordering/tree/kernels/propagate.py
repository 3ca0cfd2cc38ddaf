"""Propagation: precedences that a budget implies, kept up to date while more of them are assumed.

If op `v` does not fit the budget in any downset with `u`, then `v` runs before `u`; if in none
without `u`, then `u` runs before `v`. Where an op may run is shown by its watched downsets
(:mod:`optsched.ordering.tree.kernels.downsets`); only an op that lost one is looked at again, from
the flow it had when it was last looked at.

Where all that follows is known, pairs of ops are scored to branch on: those of which both orders
cost most, where there is least slack.
"""

from __future__ import annotations

import numpy as np
from numpy import int64

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.bits import has_bit, set_bit
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.problem import OrderingProblem
from optsched.ordering.tree.kernels.downsets import (
    FLOWS,
    PAIRS,
    Branch,
    WatchedDownsets,
    least_watched,
    minimum_live,
    recheck,
    sides_shown,
    watch,
)
from optsched.ordering.tree.kernels.flow import (
    begin_including,
    cost_of_excluding,
    cost_of_including,
    end_excluding,
    find_late,
    log_is_full,
    save_flow,
    undo,
)
from optsched.ordering.tree.kernels.workspace import LOGGED, FlowWorkspace
from optsched.runtime.kernel import inner, kernel

MISSES = 3
"""Ops that do not fit into a downset with the others, after which it is watched as it is."""

COST_PARTS = 1 << 20
"""Costs are compared in this many parts of the slack at least, so that products fit 64 bits."""


@kernel
def add_pair(branch: Branch, first: Int, second: Int) -> bool:
    """Add that `first` runs before `second`, and what follows; False if that is a cycle."""
    before, after = branch.before, branch.after
    if first == second or has_bit(before[first], second):
        return False
    if has_bit(before[second], first):
        return True
    for v in range(len(before)):
        if v == second or has_bit(before[v], second):
            for w in range(before.shape[1]):
                before[v, w] |= before[first, w]
            set_bit(before[v], first)
        if v == first or has_bit(after[v], first):
            for w in range(before.shape[1]):
                after[v, w] |= after[second, w]
            set_bit(after[v], second)
    count = branch.tally[PAIRS]
    branch.pairs[count, 0] = first
    branch.pairs[count, 1] = second
    branch.tally[PAIRS] = count + 1
    return True


@inner
def watch_without(
    branch: Branch, watched: WatchedDownsets, flow: FlowWorkspace, v: Int, out: IntArray,
    sides: IntArray, before: IntArray, live: Int,
) -> None:  # fmt: skip
    """Watch the downset of all that has ended for certain and the undecided ops not in `out`."""
    member = np.empty(len(out), np.int64)
    for w in range(len(out)):
        member[w] = before[v, w] | (flow.undecided[w] & ~out[w])
        sides[0, w] |= member[w]
        sides[1, w] |= out[w]
    watch(branch, watched, v, member, live)


@inner
def is_open(branch: Branch, flow: FlowWorkspace, side: IntArray, v: Int, u: Int) -> bool:
    """Whether two ops may run in either order, and no downset shows one: the side lacks `u`."""
    ordered = has_bit(branch.before[v], u) | has_bit(branch.after[v], u)
    return bool(has_bit(flow.undecided, u) and not ordered and not has_bit(side, u))


@inner
def find_followers(
    branch: Branch, watched: WatchedDownsets, flow: FlowWorkspace, v: Int, least: Int, slack: Int,
    before: IntArray, sides: IntArray,
) -> bool:  # fmt: skip
    """Find the undecided ops that can not have ended before `v`; False on a cycle.

    As many as fit together are shown, by one watched downset, to be none of them.
    """
    n, width = len(before), len(flow.undecided)
    out = np.empty(width, np.int64)
    needs = np.empty(width, np.int64)
    tried = np.zeros(width, np.int64)
    spare = len(flow.supply) - 1
    some = True
    while some:
        some = False
        total = int64(0)
        misses = 0
        begin_including(flow)
        for i in range(n - 1, -1, -1):
            u = int64(i)
            if has_bit(tried, u) or not is_open(branch, flow, sides[0], v, u):
                continue
            branch.tally[FLOWS] += 1
            line = flow.tally[LOGGED]
            for w in range(width):
                needs[w] = flow.needs[spare, w]
            more = cost_of_including(flow, before, u, slack - total)
            full = log_is_full(flow)
            if more <= slack - total and not full:
                total += more
                some = True
                set_bit(tried, u)
                continue
            undo(flow, line)
            for w in range(width):
                flow.needs[spare, w] = needs[w]
            if some:
                misses += 1
                if misses == MISSES:
                    break
            else:
                # It is too much by itself.
                set_bit(tried, u)
                if not full and not add_pair(branch, v, u):
                    return False
        if some:
            find_late(flow, before, out)
            watch_without(branch, watched, flow, v, out, sides, before, least + total)
        undo(flow, int64(0))
    return True


@inner
def find_predecessors(
    branch: Branch, watched: WatchedDownsets, flow: FlowWorkspace, v: Int, least: Int, slack: Int,
    before: IntArray, sides: IntArray,
) -> bool:  # fmt: skip
    """Find the undecided ops that must have ended before `v`; False on a cycle."""
    for i in range(len(before)):
        u = int64(i)
        if not is_open(branch, flow, sides[1], v, u):
            continue
        branch.tally[FLOWS] += 1
        more = cost_of_excluding(flow, u, slack)
        if more <= slack and not log_is_full(flow):
            out = flow.undecided & ~flow.seen[0]
            watch_without(branch, watched, flow, v, out, sides, before, least + more)
        end_excluding(flow, u, slack)
        if more > slack and not add_pair(branch, u, v):
            return False
    return True


@inner
def propagate_at(
    problem: OrderingProblem,
    budget: Int,
    branch: Branch,
    watched: WatchedDownsets,
    flow: FlowWorkspace,
    v: Int,
) -> bool:
    """Find the pairs that the budget implies at one op; False if it leaves no order."""
    sides = sides_shown(branch, watched, v)
    missing = int64(0)
    for w in range(len(flow.every)):
        unordered = flow.every[w] & ~(branch.before[v, w] | branch.after[v, w])
        missing |= unordered & ~(sides[0, w] & sides[1, w])
    if missing == 0 and branch.valid[v] != 0:
        return True
    # The pairs found on the way are not in the flow.
    before = branch.before.copy()
    least = minimum_live(problem, budget, before, branch, flow, v)
    slack = budget - least
    possible = slack >= 0
    if possible:
        # The smallest downset of the minimum: what sources with bytes left need; then the largest.
        out = flow.undecided & ~flow.seen[0]
        watch_without(branch, watched, flow, v, out, sides, before, least)
        find_late(flow, before, out)
        watch_without(branch, watched, flow, v, out, sides, before, least)
        possible = find_followers(branch, watched, flow, v, least, slack, before, sides)
        if possible:
            possible = find_predecessors(branch, watched, flow, v, least, slack, before, sides)
    save_flow(flow, v)
    return bool(possible)


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


@kernel
def propagate(
    problem: OrderingProblem,
    budget: Int,
    branch: Branch,
    watched: WatchedDownsets,
    flow: FlowWorkspace,
    order: IntArray,
    blame: IntArray,
    critical: Int,
    choices: IntArray,
) -> Int:
    """Add all pairs that a budget implies, to a fixpoint; after that, list pairs to branch on.

    Parameters
    ----------
    problem
        The problem.
    budget
        Live bytes that no order may pass.
    branch, watched, flow
        Changed in place.
    order
        All ops, in the order in which to look at them; one that brings news moves up.
    blame
        Shape `(n,)`: how often a contradiction came up at an op; added to.
    critical
        Above 0 where all pairs are there: then, ops to list pairs at (:func:`score_pairs`).
    choices
        Shape `(room, 3)`: gets score, op and other op of each pair, the best first.

    Returns
    -------
    int
        Number of pairs listed; -1 if the budget is refuted.

    Notes
    -----
    One kernel for both: most of the code is the same, and takes a second to compile.
    """
    if critical > 0:
        return score_pairs(problem, budget, branch, watched, flow, blame, critical, choices)
    n = len(order)
    idle = 0
    at = 0
    while idle < n:
        v = order[at]
        idle += 1
        if not recheck(branch, watched, v):
            count = branch.tally[PAIRS]
            refuted = not propagate_at(problem, budget, branch, watched, flow, v)
            if refuted or count != branch.tally[PAIRS]:
                for i in range(at, at // 2, -1):
                    order[i] = order[i - 1]
                order[at // 2] = v
                idle = 0
            if refuted:
                blame[v] += 1
                return int64(-1)
        at = at + 1 if at + 1 < n else 0
    return int64(0)
