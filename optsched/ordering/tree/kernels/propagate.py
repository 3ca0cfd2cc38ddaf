"""Propagation: derive the precedences that a budget implies, while more of them are assumed.

If op `v` exceeds the budget after every downset with `u`, then `v` runs before `u`; if it exceeds
the budget after every downset without `u`, then `u` runs before `v`. Watched downsets
(:mod:`optsched.ordering.tree.kernels.downsets`) show which of these cases are excluded. Only an op
that lost a watched downset is looked at again, starting from its last flow.

After all pairs have been derived, pairs to branch on are scored: best are pairs whose two sequences
both cost many bytes, at ops with little slack.

Example: budget 10. `v` rises by 6, and 5 bytes are live after `u`. With `u` ended `v` needs 11, so
`v` runs before `u`. If an assumed pair runs `u` before `v`, the branch is contradictory.
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
"""A growing downset is watched as it is after this number of ops that did not fit."""

COST_PARTS = 1 << 20
"""Costs are compared in this many parts of the slack at least, so that products fit 64 bits."""


@kernel
def add_pair(branch: Branch, first: Int, second: Int) -> bool:
    """Add the pair `first` before `second` and its closure; return False on a cycle."""
    before, after = branch.before, branch.after
    if first == second or has_bit(before[first], second):
        return False
    if has_bit(before[second], first):
        return True
    for v in range(len(before)):
        # The closure stays transitive: all that `first` needs comes before all that need `second`.
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
    """Watch the downset of the ops certainly ended and the undecided ops not in `out`."""
    member = np.empty(len(out), np.int64)
    for w in range(len(out)):
        member[w] = before[v, w] | (flow.undecided[w] & ~out[w])
        sides[0, w] |= member[w]
        sides[1, w] |= out[w]
    watch(branch, watched, v, member, live)


@inner
def is_open(branch: Branch, flow: FlowWorkspace, side: IntArray, v: Int, u: Int) -> bool:
    """Return True if `u` is undecided, and no watched downset shows that it may be on this side."""
    ordered = has_bit(branch.before[v], u) | has_bit(branch.after[v], u)
    return bool(has_bit(flow.undecided, u) and not ordered and not has_bit(side, u))


@inner
def find_followers(
    branch: Branch, watched: WatchedDownsets, flow: FlowWorkspace, v: Int, least: Int, slack: Int,
    before: IntArray, sides: IntArray,
) -> bool:  # fmt: skip
    """Add the pairs of `v` and the ops that cannot have ended before it; return False on a cycle.

    Sketch: require one undecided op after another to have ended, as long as they fit the slack
    together. The downset found this way is watched: it shows that all its ops may run before `v`.
    An op that does not fit together with the others is tried alone; if it exceeds the slack even
    then, it runs after `v`.
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
        # Late ops first: with them many ancestors are required at once.
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
                # Further ops would hardly fit either; they get their turn in the next round.
                if misses == MISSES:
                    break
            else:
                # It exceeds the slack even alone, so it cannot have ended before `v`.
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
    """Add the pairs of `v` and the ops that must have ended before it; return False on a cycle."""
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
    """Add the pairs that the budget implies at one op; return False if it is refuted."""
    sides = sides_shown(branch, watched, v)
    missing = int64(0)
    for w in range(len(flow.every)):
        unordered = flow.every[w] & ~(branch.before[v, w] | branch.after[v, w])
        missing |= unordered & ~(sides[0, w] & sides[1, w])
    # Watched downsets show both sides of every unordered op, so no pair can follow here.
    if missing == 0 and branch.valid[v] != 0:
        return True
    # A copy, as the flow is set up for the precedences known now, not for pairs found below.
    before = branch.before.copy()
    least = minimum_live(problem, budget, before, branch, flow, v)
    slack = budget - least
    possible = slack >= 0
    if possible:
        # Watch the smallest downset of minimum live bytes, then the largest.
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
    """Insert (score, op, other op) into the sorted choices; return their number."""
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
    """Return the fewest live bytes of each op's watched downsets; -1 if it has no unrelated op."""
    n = len(branch.before)
    live = np.full(n, -1, np.int64)
    for v in range(n):
        # Starts at -1, as the op itself is in neither set.
        unordered = -1
        for w in range(len(every)):
            rest = every[w] & ~(branch.before[v, w] | branch.after[v, w])
            # One unordered op besides itself is enough to know that the op has a choice.
            while rest != 0 and unordered <= 0:
                rest &= rest - 1
                unordered += 1
        if unordered > 0:
            live[v] = least_watched(branch, watched, v)
    return live


@inner
def score(cost_in: Int, cost_out: Int, slack: Int, unit: Int) -> Int:
    """Return the score of a pair from the costs of its two sequences at an op.

    Both branches have to be refuted, so both costs should be large: the score is their product.
    """
    return (tenths(min(cost_in, slack + 1), unit) + 1) * (
        tenths(min(cost_out, slack + 1), unit) + 1
    )


@inner
def tenths(cost: Int, unit: Int) -> Int:
    """Return ten times a cost in units, without the overflow of ten times the cost."""
    return 10 * (cost // unit) + 10 * (cost % unit) // unit


@inner
def score_pairs(
    problem: OrderingProblem, budget: Int, branch: Branch, watched: WatchedDownsets,
    flow: FlowWorkspace, failures: IntArray, critical: Int, choices: IntArray,
) -> Int:  # fmt: skip
    """List the pairs of ops whose two sequences cost most at critical ops; return their number.

    Sketch: choose `critical` ops with the least slack (ties by failure counts), then as many with
    the highest failure counts. At each of them compute the additional bytes if another op must
    have ended, and if it must not have started, and insert the pair by its score.
    """
    live = live_at_unordered(branch, watched, flow.every)
    late = np.empty_like(flow.every)
    count = int64(0)
    for turn in range(2 * critical):
        v = int64(-1)
        for i in range(len(live)):
            if live[i] < 0:
                continue
            better = v < 0 or failures[i] > failures[v]
            if v >= 0 and turn < critical:
                better = live[i] > live[v] or (live[i] == live[v] and better)
            if better:
                v = int64(i)
        if v < 0:
            break
        # Taken: each op is chosen at most once.
        live[v] = -1
        slack = budget - minimum_live(problem, budget, branch.before, branch, flow, v)
        # Costs count in parts of the slack, as bytes of different budgets are not comparable.
        unit = max(slack, 0) // COST_PARTS + 1
        low = flow.seen[0].copy()
        find_late(flow, branch.before, late)
        for i in range(len(live)):
            u = int64(i)
            if not has_bit(flow.undecided, u):
                continue
            # A sequence costs nothing if a downset of minimum live bytes has it: the smallest one
            # lacks the op, or the largest contains it.
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
    failures: IntArray,
    critical: Int,
    choices: IntArray,
) -> Int:
    """Add all pairs that a budget implies; or, in a second call, list pairs to branch on.

    Sketch: go through the ops in turn, and look at those that lost a watched downset. An op at
    which a pair or a contradiction is found moves towards the front, since such ops tend to do so
    again. Stop after a full round without a new pair.

    Parameters
    ----------
    problem
        The problem.
    budget
        Limit on live bytes.
    branch, watched, flow
        Changed in place.
    order
        Shape `(n,)`: the ops in the sequence in which to look at them; changed in place.
    failures
        Shape `(n,)`: failure counts, the number of contradictions found at each op; added to.
    critical
        0 to derive pairs; otherwise the argument of :func:`score_pairs`.
    choices
        Shape `(room, 3)`: receives score, op and other op of each pair, the best first.

    Returns
    -------
    int
        Number of pairs listed; -1 if the budget is refuted.

    Notes
    -----
    One kernel does both, as most of the code is shared and takes a second to compile.
    """
    if critical > 0:
        return score_pairs(problem, budget, branch, watched, flow, failures, critical, choices)
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
                # Move the op half way to the front.
                for i in range(at, at // 2, -1):
                    order[i] = order[i - 1]
                order[at // 2] = v
                idle = 0
            if refuted:
                # Counted even across restarts and resumed searches, where it decides what is tried
                # first.
                failures[v] += 1
                return int64(-1)
        at = at + 1 if at + 1 < n else 0
    return int64(0)
