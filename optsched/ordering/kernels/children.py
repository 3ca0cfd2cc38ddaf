"""Successors of a state: its moves within the budget, or a single one by the commit rule.

A move is an op together with the ops that the closure rule places after it at once, because they
fit the budget and do not raise the live bytes. If a move, or two of them, leads to a state with no
more live bytes than the current one, some optimal path passes through the smallest state of fewest
bytes on the way there. That state is then the only successor.

Example: 10 bytes are live; `a` leads to 12, `b` to 11, and then `c` to 9. After `b` and `c` fewer
bytes are live than now, so the only successor is the state with `b` and `c`; `a` is not tried.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import int64

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.cut import best_selection
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.kernels.orbit import Keys
from optsched.ordering.kernels.state import (
    LIVE,
    READY,
    WIDE,
    Downset,
    close_state,
    look_ahead,
    place,
    take_back,
)
from optsched.ordering.kernels.states import MOVES, Arena, Moves
from optsched.ordering.problem import OrderingProblem
from optsched.runtime.kernel import inner

NEVER = 2**63 - 1

EXPANDED, STORED, DUPLICATES, CLOSED, SINGLED, LIFTED, FORESEEN, COUNTERS = range(8)
"""Indices of the counters, and their number."""
COUNTED = ("expanded", "stored", "duplicates", "closed", "singled", "lifts", "foreseen")
"""Their names in :class:`optsched.ordering.rules.Statistics`."""

# In place of a number of successors, so that the kernel returns a plain integer.
SINGLE, NO_ROOM = -1, -2

LOOKS, MOST_LOOKS = 3, 1 << 17
"""Index in the gauge of the evaluations left for second steps; most evaluations of ready ops that
the second steps from one state may take, some hundredths of a second."""


class SearchTask(NamedTuple):
    """Direction, limit and rules of a search."""

    forward: bool
    """True from the start of the segment, False from its end."""
    ceiling: Int
    """The search ends once its budget would be at least this."""
    close: bool
    commit: bool
    probe: bool
    lift: bool
    foresee: bool
    """`close`, `commit`, `probe`, `lift` and `foresee`: switches for rules: closure; commit at the
    root; a single successor found by one or two probing steps; raising the budget in place; the
    look-ahead bound."""


class SearchScratch(NamedTuple):
    """Work space that is reused for every state."""

    ready: IntArray
    second: IntArray
    """`ready` and `second`: shape `(n + 1,)`: candidates for a first step, and for a second one."""
    child: IntArray
    """Shape `(3n + 3,)`: first move, end of moves and live bytes of each successor."""
    spot: IntArray
    mark: IntArray
    """`spot` and `mark`: shape `(n,)`: work space, all -1 between uses; stamps."""
    checked: IntArray
    """Shape `(n,)`: ops in the sequence in which the look-ahead bound tries them."""
    gauge: IntArray
    """Shape `(4,)`: counters of the look-ahead bound, and evaluations left for second steps."""


@inner
def try_move(
    problem: OrderingProblem,
    state: Downset,
    task: SearchTask,
    budget: Int,
    v: Int,
    moves: Moves,
    count: Int,
) -> Int:
    """Place `v` and the ops that the closure rule adds; return the position after the moves.

    The rule is skipped if many ops are ready. Such an op is then found as a single successor.
    """
    place(problem, state, task.forward, v)
    moves[count] = v
    # Each added op looks at all ready ops: quadratic work if there are many.
    if not task.close or state.tally[READY] > WIDE:
        return count + 1
    return close_state(problem, state, task.forward, budget, moves, count + 1)


@inner
def undo_moves(
    problem: OrderingProblem, state: Downset, forward: bool, moves: Moves, first: Int, end: Int
) -> None:
    """Take back `moves[first:end]`."""
    # In reverse, as each step restores what the one before it left.
    for k in range(end - 1, first - 1, -1):
        take_back(problem, state, forward, int64(moves[k]))


@inner
def keep_best(
    problem: OrderingProblem,
    state: Downset,
    forward: bool,
    moves: Moves,
    first: Int,
    end: Int,
    spot: IntArray,
) -> Int:
    """Keep only the moves that lead to the state of fewest live bytes on the way.

    Of several such states it is the farthest. Returns the position after the last move kept.
    """
    free = np.empty(end - first, np.int64)
    # Kept moves stay a valid sequence, as the chosen set is closed under what each op requires.
    # Backward, the cut is set up from the smaller downset, in which the moves are already undone.
    for k in range(first, end):
        free[k - first] = moves[k]
        if not forward:
            state.done[moves[k]] = False
    chosen = best_selection(problem, state.done, free, spot, forward)
    at = first
    for k in range(first, end):
        if not forward:
            state.done[free[k - first]] = True
        if chosen[k - first] == forward:
            moves[at] = free[k - first]
            at += 1
    return at


@inner
def mark_touched(
    problem: OrderingProblem, moves: Moves, first: Int, end: Int, mark: IntArray, stamp: Int
) -> None:
    """Mark the ops whose readiness or effect some moves may have changed."""
    for k in range(first, end):
        v = moves[k]
        for i in range(problem.succ_ptr[v], problem.succ_ptr[v + 1]):
            mark[problem.succ[i]] = stamp
        for i in range(problem.pred_ptr[v], problem.pred_ptr[v + 1]):
            mark[problem.pred[i]] = stamp
        for i in range(problem.read_ptr[v], problem.read_ptr[v + 1]):
            b = problem.read[i]
            for j in range(problem.user_ptr[b], problem.user_ptr[b + 1]):
                mark[problem.user[j]] = stamp


@inner
def probe_second(
    problem: OrderingProblem,
    state: Downset,
    task: SearchTask,
    budget: Int,
    moves: Moves,
    first: Int,
    end: Int,
    scratch: SearchScratch,
    stamp: Int,
) -> Int:
    """Look for a second step after `moves[first:end]` that returns to the present live bytes.

    The state is unchanged on return. Returns the position after the extended moves, or -1 if no
    such step is found with the evaluations left.
    """
    if scratch.gauge[LOOKS] <= 0:
        return -1
    start_live = state.tally[LIVE]
    for k in range(first, end):
        place(problem, state, task.forward, int64(moves[k]))
    mark_touched(problem, moves, first, end, scratch.mark, stamp)
    count = 0
    # Candidates are copied, since placing an op changes the list of ready ops.
    for i in range(state.tally[READY]):
        # A step that the first moves did not touch could have been made without them.
        if scratch.mark[state.ready[i]] == stamp:
            scratch.second[count] = state.ready[i]
            count += 1
    found = -1
    scratch.gauge[LOOKS] -= state.tally[READY]
    for i in range(count):
        v = scratch.second[i]
        during, _ = look_ahead(problem, state, task.forward, v, budget)
        if during > budget:
            continue
        if scratch.gauge[LOOKS] <= 0:
            break
        # The closure rule evaluates all ready ops.
        scratch.gauge[LOOKS] -= state.tally[READY]
        last = try_move(problem, state, task, budget, v, moves, end)
        better = state.tally[LIVE] <= start_live
        undo_moves(problem, state, task.forward, moves, end, last)
        if better:
            found = last
            break
    undo_moves(problem, state, task.forward, moves, first, end)
    return found


@inner
def find_children(
    problem: OrderingProblem,
    state: Downset,
    arena: Arena,
    task: SearchTask,
    budget: Int,
    s: Int,
    scratch: SearchScratch,
    keys: Keys,
    counters: IntArray,
) -> Int:
    """List the successors of the current state after the used part of `arena.moves`.

    Sketch: for each ready op, skip it if an equal block is at the same point, or if it exceeds the
    budget; otherwise try the move and write its end and live bytes to `scratch.child`. If the live
    bytes do not rise, return at once, as this successor replaces all others. If no first step does
    so, try the second steps after each move.

    The `need` of the state becomes the smallest budget that a blocked op requires.

    Returns
    -------
    int
        Number of successors; `SINGLE` if the first one has no more live bytes than the state
        (:func:`single_child` then makes it the only one); `NO_ROOM` if the moves do not fit.
    """
    moves, child = arena.moves, scratch.child
    live = state.tally[LIVE]
    ready = state.tally[READY]
    # A copy, since trying a move changes the list of ready ops.
    candidates = scratch.ready
    for i in range(ready):
        candidates[i] = state.ready[i]
    at = int(arena.fill[MOVES])
    # One state lists up to n moves more, and probing copies up to n again.
    room = len(moves) - 2 * len(problem.delta) - 2
    count = 0
    need = int64(NEVER)
    for i in range(ready):
        v = candidates[i]
        # Of equal blocks at the same point only the first is continued.
        if len(keys.same) > 0 and keys.block[v] >= 0 and keys.same[keys.block[v]] > 0:
            continue
        during, _ = look_ahead(problem, state, task.forward, v, budget)
        if during > budget:
            # Once no state is left within the budget, the smallest need is the next budget worth
            # trying.
            need = min(int64(during), need)
            continue
        # Successors are written after the used part of `moves`, which the caller then enlarges.
        if at > room:
            return NO_ROOM
        end = try_move(problem, state, task, budget, v, moves, at)
        child[3 * count] = at
        child[3 * count + 1] = end
        child[3 * count + 2] = state.tally[LIVE]
        counters[CLOSED] += end - at - 1
        undo_moves(problem, state, task.forward, moves, at, end)
        count += 1
        at = end
        # Live bytes do not rise, so some best order makes this move now; no other successor is
        # needed.
        if task.probe and child[3 * count - 1] <= live:
            child[0], child[1], child[2] = child[3 * count - 3], end, child[3 * count - 1]
            return SINGLE
    arena.need[s] = need
    # No first step leads down: try second steps, on a copy of each move after the used part.
    if task.probe:
        # The limit counts looks at ops, not states: a state with thousands of ready ops would take
        # seconds.
        scratch.gauge[LOOKS] = MOST_LOOKS
        for i in range(count):
            first, end = child[3 * i], child[3 * i + 1]
            for k in range(first, end):
                moves[at + k - first] = moves[k]
            end = at + end - first
            counters[COUNTERS] += 1
            stamp = counters[COUNTERS]
            last = probe_second(problem, state, task, budget, moves, at, end, scratch, stamp)
            if last >= 0:
                child[0], child[1] = at, last
                return SINGLE
    return count


@inner
def single_child(
    problem: OrderingProblem,
    state: Downset,
    arena: Arena,
    task: SearchTask,
    s: Int,
    scratch: SearchScratch,
    counters: IntArray,
) -> Int:
    """Replace all successors by the first, which has no more live bytes than its parent."""
    moves, child = arena.moves, scratch.child
    end = keep_best(problem, state, task.forward, moves, child[0], child[1], scratch.spot)
    for k in range(child[0], end):
        place(problem, state, task.forward, int64(moves[k]))
    child[1], child[2] = end, state.tally[LIVE]
    undo_moves(problem, state, task.forward, moves, child[0], end)
    # The single successor is within the budget, so the state need not be expanded again.
    arena.need[s] = NEVER
    counters[SINGLED] += 1
    return 1
