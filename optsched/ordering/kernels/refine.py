"""Precedences that a budget implies, kept up to date while more of them are assumed.

Where an op may run is shown by its supports: see :mod:`optsched.ordering.kernels.supports`. Only
what lost one is looked at again, from the flow that the op had when it was last looked at.
"""

from __future__ import annotations

import numpy as np

from optsched.arrays import IntArray
from optsched.flow import Int
from optsched.jit import inner, kernel
from optsched.ordering.kernels.bits import has_bit, set_bit
from optsched.ordering.kernels.release import (
    LOGGED,
    Desk,
    begin_with,
    close_without,
    drain_all,
    is_full,
    lay_out,
    least_with,
    least_without,
    mark_late,
    mark_lost,
    put_away,
    take_up,
    undo,
)
from optsched.ordering.kernels.supports import (
    FILL,
    FLOWS,
    Branch,
    Supports,
    drop_supports,
    keep_support,
    lowest,
    open_sides,
    shift,
)
from optsched.ordering.model import Net

MISSES = 3
"""Ops that do not go with the others of a support, after which it is kept as it is."""

COST_PARTS = 1 << 20
"""Costs are compared in so many parts of the slack at least."""


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
def flow_at(
    net: Net, base: Int, budget: Int, before: IntArray, branch: Branch, desk: Desk, v: Int
) -> Int:
    """Least live bytes while `v` runs, or a number above the budget that is not above them.

    Where the op has ways to save bytes, it is taken to save the most of them in any case.
    """
    spare = np.int64(0)
    for i in range(net.way_ptr[v], net.way_ptr[v + 1]):
        spare = max(spare, net.way[i])
    least = lay_out(net, base, before, branch.after, desk, v) + take_up(desk, v) - spare
    branch.tally[FLOWS] += 1
    while least <= budget:
        least += drain_all(desk, budget + 1 - least)
        if not is_full(desk):
            break
    return least


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
    net: Net, base: Int, budget: Int, branch: Branch, supports: Supports, desk: Desk, v: Int
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
    costs = min(cost_in, slack + 1), min(cost_out, slack + 1)
    return (10 * costs[0] // unit + 1) * (10 * costs[1] // unit + 1)


@inner
def weigh(
    net: Net, base: Int, budget: Int, branch: Branch, supports: Supports, desk: Desk,
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


@kernel
def refine(
    net: Net,
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
