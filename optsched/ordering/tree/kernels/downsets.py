"""Watched downsets: they show, without a flow, on which side of an op the other ops may run.

Let `D` be the downset of ops that have ended when op `v` runs. A *watched downset* of `v` is such a
`D` with live bytes within the budget. As long as it obeys all known precedences, it shows that its
members may run before `v`, and all other ops after it. Nothing need be computed for `v` again until
a new precedence breaks one of its watched downsets, as with the watched literals of a SAT solver.

Example: `{a}` is watched for `v`. It shows that `a` may run before `v`, and `b` after it. The new
precedence "`b` before `a`" breaks it, as it contains `a` without `b`: `v` is looked at again.

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
"""Most downsets that an op watches; a new one replaces a broken one or the oldest."""

EMPTY = -1
"""Live bytes of an unused place for a watched downset."""

PAIRS, NEXT_SLOT, FLOWS = 0, 1, 2
"""Indices of a branch's `tally`: known pairs; place to overwrite next; flows computed."""
TALLIES = 3


class WatchedDownsets(NamedTuple):
    """Downsets within the budget, shared by all branches."""

    member: IntArray
    """Shape `(n, WATCHED, words)`: the ops in a downset, as bits."""
    ended: IntArray
    """Shape `(n, n)`: the downsets of the first op that contain the second, as bits."""
    live: IntArray
    """Shape `(n, WATCHED)`: live bytes while the op runs after that downset."""


class Branch(NamedTuple):
    """The precedences assumed and derived at one node of the tree."""

    before: IntArray
    after: IntArray
    """`before` and `after`: shape `(n, words)`: the ops that run before an op, and after it, as
    bits; transitive."""
    valid: IntArray
    """Shape `(n,)`: the watched downsets that obey the pairs compared so far, as bits."""
    checked: IntArray
    """Shape `(n,)`: number of pairs with which the watched downsets of an op were compared."""
    pairs: IntArray
    """Shape `(room, 2)`: the pairs added, the earlier op first."""
    tally: IntArray
    """See :data:`PAIRS`."""


@inner
def watch(branch: Branch, watched: WatchedDownsets, v: Int, member: IntArray, live: Int) -> None:
    """Add a watched downset in the place of a broken one, or of an old one."""
    slot = int64(-1)
    for k in range(WATCHED):
        if not (branch.valid[v] >> k) & 1:
            slot = int64(k)
            break
    if slot < 0:
        # All are valid: the oldest is replaced, as newer ones fit the present branch better.
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
    """Return the fewest live bytes of the watched downsets of an op."""
    least = int64(EMPTY)
    for k in range(WATCHED):
        if (branch.valid[v] >> k) & 1 and (least == EMPTY or watched.live[v, k] < least):
            least = watched.live[v, k]
    return least


@inner
def recheck(branch: Branch, watched: WatchedDownsets, v: Int) -> bool:
    """Compare the watched downsets of an op with new pairs; return True if none was broken.

    Also False if the op has no watched downset.
    """
    ended, valid = watched.ended[v], branch.valid[v]
    kept = valid
    for p in range(branch.checked[v], branch.tally[PAIRS]):
        first, second = branch.pairs[p, 0], branch.pairs[p, 1]
        # A downset obeys "first before second" if it has the first op or lacks the second.
        kept &= ended[first] | (0 if second == v else ~ended[second])
    branch.valid[v] = kept
    branch.checked[v] = branch.tally[PAIRS]
    return bool(kept != 0 and kept == valid)


@inner
def sides_shown(branch: Branch, watched: WatchedDownsets, v: Int) -> IntArray:
    """Return two sets: ops in some watched downset of `v` (and `v`), and ops outside of one."""
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
    """Return the minimum live bytes while `v` runs, or a lower bound that exceeds the budget.

    In an in-place graph the op is taken to save the most bytes that it ever can.
    """
    least = set_up(problem, before, branch.after, flow, v) + restore_flow(flow, v)
    least -= most_saved(problem, v)
    branch.tally[FLOWS] += 1
    while least <= budget:
        least += push_all(flow, budget + 1 - least)
        # A full log ends the flow early; it is emptied and the flow continues.
        if not log_is_full(flow):
            break
    return least
