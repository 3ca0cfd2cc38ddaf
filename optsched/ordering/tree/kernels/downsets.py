"""Supports: downsets that show, without any flow, where the ops may be around one of them.

What op `v` may cost is a question about the downset `D` of ops that have ended when it runs. A
*support* of `v` is such a `D` within the budget: as long as it obeys all precedences known, it
shows that its members may run before `v` and all others after it. What it takes to move an op, and
all that must go along with it, to the other side bounds what a flow would find.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.bits import WORD, first_bit, has_bit, set_bit
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.problem import OrderingProblem
from optsched.ordering.tree.kernels.release import drain_all, is_full, take_up
from optsched.ordering.tree.kernels.workspace import Desk, lay_out
from optsched.runtime.kernel import inner

SUPPORTS = 56
"""Supports that an op keeps; a new one takes the place of a lost one or of the oldest."""

UNKNOWN = -1
"""Live bytes of a support that is not there yet."""

FILL, TURN, FLOWS = 0, 1, 2
"""Numbers of a branch's `tally`: pairs known; where the next support may go; flows so far."""
COUNTS = 3


class Supports(NamedTuple):
    """Downsets within the budget, shared by all branches.

    Parameters
    ----------
    member
        Shape `(n, SUPPORTS, words)`: who has ended in a support, as bits.
    ended
        Shape `(n, n)`: in which supports of the first op the second has ended, as bits.
    live
        Shape `(n, SUPPORTS)`: live bytes while the op runs there.
    """

    member: IntArray
    ended: IntArray
    live: IntArray


class Branch(NamedTuple):
    """What is known and assumed at one node of the tree.

    Parameters
    ----------
    before, after
        Shape `(n, words)`: who runs before an op, and after it, as bits; transitive.
    valid
        Shape `(n,)`: which supports obey the pairs looked at, as bits.
    seen
        Shape `(n,)`: how many pairs each op's supports have been held against.
    pair
        Shape `(room, 2)`: the pairs that were added, the earlier op first.
    tally
        See :data:`FILL`.
    """

    before: IntArray
    after: IntArray
    valid: IntArray
    seen: IntArray
    pair: IntArray
    tally: IntArray


@inner
def keep_support(branch: Branch, supports: Supports, v: Int, member: IntArray, live: Int) -> None:
    """Keep a downset where a support was lost, or in place of an old one."""
    slot = np.int64(-1)
    for k in range(SUPPORTS):
        if not (branch.valid[v] >> k) & 1:
            slot = np.int64(k)
            break
    if slot < 0:
        slot = branch.tally[TURN] % SUPPORTS
        branch.tally[TURN] += 1
    bit = np.int64(1) << slot
    for w in range(len(member)):
        supports.member[v, slot, w] = member[w]
    for u in range(len(branch.valid)):
        if has_bit(member, u):
            supports.ended[v, u] |= bit
        else:
            supports.ended[v, u] &= ~bit
    supports.live[v, slot] = live
    branch.valid[v] |= bit


@inner
def lowest(branch: Branch, supports: Supports, v: Int) -> Int:
    """The support of an op with the least live bytes; -1 if there is none."""
    best = np.int64(-1)
    for k in range(SUPPORTS):
        if (branch.valid[v] >> k) & 1 and (
            best < 0 or supports.live[v, k] < supports.live[v, best]
        ):
            best = np.int64(k)
    return best


@inner
def rise(net: OrderingProblem, desk: Desk, done: IntArray, other: IntArray) -> Int:
    """Live bytes after `done` and `other` less those after `done` alone, or without `other`."""
    total = np.int64(0)
    for w in range(len(done)):
        rest = other[w]
        while rest != 0:
            place = first_bit(rest)
            rest &= rest - 1
            u = w * WORD + place
            total += net.delta[u]
            for k in range(net.read_ptr[u], net.read_ptr[u + 1]):
                user = desk.user[net.read[k]]
                # Counted at the first of its users among the others, if all have ended.
                dead = user[w] & other[w] & ((np.int64(1) << place) - 1) == 0
                for y in range(len(done)):
                    dead = dead and user[y] & ~(done[y] | other[y]) == 0
                    dead = dead and (y >= w or user[y] & other[y] == 0)
                if dead:
                    total -= net.size[net.read[k]]
    return total


@inner
def shift(
    net: OrderingProblem,
    desk: Desk,
    have: IntArray,
    row: IntArray,
    u: Int,
    side: Int,
    more: IntArray,
) -> Int:
    """Live bytes more after a downset with an op and its `row` added, or taken out for side 1.

    The ops that would change sides are put into `more`.
    """
    for w in range(len(more)):
        more[w] = row[w] & (have[w] if side else ~have[w])
    set_bit(more, u)
    change = rise(net, desk, have, more)
    return -change if side else change


@inner
def drop_supports(branch: Branch, supports: Supports, v: Int) -> bool:
    """Hold the supports of an op against the pairs it has not seen; whether it is well off.

    That is so if none was lost and one is left.
    """
    ended, valid = supports.ended[v], branch.valid[v]
    kept = valid
    for p in range(branch.seen[v], branch.tally[FILL]):
        first, second = branch.pair[p, 0], branch.pair[p, 1]
        kept &= ended[first] | (0 if second == v else ~ended[second])
    branch.valid[v] = kept
    branch.seen[v] = branch.tally[FILL]
    return bool(kept != 0 and kept == valid)


@inner
def open_sides(branch: Branch, supports: Supports, v: Int) -> IntArray:
    """Ops that some support has before `v`, and those that some has after it or are `v`."""
    sides = np.zeros((2, branch.before.shape[1]), np.int64)
    for u in range(len(branch.valid)):
        if supports.ended[v, u] & branch.valid[v] != 0:
            set_bit(sides[0], u)
        if ~supports.ended[v, u] & branch.valid[v] != 0:
            set_bit(sides[1], u)
    set_bit(sides[0], v)
    return sides


@inner
def flow_at(
    net: OrderingProblem,
    base: Int,
    budget: Int,
    before: IntArray,
    branch: Branch,
    desk: Desk,
    v: Int,
) -> Int:
    """Least live bytes while `v` runs, or a number above the budget that is not above them.

    Where the op has ways to save bytes, it is taken to save the most of them in any case.
    """
    spare = np.int64(0)
    for i in range(net.saving_ptr[v], net.saving_ptr[v + 1]):
        spare = max(spare, net.saving[i])
    least = lay_out(net, base, before, branch.after, desk, v) + take_up(desk, v) - spare
    branch.tally[FLOWS] += 1
    while least <= budget:
        least += drain_all(desk, budget + 1 - least)
        if not is_full(desk):
            break
    return least
