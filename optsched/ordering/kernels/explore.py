"""The search of a segment from one end, for a path to the other end within the budget.

States are expanded depth first: fewest ops left, then fewest live bytes. Each state is stored once,
by its hash. A state with a move that exceeded the budget also waits for a larger budget. If no
state is left, the smallest budget that some waiting state needs is a proved bound, and the search
continues with it; states already stored are not searched again.

Example: budget 10, and all paths have a step of 12 or 15 bytes. The states before these steps wait
with the needs 12 and 15. When no other state is left the bound is 12, and only the states that need
12 are expanded again.
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
"""Result of a search: at the goal or a commit; no state left; no room left; interrupted."""

SELDOM = 64
"""Longest period of the look-ahead bound: it is tried at one state in this number at least."""

FIRST_LOOK = 16
"""Expansions before the first try, so that short searches do without."""

PERIOD, WAIT, TURN = 0, 1, 2
"""Indices in the gauge: states between two tries; states until the next; op to try in turn."""


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
    """Add a successor of state `s` to the arena; return its number, or -1 if it is known.

    Its moves are moved to the end of the used part of `arena.moves`. `hashes` are those of the ops
    placed so far that are not in a block.
    """
    moves = arena.moves
    # Equal hashes of 128 bits are taken for equal states: a collision is not to be expected in any
    # run.
    low, high = add_moves(keys, moves, first, end, hashes)
    at = find_state(arena, low, high)
    if arena.table[at] >= 0:
        counters[DUPLICATES] += 1
        return int64(-1)
    new = int64(arena.fill[STATES])
    start = arena.fill[MOVES]
    # Earlier children that turned out to be known leave a gap before these moves; close it.
    for k in range(first, end):
        moves[start + k - first] = moves[k]
    arena.table[at] = new
    arena.parent[new] = s
    arena.level[new] = arena.level[s] + 1
    arena.start[new] = start
    arena.length[new] = end - first
    # States with the fewest ops left are expanded first, as in a depth-first search.
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
    """Write the moves from the root to a state to `out`; return their number."""
    total = arena.left[0] - arena.left[s]
    at = total
    while s > 0:
        # Written from the end, since the tree only knows parents.
        for k in range(arena.start[s] + arena.length[s] - 1, arena.start[s] - 1, -1):
            at -= 1
            out[at] = arena.moves[k]
        s = arena.parent[s]
    return total


@inner
def raise_budget(arena: Arena, budget: Int, ceiling: Int) -> Int:
    """Reopen the states that wait for the smallest budget, and return that budget.

    Returns `ceiling` if no state waits for a smaller one. No state is left to expand, so no order
    has a peak below the returned budget.
    """
    if arena.blocked[0] == 0 or arena.need[arena.blocked[1]] >= ceiling:
        return ceiling
    # A state may have blocked before the budget was last raised, and need less than that.
    budget = max(budget, int(arena.need[arena.blocked[1]]))
    while arena.blocked[0] > 0 and arena.need[arena.blocked[1]] <= budget:
        s = pop(arena.blocked, arena.need, arena.live)
        push(arena.open, arena.left, arena.live, s)
    return budget


@inner
def least_ahead(
    problem: OrderingProblem, state: Downset, forward: bool, op: Int, spot: IntArray
) -> Int:
    """Return the least live bytes while `op` runs, over all paths from the state to the goal.

    `spot` is work space of shape `(n,)`, all -1.
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
    """Return the bytes that some op costs on all paths to the goal if they exceed the budget, or 0.

    Sketch: try three of the ops that are still to be placed, namely the first two in `checked`
    (the last ones for which this succeeded) and one more, in rotation. An op that succeeds moves to
    the front of `checked`, and the period is halved. If all three fail the period grows by one, so
    the bound is tried less often where it does not help. `gauge` has the period, the number of
    states until the next try, which the caller counts down, and the position of the rotation.
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
            # An op that pruned one state often prunes its neighbors too.
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
    """Return the work space of a search; `checked` are the ops for the look-ahead bound."""
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
    """Continue a search for a number of expansions.

    Sketch: take the best open state; if there is none, raise the budget or end. Go to the state,
    and put it aside if the look-ahead bound exceeds the budget. Otherwise list its successors and
    store the new ones. A successor that is the goal, or has no more live bytes than the root
    (commit), ends the search. A state with a blocked move also goes to the heap `blocked`.

    Parameters
    ----------
    problem, task
        The problem; direction and rules of the search.
    state, arena, scratch
        The current state; all states stored; work space.
    budget
        Limit on live bytes.
    keys
        Keys by which states are hashed.
    path
        Shape `(n + 1,)`: receives the moves found.
    counters
        Shape `(COUNTERS + 1,)`: added to.
    expansions
        Most states to expand.
    enough
        Number of stored states at which to stop.

    Returns
    -------
    tuple
        One of `REACHED`, `EXHAUSTED`, `FULL`, `PAUSED`; a lower bound on the peak of every order;
        the number of moves in `path`.
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
            # The caller makes room and calls again: the state must still be open.
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
        # Some move exceeded the budget: expand the state again once the budget allows it.
        if arena.need[s] < NEVER:
            push(arena.blocked, arena.need, arena.live, s)
    return PAUSED, budget, 0
