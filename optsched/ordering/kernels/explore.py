"""The search of a segment: from one end, for a way to the other that stays within the budget.

States are taken up depth first, those with fewest ops left and then fewest live bytes first; each
is stored once. A state of which some move was blocked waits for a larger budget. When no state is
left, the lowest budget that lets one in is a proved bound, and the search goes on with it.
"""

from __future__ import annotations

import numpy as np
from numpy import int64

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.children import (
    DUPLICATES,
    EXPANDED,
    FORESEEN,
    LIFTED,
    NEVER,
    SINGLE,
    STORED,
    SearchScratch,
    SearchTask,
    find_children,
    keep_best,
    single_child,
)
from optsched.ordering.kernels.cut import around, least_given
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.kernels.orbit import Keys, add_moves, take_stock
from optsched.ordering.kernels.state import Downset
from optsched.ordering.kernels.states import (
    MOVES,
    STATES,
    Arena,
    Moves,
    find_state,
    go_to,
    pop,
    push,
)
from optsched.ordering.problem import OrderingProblem
from optsched.runtime.kernel import inner, kernel

REACHED, EXHAUSTED, FULL, PAUSED = 0, 1, 2, 3
"""How a search ended: at the goal or a commit; with no state left; with no room left; not yet."""

SELDOM = 64
"""A bound that keeps failing is tried at one state in this many."""

FIRST_LOOK = 16
"""Expansions before it is tried first: short searches go without."""

PERIOD, WAIT, TURN = 0, 1, 2


@inner
def store_child(
    arena: Arena,
    s: Int,
    first: Int,
    end: Int,
    live: Int,
    hashes: tuple[Int, Int],
    keys: Keys,
    counters: IntArray,
) -> Int:
    """Add a child to the arena, its moves being moved to where they belong; -1 if it is known.

    `hashes` are those of the ops placed so far that are in no block.
    """
    moves = arena.moves
    low, high = add_moves(keys, moves, first, end, hashes)
    at = find_state(arena, low, high)
    if arena.table[at] >= 0:
        counters[DUPLICATES] += 1
        return int64(-1)
    new = int64(arena.fill[STATES])
    start = arena.fill[MOVES]
    for k in range(first, end):
        moves[start + k - first] = moves[k]
    arena.table[at] = new
    arena.parent[new] = s
    arena.level[new] = arena.level[s] + 1
    arena.start[new] = start
    arena.length[new] = end - first
    arena.left[new] = arena.left[s] - end + first
    arena.live[new] = live
    arena.low[new] = low
    arena.high[new] = high
    arena.fill[STATES] = new + 1
    arena.fill[MOVES] = start + end - first
    counters[STORED] += 1
    push(arena.open, arena.left, arena.live, new)
    return new


@inner
def read_path(arena: Arena, s: Int, out: Moves) -> Int:
    """Write the moves from the root to a state; return how many there are."""
    total = arena.left[0] - arena.left[s]
    at = total
    while s > 0:
        for k in range(arena.start[s] + arena.length[s] - 1, arena.start[s] - 1, -1):
            at -= 1
            out[at] = arena.moves[k]
        s = arena.parent[s]
    return total


@inner
def raise_budget(arena: Arena, budget: Int, ceiling: Int) -> Int:
    """Let in the states that wait for the lowest budget, and return it; `ceiling` if none is less.

    As no state is left to expand, no order stays below that budget.
    """
    if arena.blocked[0] == 0 or arena.need[arena.blocked[1]] >= ceiling:
        return ceiling
    budget = max(budget, int(arena.need[arena.blocked[1]]))
    while arena.blocked[0] > 0 and arena.need[arena.blocked[1]] <= budget:
        s = pop(arena.blocked, arena.need, arena.live)
        push(arena.open, arena.left, arena.live, s)
    return budget


@inner
def least_ahead(
    problem: OrderingProblem, state: Downset, forward: bool, op: Int, spot: IntArray
) -> Int:
    """Least live bytes while `op` runs, on any way from the current state to the goal.

    `spot` is scratch of shape `(n,)`, all -1.
    """
    before, after = around(problem, op)
    for u in range(len(before)):
        if state.within[u] and state.done[u] != forward:
            continue
        if state.done[u] and (forward or not state.within[u]):
            before[u] = True
        else:
            after[u] = True
    return least_given(problem, before, after, op, spot)


@inner
def look_ahead_bound(
    problem: OrderingProblem,
    state: Downset,
    forward: bool,
    budget: Int,
    checked: IntArray,
    gauge: IntArray,
    spot: IntArray,
) -> Int:
    """Return bytes above the budget that some op ahead costs on any way to the goal, or 0.

    Of the ops `checked`, the two ops ahead that did last are tried, and one more in turn. The more
    often that fails, the seldomer it is tried at all: `gauge` holds the period, the states to wait
    for the next try, which the caller counts down, and the turn.
    """
    gauge[TURN] = (gauge[TURN] + 1) % len(checked)
    tried = 0
    for i in range(len(checked)):
        at = i if tried < 2 else max(int64(i), gauge[TURN])
        v = checked[at]
        if not state.within[v] or state.done[v] == forward:
            if tried < 2:
                continue
            break
        cost = least_ahead(problem, state, forward, v, spot)
        if cost > budget:
            for j in range(at, 0, -1):
                checked[j] = checked[j - 1]
            checked[0] = v
            gauge[PERIOD] //= 2
            gauge[WAIT] = gauge[PERIOD]
            return cost
        tried += 1
        if tried == 3:
            break
    gauge[PERIOD] = min(gauge[PERIOD] + 1, int64(SELDOM))
    gauge[WAIT] = gauge[PERIOD]
    return int64(0)


def start_scratch(ops: int, checked: IntArray) -> SearchScratch:
    """Return what a search works in; `checked` are the ops that the look-ahead bound tries."""
    scratch = SearchScratch(
        np.empty(ops + 1, np.int64),
        np.empty(ops + 1, np.int64),
        np.empty(3 * ops + 3, np.int64),
        np.full(ops, -1, np.int64),
        np.zeros(ops, np.int64),
        checked.copy(),
        np.zeros(4, np.int64),
    )
    scratch.gauge[WAIT] = FIRST_LOOK
    return scratch


@kernel
def advance(
    problem: OrderingProblem,
    task: SearchTask,
    state: Downset,
    arena: Arena,
    scratch: SearchScratch,
    budget: Int,
    keys: Keys,
    path: Moves,
    counters: IntArray,
    expansions: Int,
    enough: Int,
) -> tuple[int, Int, Int]:
    """Go on with a search for a number of expansions.

    Parameters
    ----------
    problem, task
        The problem; what to search for.
    state, arena, scratch
        Where it is; what it has met; room to work in.
    budget
        Live bytes that may not be passed.
    keys
        What the hashes of states are made of.
    path
        Gets the moves found.
    counters
        Shape `(COUNTERS + 1,)`: added to.
    expansions
        How many states to expand at most.
    enough
        Stop once this many states are stored.

    Returns
    -------
    tuple
        How it ended; a budget below which there is no order; number of moves in `path`.
    """
    root_live, child = arena.live[0], scratch.child
    for _ in range(expansions):
        if arena.fill[STATES] >= enough:
            break
        if arena.open[0] == 0:
            raised = raise_budget(arena, budget, task.ceiling)
            if raised >= task.ceiling or not task.lift:
                return EXHAUSTED, raised, 0
            counters[LIFTED] += 1
            budget = raised
        s = pop(arena.open, arena.left, arena.live)
        go_to(problem, state, arena, task.forward, s)
        scratch.gauge[WAIT] -= 1
        if task.foresee and scratch.gauge[WAIT] <= 0:
            cost = look_ahead_bound(
                problem, state, task.forward, budget, scratch.checked, scratch.gauge,
                scratch.spot,
            )  # fmt: skip
            if cost > 0:
                counters[FORESEEN] += 1
                arena.need[s] = cost
                push(arena.blocked, arena.need, arena.live, s)
                continue
        hashes = arena.low[s], arena.high[s]
        if len(keys.same) > 0:
            hashes = take_stock(state, task.forward, keys)
        count = find_children(problem, state, arena, task, budget, s, scratch, keys, counters)
        if count == SINGLE:
            count = single_child(problem, state, arena, task, s, scratch, counters)
        if count < 0 or arena.fill[STATES] + count > len(arena.parent):
            push(arena.open, arena.left, arena.live, s)
            return FULL, budget, 0
        counters[EXPANDED] += 1
        for i in range(count):
            first, end, live = child[3 * i], child[3 * i + 1], child[3 * i + 2]
            new = store_child(arena, s, first, end, live, hashes, keys, counters)
            if new < 0:
                continue
            commits = task.commit and live <= root_live
            if commits or arena.left[new] == 0:
                length = read_path(arena, new, path)
                if commits:
                    go_to(problem, state, arena, task.forward, int64(0))
                    length = keep_best(
                        problem, state, task.forward, path, int64(0), length, scratch.spot
                    )
                return REACHED, budget, length
        if arena.need[s] < NEVER:
            push(arena.blocked, arena.need, arena.live, s)
    return PAUSED, budget, 0
