"""Precedences that a budget implies at one op: ops that must run before it, and after it.

The fewest live bytes while `op` runs are a minimum cut over the unrelated ops: those on one side
have ended, the others start later. An op on one side of some cut within the budget may run
there. To test the op `u`, force it to the other side: the flow that this adds is the additional
cost, so a search from `u` in the residual network, stopped at the slack of the budget, decides.

Example: while `op` runs, 6 bytes are live before `u` has run, and 11 after. Within a budget of
10 `u` must run after `op`; within 11 both sequences are possible.
"""

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
"""Most nodes that a flow, or all tests on one side, may visit: tenths of a second. An op that is
undecided at that point counts as free."""

FREE, BEFORE, AFTER = 0, 1, 2
"""Position of another op: free, or always before (after) the op that is looked at."""


@inner
def note_sides(arcs: Arcs, sink: Int, other: Int, flip: Int, late: Flags, early: Flags) -> None:
    """Mark the side of each op in a cut within the budget: the op may be there in some order.

    Of the minimum cuts of a flow it is the one with most ops on the far side, found by a search
    from `sink` and `other`.
    """
    # On the far side of a cut within the budget an op starts later than `op`, on the near side it
    # has ended.
    behind = mark_side(arcs, sink, flip)
    beyond = mark_side(arcs, other, flip)
    for i in range(len(late)):
        if behind[i] or beyond[i]:
            late[i] = True
        else:
            early[i] = True


@inner
def turn(arcs: Arcs) -> Arcs:
    """Return the residual network with all arcs reversed."""
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
    """Find the ops of `free` that cost more than `most` bytes if they are on one side.

    Sketch: the network has a maximum flow. Forcing an op to be early adds the flow from the op to
    the sink; no unit of it passes the source, from which nothing more can come, so these arcs are
    closed. Forcing it to be late adds the flow from the source to the op, which is the same search
    with all arcs reversed. For each op whose side is still open, send at most `most` units: if they
    fit, the cut found shows the side of many ops. If not, the op cannot be on this side, and the
    ops that would have to be there with it cannot either.
    """
    count = len(free)
    arcs = cut.arcs if wants_early else turn(cut.arcs)
    goal, other = cut.sink, cut.source
    if not wants_early:
        goal, other = other, goal
    e = arcs.first[other]
    while e >= 0:
        # What the source could send is sent already, so a path through it would only waste time.
        arcs.room[e ^ 1] = 0
        e = arcs.following[e]
    nodes = len(arcs.first)
    at_first, bench = arcs.room.copy(), make_bench(nodes, nodes)
    bench.left[0] = MOST_WORK
    # Ops whose position is decided already count as reached, so that they are not tested.
    reached = ~loose
    # If an op may be late, all its descendants may be late in the same cut. So ops are tried from
    # the first to the last, as they are mostly numbered topologically; for early ops the reverse.
    for k in range(count):
        i = int64(count - 1 - k if wants_early else k)
        u = free[i]
        if forced[u] != FREE or reached[u] or (early[i] if wants_early else late[i]):
            continue
        if tests == 0:
            break
        # Each test starts from the same maximum flow.
        take_back(arcs, bench, at_first)
        sent = send(arcs, bench, i, goal, most, int64(0))
        # Within the budget: the cut found answers the question for every op on its sides at once.
        if sent <= most:
            far = goal if wants_early else i
            note_sides(arcs, far, cut.sink, int64(wants_early), late, early)
            # Only tests that imply nothing count, as a precedence found makes the problem smaller.
            tests = tests - 1
            continue
        # The op exceeds the budget on this side, and with it all ops that must be there together.
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
    """Compute one case of :func:`imply_at`: the ops `before` have ended and `op` saves `spare`.

    Sketch: one flow gives the fewest live bytes, and its smallest and largest minimum cuts show a
    side for most ops. For the rest, test the late side and then the early side one by one.

    `before` is a downset with all ancestors of `op`; `after` are its descendants.
    """
    n = len(problem.delta)
    forced = np.zeros(n, np.int8)
    free = undecided(before, after, op)
    count = len(free)
    cut = build_cut(problem, before, free, np.full(n, -1, np.int64))
    enough, work = int64(UNBOUNDED), int64(MOST_WORK)
    least = live_after(problem, before) + problem.rise[op] - spare - cut.profit
    least += max_flow(cut.arcs, cut.source, cut.sink, enough, work)
    # The smallest minimum cut: what the source reaches has ended, the rest may be late.
    near = mark_side(cut.arcs, cut.source, int64(0))
    # The sink is only reached if the flow was stopped early: nothing is implied in that case.
    if least > budget or count == 0 or near[cut.sink]:
        return least, forced
    # First answers are free: the smallest and the largest minimum cut of the flow just made.
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
    # Both sides share the tests, as neither is likelier to imply something.
    most, tests = budget - least, (tests + 1) // 2
    try_side(problem, cut, free, loose, False, most, tests, late, early, forced)
    try_side(problem, cut, free, loose, True, most, tests, late, early, forced)
    return least, forced


@kernel
def imply_at(problem: OrderingProblem, op: Int, budget: Int, tests: Int) -> tuple[Int, Sides]:
    """Return the bytes that `op` forces, and the positions that the budget forces on other ops.

    Sketch: without in-place savings there is one case (:func:`imply_case`). Otherwise each saving
    is a case, in which the ops that it needs have ended; a position counts if it holds in all cases
    within the budget, and the bytes are the minimum over the cases.

    `op`: op id. `budget`: limit on live bytes. `tests`: testing stops after half this number of
    tests without a result on each side.

    Returns
    -------
    tuple
        Least live bytes while `op` runs, or a lower bound if the flow takes too long; shape `(n,)`:
        `FREE`, `BEFORE` or `AFTER` for each op that was unrelated to it (meaningless if the bytes
        exceed the budget).
    """
    n = len(problem.delta)
    before, after = around(problem, op)
    first, end = problem.saving_ptr[op], problem.saving_ptr[op + 1]
    spare = int64(0)
    # Too many cases: one case without requirements, in which the op saves most, is a valid bound.
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
            # In this case the op runs after what the saving needs, so these ops come before it.
            side = BEFORE if more[u] and not before[u] else held[u]
            # The first case within the budget decides; later ones can only confirm it or free the
            # op.
            if least > budget:
                forced[u] = side
            elif forced[u] != side:
                forced[u] = FREE
        least = min(least, value)
    return least, forced
