"""Precedences that a budget implies, kept up to date while more of them are assumed.

What op `v` may cost is a question about the downset `D` of ops that have ended when it runs. A
*support* of `v` is such a `D` within the budget: as long as it obeys all precedences known, it
shows that its members may run before `v` and all others after it, without any flow. Only what lost
its last support is looked at again, in the residual network of the op's minimum cut.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from optsched.arrays import IntArray
from optsched.flow import UNBOUNDED, Arcs, Int, mark_side, max_flow
from optsched.jit import inner, kernel
from optsched.ordering.kernels.cut import Cut, Flags, build_cut, live_after
from optsched.ordering.kernels.imply import Matrix
from optsched.ordering.model import Net

SUPPORTS = 12
"""Supports that an op keeps; a new one takes the place of a lost one or of the oldest."""

FILL, TURN, FLOWS = 0, 1, 2
"""Numbers of a branch's `tally`: pairs known; where the next support may go; flows so far."""
COUNTS = 3

COST_PARTS = 1 << 20
"""Costs are compared in so many parts of the slack at least."""


class Supports(NamedTuple):
    """Downsets within the budget, shared by all branches.

    Parameters
    ----------
    member
        Shape `(n, SUPPORTS, n)`: who has ended in a support.
    live
        Shape `(n, SUPPORTS)`: live bytes while the op runs there.
    """

    member: npt.NDArray[np.bool_]
    live: IntArray


class Branch(NamedTuple):
    """What is known and assumed at one node of the tree.

    Parameters
    ----------
    above
        Shape `(n, n)`: `above[v, u]` if `u` runs before `v`; transitive.
    valid
        Shape `(n, SUPPORTS)`: which supports obey the pairs looked at.
    seen
        Shape `(n,)`: how many pairs each op's supports have been held against.
    pair
        Shape `(room, 2)`: the pairs that were added, the earlier op first.
    tally
        See :data:`FILL`.
    """

    above: Matrix
    valid: npt.NDArray[np.bool_]
    seen: IntArray
    pair: IntArray
    tally: IntArray


@kernel
def add_pair(branch: Branch, first: Int, second: Int) -> bool:
    """Add that `first` runs before `second`, and what follows; False if that is a cycle."""
    above = branch.above
    n = len(above)
    if above[first, second] or first == second:
        return False
    if above[second, first]:
        return True
    for v in range(n):
        if v == second or above[v, second]:
            above[v, first] = True
            for u in range(n):
                if above[first, u]:
                    above[v, u] = True
    fill = branch.tally[FILL]
    branch.pair[fill, 0] = first
    branch.pair[fill, 1] = second
    branch.tally[FILL] = fill + 1
    return True


@kernel
def reduce_rows(above: Matrix) -> tuple[IntArray, IntArray]:
    """The direct predecessors, as adjacency rows: those that no other predecessor runs after."""
    n = len(above)
    ptr = np.zeros(n + 1, np.int64)
    idx = np.empty(n * n // 4 + n + 1, np.int64)
    count = 0
    for v in range(n):
        direct = above[v].copy()
        for u in range(n - 1, -1, -1):
            # Whoever went out took its own predecessors with it.
            if direct[u]:
                for w in range(n):
                    direct[w] = direct[w] and not above[u, w]
        for u in range(n):
            if direct[u]:
                idx[count] = u
                count += 1
        ptr[v + 1] = count
    return ptr, idx[:count].copy()


@inner
def with_rows(net: Net, ptr: IntArray, idx: IntArray) -> Net:
    """The net with other predecessors; its successors stay those of the graph."""
    return Net(
        ptr, idx, net.succ_ptr, net.succ, net.read_ptr, net.read, net.user_ptr, net.user,
        net.hill, net.net, net.size, net.way_ptr, net.way, net.need_ptr, net.need,
    )  # fmt: skip


@inner
def drop_supports(branch: Branch, supports: Supports, v: Int) -> bool:
    """Hold the supports of an op against the pairs it has not seen; whether it is well off.

    That is so if none was lost and one is left.
    """
    lost = False
    some = False
    for k in range(SUPPORTS):
        if not branch.valid[v, k]:
            continue
        for p in range(branch.seen[v], branch.tally[FILL]):
            first, second = branch.pair[p, 0], branch.pair[p, 1]
            in_first = supports.member[v, k, first]
            in_second = supports.member[v, k, second] or second == v
            if in_second and not in_first:
                branch.valid[v, k] = False
                lost = True
                break
        some = some or branch.valid[v, k]
    branch.seen[v] = branch.tally[FILL]
    return some and not lost


@inner
def keep_support(
    branch: Branch,
    supports: Supports,
    v: Int,
    before: Flags,
    free: IntArray,
    late: Flags,
    live: Int,
) -> None:
    """Keep the downset of `before` and those of `free` that are not late."""
    slot = np.int64(-1)
    for k in range(SUPPORTS):
        if not branch.valid[v, k]:
            slot = np.int64(k)
            break
    if slot < 0:
        slot = branch.tally[TURN] % SUPPORTS
        branch.tally[TURN] += 1
    for u in range(len(before)):
        supports.member[v, slot, u] = before[u]
    for i in range(len(free)):
        supports.member[v, slot, free[i]] = not late[i]
    supports.live[v, slot] = live
    branch.valid[v, slot] = True


@inner
def open_ops(branch: Branch, v: Int) -> IntArray:
    """The ops that may run before `v` and after it."""
    n = len(branch.above)
    free = np.empty(n, np.int64)
    count = 0
    for u in range(n):
        if u != v and not branch.above[v, u] and not branch.above[u, v]:
            free[count] = u
            count += 1
    return free[:count].copy()


@inner
def cut_at(net: Net, base: Int, branch: Branch, v: Int, free: IntArray) -> tuple[Int, Cut]:
    """Least live bytes while `v` runs, and its minimum cut.

    Where the op has ways to save bytes, it is taken to save the most of them in any case.
    """
    before = branch.above[v].copy()
    cut = build_cut(net, before, free, np.full(len(before), -1, np.int64))
    least = live_after(net, base, before) + net.hill[v] - cut.profit
    spare = np.int64(0)
    for i in range(net.way_ptr[v], net.way_ptr[v + 1]):
        spare = max(spare, net.way[i])
    branch.tally[FLOWS] += 1
    return least - spare + max_flow(cut.arcs, cut.source, cut.sink, np.int64(UNBOUNDED)), cut


@inner
def copy_room(arcs: Arcs, room: IntArray) -> None:
    """Put back the residual capacities."""
    for e in range(len(room)):
        arcs.room[e] = room[e]


@inner
def late_side(arcs: Arcs, sink: Int, other: Int, count: Int) -> Flags:
    """Who runs after the op in the largest downset of a flow."""
    behind = mark_side(arcs, sink, np.int64(1))
    if other != sink:
        beyond = mark_side(arcs, other, np.int64(1))
        for i in range(count):
            behind[i] = behind[i] or beyond[i]
    return behind[:count].copy()


@inner
def refine_op(net: Net, base: Int, budget: Int, branch: Branch, supports: Supports, v: Int) -> bool:
    """Find the pairs that the budget implies at one op; False if it leaves no order."""
    free = open_ops(branch, v)
    count = len(free)
    early = np.zeros(count, np.bool_)
    late = np.zeros(count, np.bool_)
    covered = False
    for k in range(SUPPORTS):
        if branch.valid[v, k]:
            covered = True
            for i in range(count):
                if supports.member[v, k, free[i]]:
                    early[i] = True
                else:
                    late[i] = True
    for i in range(count):
        covered = covered and early[i] and late[i]
    if covered:
        return True
    before = branch.above[v].copy()
    least, cut = cut_at(net, base, branch, v, free)
    if least > budget:
        return False
    side = late_side(cut.arcs, cut.sink, cut.sink, np.int64(count))
    keep_support(branch, supports, v, before, free, side, least)
    near = mark_side(cut.arcs, cut.source, np.int64(0))
    other = np.empty(count, np.bool_)
    differs = False
    for i in range(count):
        other[i] = not near[i]
        differs = differs or other[i] != side[i]
        late[i] = late[i] or side[i] or other[i]
        early[i] = early[i] or not side[i] or not other[i]
    if differs:
        keep_support(branch, supports, v, before, free, other, least)
    room = cut.arcs.room.copy()
    for j in range(2 * count):
        i = j >> 1
        wants_early = j & 1 == 0
        u = free[i]
        if early[i] if wants_early else late[i]:
            continue
        if branch.above[v, u] or branch.above[u, v]:
            continue
        copy_room(cut.arcs, room)
        source, sink = cut.source, cut.sink
        if wants_early:
            source = np.int64(i)
        else:
            sink = np.int64(i)
        branch.tally[FLOWS] += 1
        more = max_flow(cut.arcs, source, sink, budget - least)
        if more <= budget - least:
            side = late_side(cut.arcs, sink, cut.sink, np.int64(count))
            for w in range(count):
                late[w] = late[w] or side[w]
                early[w] = early[w] or not side[w]
            keep_support(branch, supports, v, before, free, side, least + more)
        elif wants_early:
            if not add_pair(branch, v, u):
                return False
        elif not add_pair(branch, u, v):
            return False
    return True


@kernel
def refine(
    net: Net,
    base: Int,
    budget: Int,
    branch: Branch,
    supports: Supports,
    order: IntArray,
    blame: IntArray,
) -> bool:
    """Add all pairs that a budget implies, to a fixpoint; whether that refutes it.

    Parameters
    ----------
    net, base
        The problem, and the live bytes of the empty downset.
    budget
        Live bytes that no order may pass.
    branch, supports
        Changed in place.
    order
        All ops, in the order in which to look at them; one that brings news moves up.
    blame
        Shape `(n,)`: how often a contradiction came up at an op; added to.
    """
    n = len(order)
    fill = np.int64(-1)
    strong = net
    idle = 0
    at = 0
    while idle < n:
        v = order[at]
        if drop_supports(branch, supports, v):
            idle += 1
        else:
            if fill != branch.tally[FILL]:
                fill = branch.tally[FILL]
                ptr, idx = reduce_rows(branch.above)
                strong = with_rows(net, ptr, idx)
            refuted = not refine_op(strong, base, budget, branch, supports, v)
            idle += 1
            if refuted or fill != branch.tally[FILL]:
                for i in range(at, at // 2, -1):
                    order[i] = order[i - 1]
                order[at // 2] = v
                idle = 0
            if refuted:
                blame[v] += 1
                return True
        at = at + 1 if at + 1 < n else 0
    return False


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
def tallest(branch: Branch, supports: Supports) -> IntArray:
    """Least live bytes of any support of each op, -1 for those in order with all others."""
    n = len(branch.above)
    height = np.full(n, -1, np.int64)
    for v in range(n):
        if len(open_ops(branch, np.int64(v))) == 0:
            continue
        least = np.int64(UNBOUNDED)
        for k in range(SUPPORTS):
            if branch.valid[v, k]:
                least = min(least, supports.live[v, k])
        height[v] = least
    return height


@kernel
def weigh(
    net: Net,
    base: Int,
    budget: Int,
    branch: Branch,
    supports: Supports,
    blame: IntArray,
    tops: Int,
    choice: IntArray,
) -> Int:
    """List the pairs of ops whose two orders cost most at the ops with the least slack.

    Parameters
    ----------
    net, base, budget, branch, supports
        As in :func:`refine`, which has been here before.
    blame
        Shape `(n,)`: of ops with the same slack, those blamed more often are looked at; and then
        those that are blamed most of all.
    tops
        Ops to look at either way.
    choice
        Shape `(room, 3)`: gets score, op and other op of each pair, the best first.

    Returns
    -------
    int
        Number of pairs; 0 if all ops are in order.
    """
    ptr, idx = reduce_rows(branch.above)
    strong = with_rows(net, ptr, idx)
    height = tallest(branch, supports)
    count = np.int64(0)
    for turn in range(2 * tops):
        v = np.int64(-1)
        for u in range(len(height)):
            if height[u] < 0:
                continue
            better = v < 0 or blame[u] > blame[v]
            if v >= 0 and turn < tops:
                better = height[u] > height[v] or (height[u] == height[v] and better)
            if better:
                v = np.int64(u)
        if v < 0:
            break
        height[v] = -1
        free = open_ops(branch, v)
        least, cut = cut_at(strong, base, branch, v, free)
        room = cut.arcs.room.copy()
        slack = budget - least
        # Costs in parts of the slack fit 64 bits when multiplied.
        unit = slack // COST_PARTS + 1
        for i in range(len(free)):
            copy_room(cut.arcs, room)
            cost_in = min(max_flow(cut.arcs, np.int64(i), cut.sink, slack), slack + 1)
            copy_room(cut.arcs, room)
            cost_out = min(max_flow(cut.arcs, cut.source, np.int64(i), slack), slack + 1)
            # Both orders should cost something, as both have to be refuted.
            score = (10 * cost_in // unit + 1) * (10 * cost_out // unit + 1)
            count = insert_choice(choice, count, (np.int64(score), v, np.int64(free[i])))
    return count
