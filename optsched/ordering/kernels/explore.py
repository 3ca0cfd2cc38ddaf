"""Search from one end of an interval of downsets for a way that stays within the budget."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optsched.arrays import IntArray
from optsched.flow import Int
from optsched.jit import kernel
from optsched.ordering.kernels.arena import (
    MOVES,
    STATES,
    Arena,
    Moves,
    find_state,
    go_to,
    make_arena,
    pop,
    push,
)
from optsched.ordering.kernels.cut import Flags, best_selection
from optsched.ordering.kernels.foresee import FIRST_LOOK, foresee
from optsched.ordering.kernels.state import (
    LIVE,
    READY,
    State,
    close_state,
    look_ahead,
    place,
    start_state,
    take_back,
)
from optsched.ordering.model import Net

REACHED, EXHAUSTED, FULL, PAUSED = 0, 1, 2, 3
"""How a search ended: at the goal or a commit; with no state left; with no room left; not yet."""

NEVER = 2**63 - 1

EXPANDED, STORED, DUPLICATES, CLOSED, SINGLED, LIFTED, FORESEEN = 0, 1, 2, 3, 4, 5, 6
"""What is counted: states expanded, stored, met again; ops placed by the closure rule; states
with a single successor by the commit rule; budgets raised; states put off by foresight."""
COUNTERS = 7


class Task(NamedTuple):
    """What to search for.

    Parameters
    ----------
    forward
        From the start of the interval, or from its end.
    ceiling
        A budget of this or more is of no interest.
    base
        Live bytes of the empty downset.
    close, commit, probe, lift, foresee
        Rules: closure; commit at the root; a single successor found by up to two probing steps (0,
        1 or 2); raising the budget in place; bounds from the current state.
    """

    forward: bool
    ceiling: Int
    base: Int
    close: bool
    commit: bool
    probe: Int
    lift: bool
    foresee: bool


class Scratch(NamedTuple):
    """Arrays used over and over: candidates, children, marks; for foresight, ops and a gauge."""

    ready: IntArray
    child: IntArray
    spot: IntArray
    mark: IntArray
    critics: IntArray
    gauge: IntArray


@kernel
def try_move(
    net: Net, state: State, task: Task, budget: Int, v: Int, moves: Moves, count: Int
) -> Int:
    """Place `v` and what the closure rule adds; write the moves and return the place after them."""
    place(net, state, task.forward, v)
    moves[count] = v
    if not task.close:
        return count + 1
    return close_state(net, state, task.forward, budget, moves, count + 1)


@kernel
def undo_moves(net: Net, state: State, forward: bool, moves: Moves, first: Int, end: Int) -> None:
    """Take back `moves[first:end]`."""
    for k in range(end - 1, first - 1, -1):
        take_back(net, state, forward, np.int64(moves[k]))


@kernel
def keep_best(
    net: Net, state: State, forward: bool, moves: Moves, first: Int, end: Int, spot: IntArray
) -> Int:
    """Reduce moves from the current state to those that lead to the least live bytes on the way.

    Of several such states it is the farthest. Returns the place after the last move kept.
    """
    free = np.empty(end - first, np.int64)
    for k in range(first, end):
        free[k - first] = moves[k]
        if not forward:
            state.done[moves[k]] = False
    chosen = best_selection(net, state.done, free, spot, forward)
    at = first
    for k in range(first, end):
        if not forward:
            state.done[free[k - first]] = True
        if chosen[k - first] == forward:
            moves[at] = free[k - first]
            at += 1
    return at


@kernel
def mark_touched(net: Net, moves: Moves, first: Int, end: Int, mark: IntArray, stamp: Int) -> None:
    """Mark the ops whose readiness or effect some moves may have changed."""
    for k in range(first, end):
        v = moves[k]
        for i in range(net.succ_ptr[v], net.succ_ptr[v + 1]):
            mark[net.succ[i]] = stamp
        for i in range(net.pred_ptr[v], net.pred_ptr[v + 1]):
            mark[net.pred[i]] = stamp
        for i in range(net.read_ptr[v], net.read_ptr[v + 1]):
            b = net.read[i]
            for j in range(net.user_ptr[b], net.user_ptr[b + 1]):
                mark[net.user[j]] = stamp


@kernel
def probe_second(
    net: Net,
    state: State,
    task: Task,
    budget: Int,
    moves: Moves,
    first: Int,
    end: Int,
    scratch: Scratch,
    stamp: Int,
) -> Int:
    """Look for a second step after `moves[first:end]` that gets back to the present live bytes.

    Leaves the state as it was; returns the place after the longer moves, or -1.
    """
    start_live = state.tally[LIVE]
    for k in range(first, end):
        place(net, state, task.forward, np.int64(moves[k]))
    mark_touched(net, moves, first, end, scratch.mark, stamp)
    count = 0
    for i in range(state.tally[READY]):
        if scratch.mark[state.ready[i]] == stamp:
            scratch.ready[count] = state.ready[i]
            count += 1
    found = -1
    for i in range(count):
        v = scratch.ready[i]
        during, _ = look_ahead(net, state, task.forward, v)
        if during > budget:
            continue
        last = try_move(net, state, task, budget, v, moves, end)
        better = state.tally[LIVE] <= start_live
        undo_moves(net, state, task.forward, moves, end, last)
        if better:
            found = last
            break
    undo_moves(net, state, task.forward, moves, first, end)
    return found


@kernel
def find_children(
    net: Net,
    state: State,
    arena: Arena,
    task: Task,
    budget: Int,
    s: Int,
    scratch: Scratch,
    counters: IntArray,
) -> Int:
    """List the successors of the current state behind `arena.moves`; return their number, or -1.

    `scratch.child` gets first move, end of moves and live bytes of each. The state's `need` is set.
    A single successor, by the commit rule, replaces all others. -1 if there is no room.
    """
    moves, child = arena.moves, scratch.child
    live = state.tally[LIVE]
    ready = state.tally[READY]
    candidates = state.ready[:ready].copy()
    at = int(arena.fill[MOVES])
    room = len(moves) - 2 * len(net.net) - 2
    count = 0
    need = np.int64(NEVER)
    for i in range(ready):
        v = candidates[i]
        during, _ = look_ahead(net, state, task.forward, v)
        if during > budget:
            need = min(np.int64(during), need)
            continue
        if at > room:
            return -1
        end = try_move(net, state, task, budget, v, moves, at)
        child[3 * count] = at
        child[3 * count + 1] = end
        child[3 * count + 2] = state.tally[LIVE]
        counters[CLOSED] += end - at - 1
        undo_moves(net, state, task.forward, moves, at, end)
        count += 1
        at = end
        if task.probe > 0 and child[3 * count - 1] <= live:
            child[0], child[1], child[2] = child[3 * count - 3], end, child[3 * count - 1]
            return single_child(net, state, arena, task, s, scratch, counters)
    arena.need[s] = need
    if task.probe > 1:
        for i in range(count):
            first, end = child[3 * i], child[3 * i + 1]
            for k in range(first, end):
                moves[at + k - first] = moves[k]
            counters[COUNTERS] += 1
            last = probe_second(
                net, state, task, budget, moves, at, at + end - first, scratch, counters[COUNTERS]
            )
            if last >= 0:
                child[0], child[1] = at, last
                return single_child(net, state, arena, task, s, scratch, counters)
    return count


@kernel
def single_child(
    net: Net,
    state: State,
    arena: Arena,
    task: Task,
    s: Int,
    scratch: Scratch,
    counters: IntArray,
) -> Int:
    """Make the first child, which has no more live bytes than its parent, the only one."""
    moves, child = arena.moves, scratch.child
    end = keep_best(net, state, task.forward, moves, child[0], child[1], scratch.spot)
    for k in range(child[0], end):
        place(net, state, task.forward, np.int64(moves[k]))
    child[1], child[2] = end, state.tally[LIVE]
    undo_moves(net, state, task.forward, moves, child[0], end)
    arena.need[s] = NEVER
    counters[SINGLED] += 1
    return 1


@kernel
def store_child(
    arena: Arena, s: Int, first: Int, end: Int, live: Int, codes: IntArray, counters: IntArray
) -> Int:
    """Add a child to the arena, its moves being moved to where they belong; -1 if it is known."""
    moves = arena.moves
    low, high = arena.low[s], arena.high[s]
    for k in range(first, end):
        low ^= codes[0, moves[k]]
        high ^= codes[1, moves[k]]
    at = find_state(arena, low, high)
    if arena.table[at] >= 0:
        counters[DUPLICATES] += 1
        return np.int64(-1)
    new = np.int64(arena.fill[STATES])
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


@kernel
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


@kernel
def raise_budget(arena: Arena, budget: Int, ceiling: Int) -> Int:
    """Let in the states that wait for the least budget, and return it; `ceiling` if none is less.

    As no state is left to expand, no order stays below that budget.
    """
    if arena.blocked[0] == 0 or arena.need[arena.blocked[1]] >= ceiling:
        return ceiling
    budget = max(budget, int(arena.need[arena.blocked[1]]))
    while arena.blocked[0] > 0 and arena.need[arena.blocked[1]] <= budget:
        s = pop(arena.blocked, arena.need, arena.live)
        push(arena.open, arena.left, arena.live, s)
    return budget


@kernel
def start_search(
    net: Net, base: Int, done: Flags, within: Flags, forward: bool, states: Int, critics: IntArray
) -> tuple[State, Arena, Scratch]:
    """Set up a search from the downset `done` over the ops of `within`.

    Forward, the goal is `done` with all of `within`; backward, `done` without it. `critics` are
    the ops that foresight looks at, the most promising first.
    """
    n = len(net.net)
    state = start_state(net, base, done, within, forward)
    arena = make_arena(states, n, np.sum(within), state.tally[LIVE])
    push(arena.open, arena.left, arena.live, np.int64(0))
    scratch = Scratch(
        np.empty(n + 1, np.int64),
        np.empty(3 * n + 3, np.int64),
        np.full(n, -1, np.int64),
        np.zeros(n, np.int64),
        critics.copy(),
        np.array([0, FIRST_LOOK, 0]),
    )
    return state, arena, scratch


@kernel
def advance(
    net: Net,
    task: Task,
    state: State,
    arena: Arena,
    scratch: Scratch,
    budget: Int,
    codes: IntArray,
    path: Moves,
    counters: IntArray,
    expansions: Int,
    enough: Int,
) -> tuple[int, Int, Int]:
    """Go on with a search for a number of expansions.

    Parameters
    ----------
    net, task
        The problem; what to search for.
    state, arena, scratch
        From :func:`start_search`, or a previous call.
    budget
        Live bytes that may not be passed.
    codes
        Shape `(2, n)`: random 64-bit codes of the ops; a state's hash is their exclusive or.
    path
        Gets the moves found.
    counters
        Shape `(COUNTERS + 1,)`: added to.
    expansions
        How many states to expand at most.
    enough
        Stop once so many states are stored.

    Returns
    -------
    tuple
        How it ended; a budget below which there is no order; number of moves in `path`.
    """
    root_live = arena.live[0]
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
        go_to(net, state, arena, task.forward, s)
        if task.foresee:
            cost = foresee(
                net,
                task.base,
                state,
                task.forward,
                budget,
                scratch.critics,
                scratch.gauge,
                scratch.spot,
            )
            if cost > 0:
                counters[FORESEEN] += 1
                arena.need[s] = cost
                push(arena.blocked, arena.need, arena.live, s)
                continue
        count = find_children(net, state, arena, task, budget, s, scratch, counters)
        if count < 0 or arena.fill[STATES] + count > len(arena.parent):
            push(arena.open, arena.left, arena.live, s)
            return FULL, budget, 0
        counters[EXPANDED] += 1
        for i in range(count):
            live = scratch.child[3 * i + 2]
            new = store_child(
                arena, s, scratch.child[3 * i], scratch.child[3 * i + 1], live, codes, counters
            )
            if new < 0:
                continue
            commits = task.commit and live <= root_live
            if commits or arena.left[new] == 0:
                length = read_path(arena, new, path)
                if commits:
                    go_to(net, state, arena, task.forward, np.int64(0))
                    length = keep_best(
                        net, state, task.forward, path, np.int64(0), length, scratch.spot
                    )
                return REACHED, budget, length
        if arena.need[s] < NEVER:
            push(arena.blocked, arena.need, arena.live, s)
    return PAUSED, budget, 0
