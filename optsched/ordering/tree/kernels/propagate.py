"""Precedences that a budget implies, kept up to date while more of them are assumed.

Where an op may run is shown by its supports: see :mod:`optsched.ordering.tree.kernels.downsets`.
Only what lost one is looked at again, from the flow that the op had when it was last looked at.
"""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.bits import has_bit, set_bit
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.problem import OrderingProblem
from optsched.ordering.tree.kernels.downsets import (
    FILL,
    FLOWS,
    Branch,
    Supports,
    drop_supports,
    flow_at,
    keep_support,
    open_sides,
)
from optsched.ordering.tree.kernels.release import (
    begin_with,
    close_without,
    is_full,
    least_with,
    least_without,
    mark_late,
    mark_lost,
    put_away,
    undo,
)
from optsched.ordering.tree.kernels.score import weigh
from optsched.ordering.tree.kernels.workspace import LOGGED, Desk
from optsched.runtime.kernel import inner, kernel

MISSES = 3
"""Ops that do not go with the others of a support, after which it is kept as it is."""


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
    fill = branch.tally[FILL]
    branch.pair[fill, 0] = first
    branch.pair[fill, 1] = second
    branch.tally[FILL] = fill + 1
    return True


@kernel
def reduce_rows(before: IntArray) -> tuple[IntArray, IntArray]:
    """The direct predecessors, as adjacency rows: those that no other predecessor runs after."""
    n = len(before)
    ptr = np.zeros(n + 1, np.int64)
    idx = np.empty(n * n // 4 + n + 1, np.int64)
    count = 0
    for v in range(n):
        direct = before[v].copy()
        for u in range(n - 1, -1, -1):
            # Whoever went out took its own predecessors with it.
            if has_bit(direct, u):
                for w in range(len(direct)):
                    direct[w] &= ~before[u, w]
        for u in range(n):
            if has_bit(direct, u):
                idx[count] = u
                count += 1
        ptr[v + 1] = count
    return ptr, idx[:count].copy()


@inner
def allow(
    branch: Branch, supports: Supports, desk: Desk, v: Int, side: IntArray, sides: IntArray,
    before: IntArray, live: Int,
) -> None:  # fmt: skip
    """Keep the downset of all that has ended for certain and the free ops that are not late."""
    member = np.empty(len(side), np.int64)
    for w in range(len(side)):
        member[w] = before[v, w] | (desk.free[w] & ~side[w])
        sides[0, w] |= member[w]
        sides[1, w] |= side[w]
    keep_support(branch, supports, v, member, live)


@inner
def is_settled(branch: Branch, v: Int, u: Int) -> bool:
    """Whether it is known which of two ops runs first."""
    return bool(has_bit(branch.before[v], u) | has_bit(branch.after[v], u))


@inner
def try_early(
    branch: Branch, supports: Supports, desk: Desk, v: Int, least: Int, slack: Int,
    before: IntArray, sides: IntArray,
) -> bool:  # fmt: skip
    """Find the free ops that can not have ended before `v`; False on a cycle.

    As many as go together are shown by one support to be none of them.
    """
    n, width = len(before), len(desk.free)
    side = np.empty(width, np.int64)
    need = np.empty(width, np.int64)
    tried = np.zeros(width, np.int64)
    spare = len(desk.supply) - 1
    some = True
    while some:
        some = False
        total = np.int64(0)
        misses = 0
        begin_with(desk)
        for u in range(n - 1, -1, -1):
            known = has_bit(sides[0], u) | has_bit(tried, u)
            if known or not has_bit(desk.free, u) or is_settled(branch, v, np.int64(u)):
                continue
            branch.tally[FLOWS] += 1
            line = desk.tally[LOGGED]
            for w in range(width):
                need[w] = desk.need[spare, w]
            more = least_with(desk, before, np.int64(u), slack - total)
            full = is_full(desk)
            if more <= slack - total and not full:
                total += more
                some = True
                set_bit(tried, u)
                continue
            undo(desk, line)
            for w in range(width):
                desk.need[spare, w] = need[w]
            if some:
                misses += 1
                if misses == MISSES:
                    break
            else:
                # It is too much by itself.
                set_bit(tried, u)
                if not full and not add_pair(branch, v, np.int64(u)):
                    return False
        if some:
            mark_late(desk, before, side)
            allow(branch, supports, desk, v, side, sides, before, least + total)
        undo(desk, np.int64(0))
    return True


@inner
def try_late(
    branch: Branch, supports: Supports, desk: Desk, v: Int, least: Int, slack: Int,
    before: IntArray, sides: IntArray,
) -> bool:  # fmt: skip
    """Find the free ops that must have ended before `v`; False on a cycle."""
    side = np.empty(len(desk.free), np.int64)
    for u in range(len(before)):
        known = has_bit(sides[1], u)
        if known or not has_bit(desk.free, u) or is_settled(branch, v, np.int64(u)):
            continue
        branch.tally[FLOWS] += 1
        more = least_without(desk, np.int64(u), slack)
        if more <= slack and not is_full(desk):
            for w in range(len(side)):
                side[w] = desk.free[w] & ~desk.mark[0, w]
            allow(branch, supports, desk, v, side, sides, before, least + more)
        close_without(desk, np.int64(u), slack)
        if more > slack and not add_pair(branch, np.int64(u), v):
            return False
    return True


@inner
def refine_op(
    net: OrderingProblem,
    base: Int,
    budget: Int,
    branch: Branch,
    supports: Supports,
    desk: Desk,
    v: Int,
) -> bool:
    """Find the pairs that the budget implies at one op; False if it leaves no order."""
    width = len(desk.every)
    sides = open_sides(branch, supports, v)
    missing = np.int64(0)
    for w in range(width):
        free = desk.every[w] & ~(branch.before[v, w] | branch.after[v, w])
        missing |= free & ~(sides[0, w] & sides[1, w])
    if missing == 0 and branch.valid[v] != 0:
        return True
    # The pairs found on the way are not in the flow.
    before = branch.before.copy()
    least = flow_at(net, base, budget, before, branch, desk, v)
    slack = budget - least
    possible = slack >= 0
    if possible:
        side = np.empty(width, np.int64)
        # The smallest downset: what the gains that are left need; then the largest.
        for w in range(width):
            side[w] = desk.free[w] & ~desk.mark[0, w]
        allow(branch, supports, desk, v, side, sides, before, least)
        mark_late(desk, before, side)
        mark_lost(desk)
        allow(branch, supports, desk, v, side, sides, before, least)
        possible = try_early(branch, supports, desk, v, least, slack, before, sides)
        if possible:
            possible = try_late(branch, supports, desk, v, least, slack, before, sides)
    put_away(desk, v)
    return bool(possible)


@kernel
def refine(
    net: OrderingProblem,
    base: Int,
    budget: Int,
    branch: Branch,
    supports: Supports,
    desk: Desk,
    order: IntArray,
    blame: IntArray,
    tops: Int,
    choice: IntArray,
) -> Int:
    """Add all pairs that a budget implies, to a fixpoint; after that, list pairs to split on.

    Parameters
    ----------
    net, base
        The problem, and the live bytes of the empty downset.
    budget
        Live bytes that no order may pass.
    branch, supports, desk
        Changed in place.
    order
        All ops, in the order in which to look at them; one that brings news moves up.
    blame
        Shape `(n,)`: how often a contradiction came up at an op; added to.
    tops
        Above 0 where all pairs are there: then, ops to list pairs at, as :func:`weigh` has them.
    choice
        Shape `(room, 3)`: gets score, op and other op of each pair, the best first.

    Returns
    -------
    int
        Number of pairs listed; -1 if the budget is refuted.

    Notes
    -----
    One kernel for both: most of the code is the same, and takes a second to compile.
    """
    if tops > 0:
        return weigh(net, base, budget, branch, supports, desk, blame, tops, choice)
    n = len(order)
    idle = 0
    at = 0
    while idle < n:
        v = order[at]
        idle += 1
        if not drop_supports(branch, supports, v):
            fill = branch.tally[FILL]
            refuted = not refine_op(net, base, budget, branch, supports, desk, v)
            if refuted or fill != branch.tally[FILL]:
                for i in range(at, at // 2, -1):
                    order[i] = order[i - 1]
                order[at // 2] = v
                idle = 0
            if refuted:
                blame[v] += 1
                return np.int64(-1)
        at = at + 1 if at + 1 < n else 0
    return np.int64(0)
