"""The moves of annealing: an op moves past others in an order, and takes along what it must.

A move changes the order of the ops within a stretch of steps only, so the live bytes before and
after the stretch stay, and a buffer released in it still is. Hence a move is worked out from the
end of its stretch backwards: there the first user met of such a buffer is its last one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import int64

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.problem import OrderingProblem
from optsched.runtime.kernel import inner, kernel

STAMP, OVER = 0, 1

OP_BITS, DRAW_BITS = 20, 12
"""Bits of a random number that choose an op; that choose a reach, and as many more for luck. What
is drawn from has `2**DRAW_BITS` entries. One more bit chooses the direction."""


class Walk(NamedTuple):
    """An order and what is known of it, and room for a trial: a stretch in another order.

    Parameters
    ----------
    order, step
        Shape `(n,)`: op by step, step by op.
    live
        Shape `(n + 1,)`: live bytes before each step, and at the end.
    during
        Shape `(n,)`: live bytes while each step runs.
    last
        Shape `(m,)`: the last user of each shared buffer.
    trial, before, high
        Shape `(n,)`: ops of the trial by step; live bytes before, and while, each runs.
    mark
        Shape `(n,)`: the ops that move have the present stamp.
    seen, user
        Shape `(m,)`: buffers released in the trial have the present stamp; their last user in it.
    tally
        The stamp; number of steps above the target.
    """

    order: IntArray
    step: IntArray
    live: IntArray
    during: IntArray
    last: IntArray
    trial: IntArray
    before: IntArray
    high: IntArray
    mark: IntArray
    seen: IntArray
    user: IntArray
    tally: IntArray


@inner
def saved_last(problem: OrderingProblem, walk: Walk, v: Int) -> Int:
    """Bytes that an op of a trial can do without, being the last user of what its ways need."""
    most = int64(0)
    for i in range(problem.saving_ptr[v], problem.saving_ptr[v + 1]):
        met = problem.saving[i] > most
        for k in range(problem.need_ptr[i], problem.need_ptr[i + 1]):
            b = problem.need[k]
            met = met and walk.seen[b] == walk.tally[STAMP] and walk.user[b] == v
        if met:
            most = problem.saving[i]
    return most


@inner
def work_out(
    problem: OrderingProblem, walk: Walk, first: Int, end: Int, target: Int, most: float
) -> float:
    """Work out the trial's steps from `first` to `end`; return by how much they pass the target.

    That is a sum over the steps, of no use once it is above `most`: then the rest is left undone.
    """
    stamp = walk.tally[STAMP]
    live = walk.live[end + 1]
    excess = 0.0
    for i in range(end, first - 1, -1):
        v = walk.trial[i]
        live -= problem.delta[v]
        for k in range(problem.read_ptr[v], problem.read_ptr[v + 1]):
            b = problem.read[k]
            if walk.seen[b] != stamp and walk.step[walk.last[b]] <= end:
                walk.seen[b] = stamp
                walk.user[b] = v
                live += problem.size[b]
        high = live + problem.rise[v]
        if problem.saving_ptr[v] < problem.saving_ptr[v + 1]:
            high -= saved_last(problem, walk, v)
        walk.before[i] = live
        walk.high[i] = high
        if high > target:
            excess += high - target
            if excess > most:
                break
    return excess


@inner
def set_trial(
    problem: OrderingProblem, walk: Walk, op: Int, later: bool, reach: Int
) -> tuple[int, int]:
    """Let an op pass what it can of the next `reach` steps; return the first and last step changed.

    Later, it takes its descendants among them along; earlier, its ancestors.
    """
    stamp = walk.tally[STAMP]
    mark, order = walk.mark, walk.order
    first = end = int(walk.step[op])
    mark[op] = stamp
    if later:
        end = min(len(order) - 1, first + int(reach))
        for i in range(first, end + 1):
            if mark[order[i]] == stamp:
                for k in range(problem.succ_ptr[order[i]], problem.succ_ptr[order[i] + 1]):
                    mark[problem.succ[k]] = stamp
        while end > first and mark[order[end]] == stamp:
            end -= 1
    else:
        first = max(0, end - int(reach))
        for i in range(end, first - 1, -1):
            if mark[order[i]] == stamp:
                for k in range(problem.pred_ptr[order[i]], problem.pred_ptr[order[i] + 1]):
                    mark[problem.pred[k]] = stamp
        while end > first and mark[order[first]] == stamp:
            first += 1
    at = first
    for moved in (not later, later):
        for i in range(first, end + 1):
            if (mark[order[i]] == stamp) == moved:
                walk.trial[at] = order[i]
                at += 1
    return first, end


@inner
def accept(problem: OrderingProblem, walk: Walk, first: Int, end: Int, target: Int) -> None:
    """Make a trial part of the order."""
    for i in range(first, end + 1):
        v = walk.trial[i]
        walk.tally[OVER] += int(walk.high[i] > target) - int(walk.during[i] > target)
        walk.order[i] = v
        walk.step[v] = i
        walk.live[i] = walk.before[i]
        walk.during[i] = walk.high[i]
        for k in range(problem.read_ptr[v], problem.read_ptr[v + 1]):
            b = problem.read[k]
            if walk.seen[b] == walk.tally[STAMP]:
                walk.last[b] = walk.user[b]


def start_walk(problem: OrderingProblem, order: IntArray, during: IntArray) -> Walk:
    """Return the walk from a valid order, in whose steps `during` bytes are live."""
    n, m = len(order), len(problem.size)
    step = np.empty(n, np.int64)
    step[order] = np.arange(n)
    change = problem.delta[order]
    last = np.maximum.reduceat(step[problem.user], problem.user_ptr[:-1]) if m else step[:0]
    np.subtract.at(change, last, problem.size)
    live = np.full(n + 1, problem.base, np.int64)
    live[1:] += np.cumsum(change)
    return Walk(
        order.copy(), step, live, during.copy(), order[last], order.copy(),
        before=np.empty(n, np.int64), high=np.empty(n, np.int64), mark=np.zeros(n, np.int64),
        seen=np.zeros(m, np.int64), user=np.zeros(m, np.int64), tally=np.zeros(2, np.int64),
    )  # fmt: skip


@kernel
def go_on(
    problem: OrderingProblem,
    walk: Walk,
    target: Int,
    heat: float,
    picks: IntArray,
    reaches: IntArray,
    luck: npt.NDArray[np.float64],
) -> int:
    """Try a move for each of `picks` until no step passes the target; return how many were tried.

    Parameters
    ----------
    problem, walk
        The problem; where the walk is.
    target
        Live bytes to get down to.
    heat
        Bytes, summed over the steps that pass the target, that a move may lose if it has luck 1.
    picks
        Random numbers below `2**62`.
    reaches, luck
        Shape `(2**DRAW_BITS,)`: what to draw a number of steps, and luck, from.
    """
    n = len(walk.order)
    walk.tally[OVER] = 0
    for i in range(n):
        walk.tally[OVER] += walk.during[i] > target
    for turn in range(len(picks)):
        if walk.tally[OVER] == 0:
            return turn
        pick = picks[turn]
        op = (pick & ((1 << OP_BITS) - 1)) * n >> OP_BITS
        pick >>= OP_BITS
        reach = reaches[pick & (len(reaches) - 1)]
        pick >>= DRAW_BITS
        most = heat * luck[pick & (len(luck) - 1)]
        walk.tally[STAMP] += 1
        first, end = set_trial(problem, walk, op, (pick >> DRAW_BITS) & 1 == 1, reach)
        if first == end:
            continue
        for i in range(first, end + 1):
            if walk.during[i] > target:
                most += walk.during[i] - target
        if work_out(problem, walk, first, end, target, most) <= most:
            accept(problem, walk, first, end, target)
    return len(picks)
