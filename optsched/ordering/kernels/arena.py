"""The states that a search has met: a tree of moves, a hash table, and two heaps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from optsched.arrays import IntArray
from optsched.flow import Int
from optsched.jit import inner, kernel
from optsched.ordering.kernels.state import State, place, take_back
from optsched.ordering.model import Net

Moves = npt.NDArray[np.int32]

STATE_BYTES = 108
"""Bytes that an arena takes per state, its share of heaps, hash table and moves included."""

STATES, MOVES, LEVEL = 0, 1, 2


class Arena(NamedTuple):
    """Room for a number of states; state 0 is the root.

    Parameters
    ----------
    parent, level
        The state before it, and how many states lie before it.
    start, length
        Its moves: `moves[start:start + length]` lead from its parent to it.
    left, live
        Number of ops still to be placed; live bytes.
    low, high
        128-bit hash of the set of ops placed.
    need
        Least budget that opens a move which was blocked when the state was expanded.
    table
        Open addressing: a state, or -1.
    moves
        All moves.
    open, blocked
        Heaps of states: to be expanded, fewest ops left first; waiting for a larger budget.
    path
        States from the root to the current one.
    fill
        Numbers of states and of moves; level of the current state.
    """

    parent: Moves
    level: Moves
    start: IntArray
    length: Moves
    left: IntArray
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


@inner
def make_arena(states: Int, ops: Int, left: Int, live: Int) -> Arena:
    """Return an arena that holds the root only."""
    slots = 16
    while slots < 2 * states:
        slots *= 2
    arena = Arena(
        np.empty(states, np.int32),
        np.empty(states, np.int32),
        np.empty(states, np.int64),
        np.empty(states, np.int32),
        np.empty(states, np.int64),
        np.empty(states, np.int64),
        np.empty(states, np.int64),
        np.empty(states, np.int64),
        np.empty(states, np.int64),
        np.full(slots, -1, np.int32),
        np.empty(8 * states + 64 * ops + 64, np.int32),
        np.zeros(states + 2, np.int32),
        np.zeros(states + 2, np.int32),
        np.empty(ops + 2, np.int32),
        np.zeros(3, np.int64),
    )
    arena.parent[0] = -1
    arena.level[0] = 0
    arena.start[0] = 0
    arena.length[0] = 0
    arena.left[0] = left
    arena.live[0] = live
    arena.low[0] = 0
    arena.high[0] = 0
    arena.table[0] = 0
    arena.path[0] = 0
    arena.fill[STATES] = 1
    return arena


@inner
def find_state(arena: Arena, low: Int, high: Int) -> Int:
    """Return the place in the hash table of a state or, if it is new, the place for it."""
    mask = len(arena.table) - 1
    at = low & mask
    while arena.table[at] >= 0:
        other = arena.table[at]
        if arena.low[other] == low and arena.high[other] == high:
            break
        at = (at + 1) & mask
    return at


@inner
def sooner(first: IntArray, second: IntArray, a: Int, b: Int) -> bool:
    """Whether state `a` comes before state `b`."""
    if first[a] != first[b]:
        return bool(first[a] < first[b])
    if second[a] != second[b]:
        return bool(second[a] < second[b])
    return bool(a < b)


@inner
def push(heap: Moves, first: IntArray, second: IntArray, s: Int) -> None:
    """Put a state on a heap, whose entry 0 is its size, ordered by two keys."""
    heap[0] += 1
    i = np.int64(heap[0])
    while i > 1 and sooner(first, second, s, np.int64(heap[i >> 1])):
        heap[i] = heap[i >> 1]
        i >>= 1
    heap[i] = s


@inner
def pop(heap: Moves, first: IntArray, second: IntArray) -> Int:
    """Take the first state off a heap that is not empty."""
    top = np.int64(heap[1])
    count = np.int64(heap[0])
    last = np.int64(heap[count])
    count -= 1
    heap[0] = count
    i = 1
    while 2 * i <= count:
        child = 2 * i
        here = np.int64(heap[child])
        if child < count and sooner(first, second, np.int64(heap[child + 1]), here):
            child += 1
            here = np.int64(heap[child])
        if not sooner(first, second, here, last):
            break
        heap[i] = here
        i = child
    heap[i] = last
    return top


@inner
def go_to(net: Net, state: State, arena: Arena, forward: bool, s: Int) -> None:
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
            take_back(net, state, forward, np.int64(arena.moves[k]))
        here -= 1
    t = s
    for i in range(level, common, -1):
        arena.path[i] = t
        t = arena.parent[t]
    for i in range(common + 1, level + 1):
        t = arena.path[i]
        for k in range(arena.start[t], arena.start[t] + arena.length[t]):
            place(net, state, forward, np.int64(arena.moves[k]))
    arena.fill[LEVEL] = level


@kernel
def grow_arena(arena: Arena, ops: Int) -> Arena:
    """Return an arena of the same content with twice the room."""
    old = len(arena.parent)
    count, used = arena.fill[STATES], arena.fill[MOVES]
    new = make_arena(2 * old, ops, arena.left[0], arena.live[0])
    for s in range(count):
        new.parent[s] = arena.parent[s]
        new.level[s] = arena.level[s]
        new.start[s] = arena.start[s]
        new.length[s] = arena.length[s]
        new.left[s] = arena.left[s]
        new.live[s] = arena.live[s]
        new.low[s] = arena.low[s]
        new.high[s] = arena.high[s]
        new.need[s] = arena.need[s]
        if s > 0:
            new.table[find_state(new, arena.low[s], arena.high[s])] = s
    for i in range(used):
        new.moves[i] = arena.moves[i]
    for i in range(arena.open[0] + 1):
        new.open[i] = arena.open[i]
    for i in range(arena.blocked[0] + 1):
        new.blocked[i] = arena.blocked[i]
    for i in range(len(arena.path)):
        new.path[i] = arena.path[i]
    for i in range(len(arena.fill)):
        new.fill[i] = arena.fill[i]
    return new
