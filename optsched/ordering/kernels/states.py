"""The states that a search has met: a tree of moves, a hash table, and two heaps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import int64

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.kernels.state import Downset, place, take_back
from optsched.ordering.problem import OrderingProblem
from optsched.runtime.kernel import inner

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


def make_arena(states: int, ops: int, left: int, live: int) -> Arena:
    """Return an arena that holds the root only, still to be expanded.

    Like all that makes many arrays it is not compiled: that takes long.
    """
    slots = 1 << max(4, (2 * states - 1).bit_length())
    arena = Arena(
        parent=np.empty(states, np.int32),
        level=np.empty(states, np.int32),
        start=np.empty(states, np.int64),
        length=np.empty(states, np.int32),
        left=np.empty(states, np.int64),
        live=np.empty(states, np.int64),
        low=np.empty(states, np.int64),
        high=np.empty(states, np.int64),
        need=np.empty(states, np.int64),
        table=np.full(slots, -1, np.int32),
        moves=np.empty(8 * states + 64 * ops + 64, np.int32),
        open=np.zeros(states + 2, np.int32),
        blocked=np.zeros(states + 2, np.int32),
        path=np.empty(ops + 2, np.int32),
        fill=np.zeros(3, np.int64),
    )
    arena.parent[0] = -1
    arena.level[0] = arena.start[0] = arena.length[0] = 0
    arena.left[0], arena.live[0] = left, live
    arena.low[0] = arena.high[0] = 0
    arena.table[0] = arena.path[0] = 0
    arena.open[0] = 1
    arena.fill[STATES] = 1
    return arena


def grow_arena(arena: Arena, ops: int) -> Arena:
    """Return an arena of the same content with twice the room."""
    new = make_arena(2 * len(arena.parent), ops, int(arena.left[0]), int(arena.live[0]))
    count, used = int(arena.fill[STATES]), int(arena.fill[MOVES])
    for name in ("parent", "level", "start", "length", "left", "live", "low", "high", "need"):
        getattr(new, name)[:count] = getattr(arena, name)[:count]
    new.moves[:used] = arena.moves[:used]
    for name in ("open", "blocked", "path", "fill"):
        old = getattr(arena, name)
        getattr(new, name)[: len(old)] = old
    fill_table(new, count)
    return new


def fill_table(arena: Arena, count: int) -> None:
    """Put the first states into the hash table: each takes the next place while its own is taken.

    All do so together, and of those that want one place the last gets it.
    """
    mask = len(arena.table) - 1
    arena.table[0] = -1
    left = np.arange(count, dtype=np.int32)
    at = arena.low[:count] & mask
    while len(left):
        free = arena.table[at] < 0
        arena.table[at[free]] = left[free]
        lost = arena.table[at] != left
        left, at = left[lost], (at[lost] + 1) & mask


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
    i = int64(heap[0])
    while i > 1 and sooner(first, second, s, int64(heap[i >> 1])):
        heap[i] = heap[i >> 1]
        i >>= 1
    heap[i] = s


@inner
def pop(heap: Moves, first: IntArray, second: IntArray) -> Int:
    """Take the first state off a heap that is not empty."""
    top = int64(heap[1])
    count = int64(heap[0])
    last = int64(heap[count])
    count -= 1
    heap[0] = count
    i = 1
    while 2 * i <= count:
        child = 2 * i
        here = int64(heap[child])
        if child < count and sooner(first, second, int64(heap[child + 1]), here):
            child += 1
            here = int64(heap[child])
        if not sooner(first, second, here, last):
            break
        heap[i] = here
        i = child
    heap[i] = last
    return top


@inner
def go_to(problem: OrderingProblem, state: Downset, arena: Arena, forward: bool, s: Int) -> None:
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
            take_back(problem, state, forward, int64(arena.moves[k]))
        here -= 1
    t = s
    for i in range(level, common, -1):
        arena.path[i] = t
        t = arena.parent[t]
    for i in range(common + 1, level + 1):
        t = arena.path[i]
        for k in range(arena.start[t], arena.start[t] + arena.length[t]):
            place(problem, state, forward, int64(arena.moves[k]))
    arena.fill[LEVEL] = level
