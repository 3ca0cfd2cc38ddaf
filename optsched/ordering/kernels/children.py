"""The successors of a state: its moves within the budget, or the one of the commit rule."""

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
"""Numbers of what kernels count, and how many there are."""
COUNTED = ("expanded", "stored", "duplicates", "closed", "singled", "lifts", "foreseen")
"""The names that :class:`optsched.ordering.rules.Statistics` has for them."""

SINGLE, NO_ROOM = -1, -2

LOOKS, MOST_LOOKS = 3, 1 << 17
"""Looks at ready ops that second steps from a state may take: some hundredths of a second. Where in
a gauge it stands how many are left."""


class SearchTask(NamedTuple):
    """What to search for.

    Parameters
    ----------
    forward
        From the start of the segment, or from its end.
    ceiling
        A budget of this or more is of no interest.
    close, commit, probe, lift, foresee
        Rules: closure; commit at the root; a single successor found by one or two probing steps;
        raising the budget in place; the look-ahead bound.
    """

    forward: bool
    ceiling: Int
    close: bool
    commit: bool
    probe: bool
    lift: bool
    foresee: bool


class SearchScratch(NamedTuple):
    """Arrays used over and over.

    Parameters
    ----------
    ready, second
        Shape `(n + 1,)`: candidates for a first step, and for a second one.
    child
        Shape `(3n + 3,)`: first move, end of moves and live bytes of each successor.
    spot, mark
        Shape `(n,)`: all -1 between uses; stamps.
    checked
        Shape `(n,)`: ops in the order in which the look-ahead bound tries them.
    gauge
        Numbers that steer the look-ahead bound, and looks that second steps may still take.
    """

    ready: IntArray
    second: IntArray
    child: IntArray
    spot: IntArray
    mark: IntArray
    checked: IntArray
    gauge: IntArray


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
    """Place `v` and what the closure rule adds; write the moves and return the place after them.

    Where many ops are ready the rule is left out: then one that costs nothing is a single child.
    """
    place(problem, state, task.forward, v)
    moves[count] = v
    if not task.close or state.tally[READY] > WIDE:
        return count + 1
    return close_state(problem, state, task.forward, budget, moves, count + 1)


@inner
def undo_moves(
    problem: OrderingProblem, state: Downset, forward: bool, moves: Moves, first: Int, end: Int
) -> None:
    """Take back `moves[first:end]`."""
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
    """Reduce moves from the current state to those that lead to the fewest live bytes on the way.

    Of several such states it is the farthest. Returns the place after the last move kept.
    """
    free = np.empty(end - first, np.int64)
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
    """Look for a second step after `moves[first:end]` that gets back to the present live bytes.

    Leaves the state as it was; returns the place after the longer moves, or -1. That is also the
    answer where such steps were looked for long enough.
    """
    if scratch.gauge[LOOKS] <= 0:
        return -1
    start_live = state.tally[LIVE]
    for k in range(first, end):
        place(problem, state, task.forward, int64(moves[k]))
    mark_touched(problem, moves, first, end, scratch.mark, stamp)
    count = 0
    for i in range(state.tally[READY]):
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
        # The closure rule looks at all of them.
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
    """List the successors of the current state behind `arena.moves`; return their number.

    `scratch.child` gets first move, end of moves and live bytes of each. The state's `need` is set.
    `SINGLE`: the first of them has no more live bytes than the state; by the commit rule
    :func:`single_child` makes of it the one that replaces all others. `NO_ROOM`: for the moves. Of
    blocks that may change places and are equally far, ops of the first one only are looked at.
    """
    moves, child = arena.moves, scratch.child
    live = state.tally[LIVE]
    ready = state.tally[READY]
    candidates = scratch.ready
    for i in range(ready):
        candidates[i] = state.ready[i]
    at = int(arena.fill[MOVES])
    room = len(moves) - 2 * len(problem.delta) - 2
    count = 0
    need = int64(NEVER)
    for i in range(ready):
        v = candidates[i]
        if len(keys.same) > 0 and keys.block[v] >= 0 and keys.same[keys.block[v]] > 0:
            continue
        during, _ = look_ahead(problem, state, task.forward, v, budget)
        if during > budget:
            need = min(int64(during), need)
            continue
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
        if task.probe and child[3 * count - 1] <= live:
            child[0], child[1], child[2] = child[3 * count - 3], end, child[3 * count - 1]
            return SINGLE
    arena.need[s] = need
    if task.probe:
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
    """Make the first child, which has no more live bytes than its parent, the only one."""
    moves, child = arena.moves, scratch.child
    end = keep_best(problem, state, task.forward, moves, child[0], child[1], scratch.spot)
    for k in range(child[0], end):
        place(problem, state, task.forward, int64(moves[k]))
    child[1], child[2] = end, state.tally[LIVE]
    undo_moves(problem, state, task.forward, moves, child[0], end)
    arena.need[s] = NEVER
    counters[SINGLED] += 1
    return 1
