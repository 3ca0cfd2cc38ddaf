"""The moves of annealing: an op moves past others in an order, together with related ops.

To move an op later past a stretch of steps, its descendants in the stretch must move with it; to
move it earlier, its ancestors. Only the sequence within the stretch changes, so the live bytes
before and after it do not, and a buffer released within it still is. The stretch is evaluated from
its end backwards, as the first user of such a buffer that is found there is its last user.

Example: in the order `a b c d`, where `b` feeds `c`, move `b` past the next two steps: `c` moves
with it, and the result is `a d b c`.
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
"""Indices of the tally."""

OP_BITS, DRAW_BITS = 20, 12
"""Bits of a random number for the op; bits for the reach, and as many for the luck, each from a
table of `2**DRAW_BITS` entries. One more bit chooses the direction."""


class Walk(NamedTuple):
    """An order with its live bytes, and work space for a trial: a stretch in another sequence."""

    order: IntArray
    step: IntArray
    """`order` and `step`: shape `(n,)`: op by step, step by op."""
    live: IntArray
    """Shape `(n + 1,)`: live bytes before each step, and at the end."""
    during: IntArray
    """Shape `(n,)`: live bytes while each step runs."""
    last: IntArray
    """Shape `(m,)`: the last user of each shared buffer."""
    trial: IntArray
    before: IntArray
    high: IntArray
    """`trial`, `before` and `high`: shape `(n,)`: ops of the trial by step; live bytes before each,
    and while it runs."""
    mark: IntArray
    """Shape `(n,)`: equal to the present stamp for the ops that move."""
    seen: IntArray
    user: IntArray
    """`seen` and `user`: shape `(m,)`: equal to the present stamp for buffers released in the
    trial; their last user."""
    tally: IntArray
    """The present stamp; the number of steps above the target."""


@inner
def saved_last(problem: OrderingProblem, walk: Walk, v: Int) -> Int:
    """Return the bytes that an op of a trial saves in place: its largest possible saving."""
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
    """Compute the live bytes of the trial from `end` back to `first`; return its excess.

    The excess is the sum, over the steps, of the bytes above the target. The computation stops once
    it exceeds `most`, as the trial is then rejected.
    """
    stamp = walk.tally[STAMP]
    # Live bytes after the stretch do not depend on its sequence, so the evaluation starts there.
    live = walk.live[end + 1]
    excess = 0.0
    for i in range(end, first - 1, -1):
        v = walk.trial[i]
        live -= problem.delta[v]
        for k in range(problem.read_ptr[v], problem.read_ptr[v + 1]):
            b = problem.read[k]
            # A buffer whose last user is after the stretch stays live in it.
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
    """Write the trial in which an op moves past up to `reach` steps; return its two ends.

    Sketch: mark the op, and step by step the descendants (or ancestors, if it moves earlier) in the
    stretch. Shorten the stretch while its last op is marked. Then write the unmarked ops and the
    marked ones, each in their present sequence; marked ones last if the op moves later.
    """
    stamp = walk.tally[STAMP]
    mark, order = walk.mark, walk.order
    first = end = int(walk.step[op])
    mark[op] = stamp
    if later:
        end = min(len(order) - 1, first + int(reach))
        # Descendants are found while the stretch is passed, as each comes after the op that marks
        # it.
        for i in range(first, end + 1):
            if mark[order[i]] == stamp:
                for k in range(problem.succ_ptr[order[i]], problem.succ_ptr[order[i] + 1]):
                    mark[problem.succ[k]] = stamp
        # Marked ops at the end of the stretch have nothing to pass.
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
    # The op that moves later lets the others go first; the one that moves earlier goes first
    # itself.
    for moved in (not later, later):
        for i in range(first, end + 1):
            if (mark[order[i]] == stamp) == moved:
                walk.trial[at] = order[i]
                at += 1
    return first, end


@inner
def accept(problem: OrderingProblem, walk: Walk, first: Int, end: Int, target: Int) -> None:
    """Replace the stretch of the order by the trial."""
    for i in range(first, end + 1):
        v = walk.trial[i]
        # The walk is done when no step is above the target, so that number is kept up to date.
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
    """Return a walk that starts at a valid order; `during` are the live bytes of its steps."""
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
    temperature: float,
    picks: IntArray,
    reaches: IntArray,
    luck: npt.NDArray[np.float64],
) -> int:
    """Try a move for each of `picks` until no step exceeds the target; return the number tried.

    Sketch: a pick gives an op, a reach, a direction and a luck. The move may raise the excess of
    its stretch by at most temperature times luck; if it stays within that it becomes part of the
    order. As luck is exponentially distributed, this is the rule of Metropolis.

    `problem`, `walk`: the problem; the order and its live bytes. `target`: live bytes that no step
    should exceed. `temperature`: bytes by which a move of luck 1 may raise the excess. `picks`:
    random numbers below `2**62`. `reaches`, `luck`: shape `(2**DRAW_BITS,)`: tables to draw the
    number of steps and the luck from.
    """
    n = len(walk.order)
    walk.tally[OVER] = 0
    for i in range(n):
        walk.tally[OVER] += walk.during[i] > target
    for turn in range(len(picks)):
        if walk.tally[OVER] == 0:
            return turn
        # One random number gives op, reach, luck and direction, from the lowest bits up.
        pick = picks[turn]
        # A product and a shift scale the random bits to an op below `n`, without a division.
        op = (pick & ((1 << OP_BITS) - 1)) * n >> OP_BITS
        pick >>= OP_BITS
        reach = reaches[pick & (len(reaches) - 1)]
        pick >>= DRAW_BITS
        most = temperature * luck[pick & (len(luck) - 1)]
        # A new stamp clears all marks at once.
        walk.tally[STAMP] += 1
        first, end = set_trial(problem, walk, op, (pick >> DRAW_BITS) & 1 == 1, reach)
        if first == end:
            continue
        # The excess of the stretch as it is, plus what may be added to it.
        for i in range(first, end + 1):
            if walk.during[i] > target:
                most += walk.during[i] - target
        if work_out(problem, walk, first, end, target, most) <= most:
            accept(problem, walk, first, end, target)
    return len(picks)
