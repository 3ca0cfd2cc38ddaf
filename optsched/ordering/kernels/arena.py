"""The states that a search has met: a tree of moves, a hash table, and two heaps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from optsched.arrays import IntArray
from optsched.jit import kernel
from optsched.ordering.kernels.state import State, place, take_back
from optsched.ordering.model import Net

Moves = npt.NDArray[np.int32]

STATE_BYTES = 104
"""Bytes that an arena takes per state, its share of heaps, hash table and moves included."""

STATES, MOVES, OPEN, BLOCKED, LEVEL = 0, 1, 2, 3, 4


class Arena(NamedTuple):
    """Room for a number of states; state 0 is the root.

    Parameters
    ----------
    parent, level
        The state before it, and how many states lie before it.
    start, length
        Its moves: `moves[start:start + length]` lead from its parent to it.
    placed, live
        Number of ops placed since the root; live bytes.
    low, high
        128-bit hash of the set of ops placed.
    need
        Least budget that opens a move which was blocked when the state was expanded.
    table
        Open addressing: a state, or -1.
    moves
        All moves.
    open, blocked
        Heaps of states: to be expanded, most placed first; waiting for a larger budget.
    path
        States from the root to the current one.
    fill
        Numbers of states, of moves, of heap entries; level of the current state.
    """

    parent: Moves
    level: Moves
    start: IntArray
    length: Moves
    placed: Moves
    live: IntArray
    low: IntArray
    high: IntArray
    need: IntArray
    table: Moves
    moves: Moves
    open: Moves
    blocked: Moves
    path: Moves
    fill: IntArray


@kernel
def make_arena(states: int, ops: int, live: int) -> Arena:
    """Return an arena that holds the root only."""
    slots = 16
    while slots < 2 * states:
        slots *= 2
    arena = Arena(
        np.empty(states, np.int32),
        np.empty(states, np.int32),
        np.empty(states, np.int64),
        np.empty(states, np.int32),
        np.empty(states, np.int32),
        np.empty(states, np.int64),
        np.empty(states, np.int64),
        np.empty(states, np.int64),
        np.empty(states, np.int64),
        np.full(slots, -1, np.int32),
        np.empty(8 * states + 64 * ops + 64, np.int32),
        np.empty(states + 1, np.int32),
        np.empty(states + 1, np.int32),
        np.empty(ops + 2, np.int32),
        np.zeros(5, np.int64),
    )
    arena.parent[0] = -1
    arena.level[0] = 0
    arena.start[0] = 0
    arena.length[0] = 0
    arena.placed[0] = 0
    arena.live[0] = live
    arena.low[0] = 0
    arena.high[0] = 0
    arena.table[0] = 0
    arena.path[0] = 0
    arena.fill[STATES] = 1
    return arena


@kernel
def find_state(arena: Arena, low: int, high: int) -> int:
    """Return the place in the hash table of a state or, if it is new, the place for it."""
    mask = len(arena.table) - 1
    at = low & mask
    while arena.table[at] >= 0:
        other = arena.table[at]
        if arena.low[other] == low and arena.high[other] == high:
            break
        at = (at + 1) & mask
    return at


@kernel
def sooner(arena: Arena, a: int, b: int, by_need: bool) -> bool:
    """Whether state `a` leaves a heap before state `b`."""
    if by_need:
        if arena.need[a] != arena.need[b]:
            return bool(arena.need[a] < arena.need[b])
    elif arena.placed[a] != arena.placed[b]:
        return bool(arena.placed[a] > arena.placed[b])
    if arena.live[a] != arena.live[b]:
        return bool(arena.live[a] < arena.live[b])
    return a < b


@kernel
def push(arena: Arena, s: int, by_need: bool) -> None:
    """Put a state on the blocked heap (`by_need`) or the open one."""
    heap, which = (arena.blocked, BLOCKED) if by_need else (arena.open, OPEN)
    i = arena.fill[which]
    arena.fill[which] = i + 1
    while i > 0 and sooner(arena, s, heap[(i - 1) >> 1], by_need):
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap[i] = s


@kernel
def pop(arena: Arena, by_need: bool) -> int:
    """Take the first state off a heap that is not empty."""
    heap, which = (arena.blocked, BLOCKED) if by_need else (arena.open, OPEN)
    first = heap[0]
    count = arena.fill[which] - 1
    arena.fill[which] = count
    last = heap[count]
    i = 0
    while 2 * i + 1 < count:
        child = 2 * i + 1
        if child + 1 < count and sooner(arena, heap[child + 1], heap[child], by_need):
            child += 1
        if not sooner(arena, heap[child], last, by_need):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = last
    return int(first)


@kernel
def go_to(net: Net, state: State, arena: Arena, forward: bool, s: int) -> None:
    """Turn the current state into `s`, by way of the latest state before both."""
    level = arena.level[s]
    here = arena.fill[LEVEL]
    t = s
    while arena.level[t] > here or arena.path[arena.level[t]] != t:
        t = arena.parent[t]
    common = arena.level[t]
    while here > common:
        t = arena.path[here]
        for k in range(arena.start[t] + arena.length[t] - 1, arena.start[t] - 1, -1):
            take_back(net, state, forward, arena.moves[k])
        here -= 1
    t = s
    for i in range(level, common, -1):
        arena.path[i] = t
        t = arena.parent[t]
    for i in range(common + 1, level + 1):
        t = arena.path[i]
        for k in range(arena.start[t], arena.start[t] + arena.length[t]):
            place(net, state, forward, arena.moves[k])
    arena.fill[LEVEL] = level


@kernel
def grow_arena(arena: Arena, ops: int) -> Arena:
    """Return an arena of the same content with twice the room."""
    old = len(arena.parent)
    count, used = arena.fill[STATES], arena.fill[MOVES]
    new = make_arena(2 * old, ops, arena.live[0])
    new.parent[:count] = arena.parent[:count]
    new.level[:count] = arena.level[:count]
    new.start[:count] = arena.start[:count]
    new.length[:count] = arena.length[:count]
    new.placed[:count] = arena.placed[:count]
    new.live[:count] = arena.live[:count]
    new.low[:count] = arena.low[:count]
    new.high[:count] = arena.high[:count]
    new.need[:count] = arena.need[:count]
    for s in range(1, count):
        new.table[find_state(new, arena.low[s], arena.high[s])] = s
    new.moves[:used] = arena.moves[:used]
    new.open[: arena.fill[OPEN]] = arena.open[: arena.fill[OPEN]]
    new.blocked[: arena.fill[BLOCKED]] = arena.blocked[: arena.fill[BLOCKED]]
    new.path[:] = arena.path
    new.fill[:] = arena.fill
    return new
