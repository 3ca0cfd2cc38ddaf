"""Minimum live bytes over a family of downsets, as a minimum cut.

If some `free` ops are added to a downset, the live bytes change by the `delta` of these ops less
the sizes of the shared buffers that they release. A released buffer is a profit, which requires all
its remaining users; an op with positive `delta` is a cost, and requires its predecessors. To
choose ops of maximum profit less cost is the maximum closure problem, which one minimum cut solves.

Example: `free` are `u`, which makes 3 bytes, and its successor `v`, the last user of a shared
buffer of 5 bytes. The arcs are source to buffer (5), buffer to `v`, `v` to `u`, `u` to sink (3).
The flow is 3 and the profit 5, so the minimum change is 3 - 5: run both, and 2 bytes are saved.

References
----------
Picard, "Maximal closure of a graph and applications to combinatorial problems", 1976.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import int64

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.max_flow import (
    UNBOUNDED,
    Arcs,
    Int,
    add_arc,
    empty_arcs,
    mark_side,
    max_flow,
)
from optsched.ordering.problem import OrderingProblem
from optsched.runtime.kernel import inner, kernel

Flags = npt.NDArray[np.bool_]

# Each case takes a flow.
MOST_CASES = 40
"""Most savings of an op that are treated as cases; with more, the largest is always assumed."""

MOST_WORK = 1 << 30
"""Most nodes that the flow for a bound may visit, some seconds. A flow that is stopped is not
maximal, but what it has sent still gives a valid, lower bound."""


class Cut(NamedTuple):
    """Network of a closure problem: node `i` is `free[i]`, then follow buffers, source and sink."""

    arcs: Arcs
    """Before the flow: capacities. After it: the residual network."""
    buffers: IntArray
    """The shared buffers that some choice releases."""
    source: Int
    sink: Int
    """`source` and `sink`: nodes."""
    profit: Int
    """Sum of all profits: the minimum change of live bytes is the maximum flow less this sum."""


@inner
def live_after(problem: OrderingProblem, done: Flags) -> Int:
    """Return the live bytes after the ops of a downset have ended."""
    live = problem.base
    for v in range(len(problem.delta)):
        if done[v]:
            live += problem.delta[v]
    for b in range(len(problem.size)):
        dead = True
        for k in range(problem.user_ptr[b], problem.user_ptr[b + 1]):
            if not done[problem.user[k]]:
                dead = False
                break
        # A shared buffer is live until all its users have ended.
        if dead:
            live -= problem.size[b]
    return live


@inner
def mark_reach(ptr: IntArray, idx: IntArray, start: int, marked: Flags) -> None:
    """Mark all that `start` reaches along rows; `start` itself only if it is on a cycle."""
    stack = np.empty(len(marked) + 1, np.int64)
    stack[0] = start
    count = 1
    while count > 0:
        count -= 1
        v = stack[count]
        for k in range(ptr[v], ptr[v + 1]):
            w = idx[k]
            if not marked[w]:
                marked[w] = True
                stack[count] = w
                count += 1


@inner
def build_cut(problem: OrderingProblem, done: Flags, free: IntArray, place: IntArray) -> Cut:
    """Return the network for adding some of the ops `free` to the downset `done`.

    Sketch: number the free ops; collect the shared buffers all of whose users are done or free;
    add the arcs source to buffer (its size), buffer to each free user and op to each free
    predecessor (unbounded), op to sink (positive `delta`) and source to op (negative `delta`).

    `done`: shape `(n,)`: a downset. `free`: ops not in it; with all of them added it is a downset
    again. `place`: shape `(n,)`: work space, all -1 before and after.
    """
    count = len(free)
    pairs = 0
    wanted = 0
    for i in range(count):
        v = free[i]
        place[v] = i
        # Counted first, so that the arcs fit into arrays of fixed size.
        pairs += 1 + problem.pred_ptr[v + 1] - problem.pred_ptr[v]
        wanted += problem.read_ptr[v + 1] - problem.read_ptr[v]
    # Buffers that can be released: each remaining user is one of the free ops.
    buffers = np.empty(wanted, np.int64)
    seen = np.zeros(len(problem.size), np.bool_)
    found = 0
    for i in range(count):
        v = free[i]
        for k in range(problem.read_ptr[v], problem.read_ptr[v + 1]):
            b = problem.read[k]
            # Looked at once for all its users: there may be as many as ops.
            possible = not seen[b]
            seen[b] = True
            j = problem.user_ptr[b]
            while possible and j < problem.user_ptr[b + 1]:
                possible = done[problem.user[j]] or place[problem.user[j]] >= 0
                j += 1
            if possible:
                buffers[found] = b
                found += 1
                pairs += 1 + problem.user_ptr[b + 1] - problem.user_ptr[b]
    unbounded = int64(UNBOUNDED)
    source, sink = count + found, count + found + 1
    arcs = empty_arcs(count + found + 2, pairs)
    # Profits leave the source, costs enter the sink, requirements are unbounded arcs between.
    profit, e = int64(0), int64(0)
    for j in range(found):
        b = buffers[j]
        profit += problem.size[b]
        e = add_arc(arcs, e, source, count + j, problem.size[b])
        for k in range(problem.user_ptr[b], problem.user_ptr[b + 1]):
            if place[problem.user[k]] >= 0:
                e = add_arc(arcs, e, count + j, place[problem.user[k]], unbounded)
    for i in range(count):
        v = free[i]
        if problem.delta[v] > 0:
            e = add_arc(arcs, e, i, sink, problem.delta[v])
        elif problem.delta[v] < 0:
            profit -= problem.delta[v]
            e = add_arc(arcs, e, source, i, -problem.delta[v])
        for k in range(problem.pred_ptr[v], problem.pred_ptr[v + 1]):
            if place[problem.pred[k]] >= 0:
                e = add_arc(arcs, e, i, place[problem.pred[k]], unbounded)
    for i in range(count):
        # Reset by the ops that were set, not by clearing all n entries.
        place[free[i]] = -1
    return Cut(arcs, buffers[:found].copy(), source, sink, profit)


@inner
def best_selection(
    problem: OrderingProblem, done: Flags, free: IntArray, place: IntArray, largest: Int
) -> Flags:
    """Return flags of the ops of `free` to add for fewest live bytes.

    If several choices are optimal it is the largest of them, or the smallest.
    """
    cut = build_cut(problem, done, free, place)
    unbounded = int64(UNBOUNDED)
    # The side of the source gives the smallest minimum cut, that of the sink the largest.
    max_flow(cut.arcs, cut.source, cut.sink, unbounded, unbounded)
    side = mark_side(cut.arcs, cut.sink if largest else cut.source, int64(largest))
    chosen = np.empty(len(free), np.bool_)
    for i in range(len(free)):
        chosen[i] = side[i] != largest
    return chosen


@kernel
def smallest_best(problem: OrderingProblem, done: Flags, free: IntArray) -> Flags:
    """Return flags of the ops of `free` to add for fewest live bytes; the smallest such choice."""
    place = np.full(len(problem.delta), -1, np.int64)
    return best_selection(problem, done, free, place, int64(0))


@kernel
def around(problem: OrderingProblem, op: Int) -> tuple[Flags, Flags]:
    """Return flags of the ancestors and of the descendants of an op, shape `(n,)` each."""
    before = np.zeros(len(problem.delta), np.bool_)
    after = np.zeros(len(problem.delta), np.bool_)
    mark_reach(problem.pred_ptr, problem.pred, op, before)
    mark_reach(problem.succ_ptr, problem.succ, op, after)
    return before, after


@inner
def undecided(before: Flags, after: Flags, op: Int) -> IntArray:
    """Return the ops, other than `op`, that are not in `before` and not in `after`."""
    ops = np.empty(len(before), np.int64)
    count = 0
    for u in range(len(before)):
        if u != op and not before[u] and not after[u]:
            ops[count] = u
            count += 1
    return ops[:count].copy()


@inner
def most_saved(problem: OrderingProblem, op: Int) -> Int:
    """Return the most bytes that an op can ever save."""
    most = int64(0)
    for i in range(problem.saving_ptr[op], problem.saving_ptr[op + 1]):
        most = max(most, problem.saving[i])
    return most


@inner
def minimum_plain(
    problem: OrderingProblem, before: Flags, after: Flags, op: Int, spot: IntArray
) -> Int:
    """Return the least live bytes of :func:`least_given`, without any saving."""
    # `before` and `after` are decided, so only the ops between them are nodes of the network.
    cut = build_cut(problem, before, undecided(before, after, op), spot)
    enough, work = int64(UNBOUNDED), int64(MOST_WORK)
    flow = max_flow(cut.arcs, cut.source, cut.sink, enough, work)
    return live_after(problem, before) + problem.rise[op] + flow - cut.profit


@inner
def require(problem: OrderingProblem, way: Int, op: Int, after: Flags, before: Flags) -> bool:
    """Add the ops that a saving requires to have ended to `before`; return False if impossible.

    `way` is the number of the saving. It is impossible if `op` or an op of `after` would have to
    end.
    """
    for k in range(problem.need_ptr[way], problem.need_ptr[way + 1]):
        b = problem.need[k]
        for j in range(problem.user_ptr[b], problem.user_ptr[b + 1]):
            u = problem.user[j]
            # The op itself may be a user, as it ends when its saving takes effect.
            if u != op and not before[u]:
                before[u] = True
                mark_reach(problem.pred_ptr, problem.pred, u, before)
    clash = before[op]
    for u in range(len(before)):
        clash = clash or (before[u] and after[u])
    return not clash


@kernel
def least_given(
    problem: OrderingProblem, before: Flags, after: Flags, op: Int, spot: IntArray
) -> Int:
    """Return the least live bytes while `op` runs, after the ops `before` and before those `after`.

    If the flow takes too long the result is a lower bound instead. `before` is a downset with all
    ancestors of `op`; the complement of `after` and `op` is a downset as well. `spot` is work space
    of shape `(n,)`, all -1.

    With in-place savings the result is the minimum over cases: no saving, or one of the savings of
    the op, with the ops that it requires added to `before`.
    """
    # Without savings first: most ops have none, and it is an upper limit for the cases.
    plain = minimum_plain(problem, before, after, op, spot)
    first, end = problem.saving_ptr[op], problem.saving_ptr[op + 1]
    # Too many cases: the largest saving without its requirement is a valid lower bound.
    if end - first > MOST_CASES:
        return plain - most_saved(problem, op)
    least = plain
    for i in range(first, end):
        # Requiring more ops never lowers the minimum, so a case that cannot win is skipped.
        if plain - problem.saving[i] < least:
            more = before.copy()
            if require(problem, int64(i), op, after, more):
                case = minimum_plain(problem, more, after, op, spot) - problem.saving[i]
                least = min(least, case)
    return least
