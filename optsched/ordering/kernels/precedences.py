"""What a budget leaves open at one op: which other ops must come before it, which after it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy import int64

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.cut import (
    MOST_CASES,
    Cut,
    Flags,
    around,
    build_cut,
    live_after,
    mark_reach,
    most_saved,
    require,
    undecided,
)
from optsched.ordering.kernels.max_flow import (
    UNBOUNDED,
    Arcs,
    Int,
    make_bench,
    mark_side,
    max_flow,
    send,
    take_back,
)
from optsched.ordering.problem import OrderingProblem
from optsched.runtime.kernel import inner, kernel

Sides = npt.NDArray[np.int8]

MOST_WORK = 1 << 24
"""Nodes that a flow, or all tests on a side, may meet: tenths of a second. What is not known then
is not implied."""

FREE, BEFORE, AFTER = 0, 1, 2
"""Where an op may be: on both sides of the op looked at, or on one only."""


@inner
def note_sides(arcs: Arcs, sink: Int, other: Int, flip: Int, late: Flags, early: Flags) -> None:
    """Note who is on which side of a cut that the budget allows: it may be there in some order."""
    behind = mark_side(arcs, sink, flip)
    beyond = mark_side(arcs, other, flip)
    for i in range(len(late)):
        if behind[i] or beyond[i]:
            late[i] = True
        else:
            early[i] = True


@inner
def turn(arcs: Arcs) -> Arcs:
    """Return the residual network with all arcs the other way round."""
    room = np.empty_like(arcs.room)
    for e in range(len(room)):
        room[e] = arcs.room[e ^ 1]
    return Arcs(arcs.first, arcs.following, arcs.head, room)


@inner
def try_side(
    problem: OrderingProblem,
    cut: Cut,
    free: IntArray,
    loose: Flags,
    wants_early: bool,
    most: Int,
    tests: Int,
    late: Flags,
    early: Flags,
    forced: Sides,
) -> None:
    """Force all ops of `free` that cost more than `most` bytes if they are on a side.

    The flow from source to sink is a largest one. What more an op takes by being early flows from
    it to the sink, never by way of the source, as nothing more comes from there. By being late it
    takes what flows from the source to it: all arcs are turned. Both searches begin at the op.
    """
    count = len(free)
    arcs = cut.arcs if wants_early else turn(cut.arcs)
    goal, other = cut.sink, cut.source
    if not wants_early:
        goal, other = other, goal
    e = arcs.first[other]
    while e >= 0:
        arcs.room[e ^ 1] = 0
        e = arcs.following[e]
    nodes = len(arcs.first)
    at_first, bench = arcs.room.copy(), make_bench(nodes, nodes)
    bench.left[0] = MOST_WORK
    reached = ~loose
    # What may be late may have all that follows it late: the first of these are tried first, if ops
    # are numbered in some order, and of those that may be early the last.
    for k in range(count):
        i = int64(count - 1 - k if wants_early else k)
        u = free[i]
        if forced[u] != FREE or reached[u] or (early[i] if wants_early else late[i]):
            continue
        if tests == 0:
            break
        take_back(arcs, bench, at_first)
        sent = send(arcs, bench, i, goal, most, int64(0))
        if sent <= most:
            far = goal if wants_early else i
            note_sides(arcs, far, cut.sink, int64(wants_early), late, early)
            tests = tests - 1
            continue
        reached[u] = True
        if wants_early:
            mark_reach(problem.succ_ptr, problem.succ, u, reached)
        else:
            mark_reach(problem.pred_ptr, problem.pred, u, reached)
    for k in range(count):
        u = free[k]
        if reached[u]:
            forced[u] = AFTER if wants_early else BEFORE


@inner
def imply_case(
    problem: OrderingProblem,
    before: Flags,
    after: Flags,
    op: Int,
    spare: Int,
    budget: Int,
    tests: Int,
) -> tuple[Int, Sides]:
    """Do the work of :func:`imply_at` where the ops `before` have ended and `op` saves `spare`.

    `before` is a downset with all ancestors of `op` and none of its descendants, `after`.
    """
    n = len(problem.delta)
    forced = np.zeros(n, np.int8)
    free = undecided(before, after, op)
    count = len(free)
    cut = build_cut(problem, before, free, np.full(n, -1, np.int64))
    enough, work = int64(UNBOUNDED), int64(MOST_WORK)
    least = live_after(problem, before) + problem.rise[op] - spare - cut.profit
    least += max_flow(cut.arcs, cut.source, cut.sink, enough, work)
    near = mark_side(cut.arcs, cut.source, int64(0))
    if least > budget or count == 0 or near[cut.sink]:
        return least, forced
    early = np.zeros(count, np.bool_)
    late = np.zeros(count, np.bool_)
    note_sides(cut.arcs, cut.sink, cut.sink, int64(1), late, early)
    for i in range(count):
        if not near[i]:
            late[i] = True
    loose = np.zeros(n, np.bool_)
    for i in range(count):
        loose[free[i]] = True
    loose[op] = not before[op] and not after[op]
    most, tests = budget - least, (tests + 1) // 2
    try_side(problem, cut, free, loose, False, most, tests, late, early, forced)
    try_side(problem, cut, free, loose, True, most, tests, late, early, forced)
    return least, forced


@kernel
def imply_at(problem: OrderingProblem, op: Int, budget: Int, tests: Int) -> tuple[Int, Sides]:
    """Bytes that `op` forces, and where the budget forces the other ops to be.

    Parameters
    ----------
    problem
        The problem.
    op
        The op looked at.
    budget
        Orders above it are of no interest.
    tests
        On each side, try no further ops once for half as many nothing was implied.

    Returns
    -------
    tuple
        Least live bytes while `op` runs, or less if that takes too long to find out; shape `(n,)`:
        `FREE`, `BEFORE` or `AFTER` for each op that was not related to it (meaningless if the bytes
        pass the budget). Where the op has ways to save bytes, only what holds in each of these
        cases.
    """
    n = len(problem.delta)
    before, after = around(problem, op)
    first, end = problem.saving_ptr[op], problem.saving_ptr[op + 1]
    spare = int64(0)
    if end - first > MOST_CASES:
        spare, end = most_saved(problem, op), first
    least, forced = imply_case(problem, before, after, op, spare, budget, tests)
    for i in range(first, end):
        more = before.copy()
        if not require(problem, int64(i), op, after, more):
            continue
        value, held = imply_case(problem, more, after, op, problem.saving[i], budget, tests)
        if value > budget:
            continue
        for u in range(n):
            side = BEFORE if more[u] and not before[u] else held[u]
            if least > budget:
                forced[u] = side
            elif forced[u] != side:
                forced[u] = FREE
        least = min(least, value)
    return least, forced
