"""Watched downsets: they show, without any flow, where the ops may be around one of them.

What op `v` may cost is a question about the downset `D` of ops that have ended when it runs. A
*watched downset* of `v` is such a `D` with live bytes within the budget: as long as it obeys all
precedences known, it shows that its members may run before `v` and all others after it. So nothing
need be worked out for `v` again until a new precedence breaks one of its watched downsets, as with
the watched literals of a SAT solver.

References
----------
Moskewicz et al., "Chaff: engineering an efficient SAT solver", 2001.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import int64

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.bits import has_bit, set_bit
from optsched.ordering.kernels.cut import most_saved
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.problem import OrderingProblem
from optsched.ordering.tree.kernels.flow import log_is_full, push_all, restore_flow
from optsched.ordering.tree.kernels.workspace import FlowWorkspace, set_up
from optsched.runtime.kernel import inner

WATCHED = 56
"""Downsets that an op watches; a new one takes the place of a broken one or of the oldest."""

EMPTY = -1
"""Live bytes of a watched downset that is not there yet."""

PAIRS, NEXT_SLOT, FLOWS = 0, 1, 2
"""Numbers of a branch's `tally`: pairs known; where the next downset may go; flows so far."""
TALLIES = 3


class WatchedDownsets(NamedTuple):
    """Downsets within the budget, shared by all branches.

    Parameters
    ----------
    member
        Shape `(n, WATCHED, words)`: who has ended in a downset, as bits.
    ended
        Shape `(n, n)`: in which downsets of the first op the second has ended, as bits.
    live
        Shape `(n, WATCHED)`, bytes: live while the op runs there.
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
        Shape `(n,)`: which watched downsets obey the pairs looked at, as bits.
    checked
        Shape `(n,)`: how many pairs the watched downsets of each op were compared with.
    pairs
        Shape `(room, 2)`: the pairs that were added, the earlier op first.
    tally
        See :data:`PAIRS`.
    """

    before: IntArray
    after: IntArray
    valid: IntArray
    checked: IntArray
    pairs: IntArray
    tally: IntArray


@inner
def watch(branch: Branch, watched: WatchedDownsets, v: Int, member: IntArray, live: Int) -> None:
    """Watch a downset where another one was broken, or in place of an old one."""
    slot = int64(-1)
    for k in range(WATCHED):
        if not (branch.valid[v] >> k) & 1:
            slot = int64(k)
            break
    if slot < 0:
        slot = branch.tally[NEXT_SLOT] % WATCHED
        branch.tally[NEXT_SLOT] += 1
    bit = int64(1) << slot
    for w in range(len(member)):
        watched.member[v, slot, w] = member[w]
    for u in range(len(branch.valid)):
        if has_bit(member, u):
            watched.ended[v, u] |= bit
        else:
            watched.ended[v, u] &= ~bit
    watched.live[v, slot] = live
    branch.valid[v] |= bit


@inner
def least_watched(branch: Branch, watched: WatchedDownsets, v: Int) -> Int:
    """The fewest live bytes of the watched downsets of an op."""
    least = int64(EMPTY)
    for k in range(WATCHED):
        if (branch.valid[v] >> k) & 1 and (least == EMPTY or watched.live[v, k] < least):
            least = watched.live[v, k]
    return least


@inner
def recheck(branch: Branch, watched: WatchedDownsets, v: Int) -> bool:
    """Compare the watched downsets of an op with new pairs; whether none broke and one is left."""
    ended, valid = watched.ended[v], branch.valid[v]
    kept = valid
    for p in range(branch.checked[v], branch.tally[PAIRS]):
        first, second = branch.pairs[p, 0], branch.pairs[p, 1]
        kept &= ended[first] | (0 if second == v else ~ended[second])
    branch.valid[v] = kept
    branch.checked[v] = branch.tally[PAIRS]
    return bool(kept != 0 and kept == valid)


@inner
def sides_shown(branch: Branch, watched: WatchedDownsets, v: Int) -> IntArray:
    """Ops that some watched downset has before `v`, and those that some has after it or are `v`."""
    sides = np.zeros((2, branch.before.shape[1]), np.int64)
    for u in range(len(branch.valid)):
        if watched.ended[v, u] & branch.valid[v] != 0:
            set_bit(sides[0], u)
        if ~watched.ended[v, u] & branch.valid[v] != 0:
            set_bit(sides[1], u)
    set_bit(sides[0], v)
    return sides


@inner
def minimum_live(
    problem: OrderingProblem,
    budget: Int,
    before: IntArray,
    branch: Branch,
    flow: FlowWorkspace,
    v: Int,
) -> Int:
    """Minimum live bytes while `v` runs, or a lower bound on them that is above the budget.

    In-place, the op is taken to save the most bytes that it ever can, whatever has ended.
    """
    least = set_up(problem, before, branch.after, flow, v) + restore_flow(flow, v)
    least -= most_saved(problem, v)
    branch.tally[FLOWS] += 1
    while least <= budget:
        least += push_all(flow, budget + 1 - least)
        if not log_is_full(flow):
            break
    return least
