"""The states that a search has stored: a tree of moves, a hash table, and two heaps.

A state is stored as its parent and the moves from there, not as a set, which would take `n` bits.
To expand a state, the search walks the tree from the current state back to the latest common
ancestor, and forward to the new one (:func:`go_to`). Sets are compared by 128-bit hashes only: the
probability that two different sets of a search collide is negligible.

Example: states {a, b} and {a, c} have the parent {a}. To get from the first to the second, the
search takes `b` back and runs `c`.
"""

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
"""Bytes of an arena per state, including its share of heaps, hash table and moves."""

STATES, MOVES, LEVEL = 0, 1, 2
"""Indices of `fill`."""


class Arena(NamedTuple):
    """Room for a number of states; state 0 is the root."""

    parent: Moves
    level: Moves
    """`parent` and `level`: by state: the state before it, and the number of states from the root
    to it."""
    start: IntArray
    length: Moves
    """`start` and `length`: by state: `moves[start:start + length]` lead from its parent to it."""
    left: IntArray
    live: IntArray
    """`left` and `live`: by state: number of ops still to be placed; live bytes."""
    low: IntArray
    high: IntArray
    """`low` and `high`: by state: hash of the set of ops placed, 128 bits together."""
    need: IntArray
    """By state: smallest budget for a move that was blocked when the state was expanded."""
    table: Moves
    """Hash table with open addressing: a state, or -1."""
    moves: Moves
    """Moves of all states."""
    open: Moves
    blocked: Moves
    """`open` and `blocked`: heaps of states: to be expanded, fewest ops left first; waiting for a
    larger budget."""
    path: Moves
    """States from the root to the current one."""
    fill: IntArray
    """Number of states; number of moves; level of the current state."""


def make_arena(states: int, ops: int, left: int, live: int) -> Arena:
    """Return an arena that contains only the root, which is still to be expanded.

    Not compiled, as numba takes long to compile functions that make many arrays.
    """
    # At most half of the slots are filled, so that linear probing stays short.
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
        # Most states are reached by few moves, also with those that the closure rule adds; more
        # room is made later.
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
    # Entry 0 of a heap is its size; its first and only entry is the root, state 0.
    arena.open[0] = 1
    arena.fill[STATES] = 1
    return arena


def grow_arena(arena: Arena, ops: int) -> Arena:
    """Return an arena of the same content with twice the room."""
    # Hashes do not fit the new table, which is filled again by `fill_table`.
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
    """Insert the first `count` states into the hash table, by linear probing.

    All states probe at the same time, as array operations. If several states write to one free
    place, the last one keeps it and the others probe on.
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
    """Return the index of a state in the hash table or, if it is new, the index for it."""
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
    """Return True if state `a` comes before state `b`: by two keys, then by number."""
    # The number breaks ties, so that Python and compiled code expand states in one sequence.
    if first[a] != first[b]:
        return bool(first[a] < first[b])
    if second[a] != second[b]:
        return bool(second[a] < second[b])
    return bool(a < b)


@inner
def push(heap: Moves, first: IntArray, second: IntArray, s: Int) -> None:
    """Push a state on a binary heap ordered by two keys; entry 0 of the heap is its size."""
    heap[0] += 1
    i = int64(heap[0])
    while i > 1 and sooner(first, second, s, int64(heap[i >> 1])):
        heap[i] = heap[i >> 1]
        i >>= 1
    heap[i] = s


@inner
def pop(heap: Moves, first: IntArray, second: IntArray) -> Int:
    """Pop the first state of a heap that is not empty."""
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
    """Turn the current state into `s`, by way of their latest common ancestor.

    Sketch: follow the parents of `s` up to a state on the path of the current state; take back the
    moves of the current path down to that state; write the path to `s`, and place its moves.
    """
    level = arena.level[s]
    here = arena.fill[LEVEL]
    t = s
    # A state is on the current path if the path has it at its own level.
    while arena.level[t] > here or arena.path[arena.level[t]] != t:
        t = arena.parent[t]
    common = arena.level[t]
    # Back from the current state to the common ancestor, undoing moves in reverse.
    while here > common:
        t = arena.path[here]
        for k in range(arena.start[t] + arena.length[t] - 1, arena.start[t] - 1, -1):
            take_back(problem, state, forward, int64(arena.moves[k]))
        here -= 1
    t = s
    for i in range(level, common, -1):
        arena.path[i] = t
        t = arena.parent[t]
    # Forward to the new state.
    for i in range(common + 1, level + 1):
        t = arena.path[i]
        for k in range(arena.start[t], arena.start[t] + arena.length[t]):
            place(problem, state, forward, int64(arena.moves[k]))
    arena.fill[LEVEL] = level
