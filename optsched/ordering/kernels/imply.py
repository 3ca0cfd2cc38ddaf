"""What a budget leaves open at one op: which other ops must come before it, which after it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from optsched.flow import UNBOUNDED, Arcs, Int, mark_side, max_flow
from optsched.jit import inner, kernel
from optsched.ordering.kernels.cut import MOST_CASES, Flags, build_cut, live_after
from optsched.ordering.model import Net

Matrix = npt.NDArray[np.bool_]

FREE, BEFORE, AFTER = 0, 1, 2
"""Where an op may be: on both sides of the op looked at, or on one only."""


@inner
def note_sides(arcs: Arcs, sink: Int, other: Int, late: Flags, early: Flags) -> None:
    """Note who is on which side of a cut that the budget allows: it may be there in some order."""
    behind = mark_side(arcs, sink, np.int64(1))
    beyond = mark_side(arcs, other, np.int64(1))
    for i in range(len(late)):
        if behind[i] or beyond[i]:
            late[i] = True
        else:
            early[i] = True


@inner
def require_above(net: Net, above: Matrix, way: Int, op: Int, before: Flags) -> bool:
    """Add to `before` what must have ended for a way; False if that can not be."""
    for k in range(net.need_ptr[way], net.need_ptr[way + 1]):
        b = net.need[k]
        for j in range(net.user_ptr[b], net.user_ptr[b + 1]):
            w = net.user[j]
            if w != op and not before[w]:
                for u in range(len(before)):
                    if u == w or above[w, u]:
                        before[u] = True
    clash = before[op]
    for u in range(len(before)):
        clash = clash or (before[u] and above[u, op])
    return not clash


@inner
def imply_case(
    net: Net, base: Int, above: Matrix, before: Flags, op: Int, spare: Int, budget: Int, tests: Int
) -> tuple[Int, npt.NDArray[np.int8]]:
    """Do the work of :func:`imply_at` where the ops `before` have ended and `op` saves `spare`.

    `before` is a downset with all ancestors of `op` and none of its descendants.
    """
    n = len(net.net)
    forced = np.zeros(n, np.int8)
    free = np.empty(n, np.int64)
    count = 0
    for u in range(n):
        if u != op and not before[u] and not above[u, op]:
            free[count] = u
            count += 1
    free = free[:count].copy()
    cut = build_cut(net, before, free, np.full(n, -1, np.int64))
    unbounded = np.int64(UNBOUNDED)
    least = live_after(net, base, before) + net.hill[op] - spare - cut.profit
    least += max_flow(cut.arcs, cut.source, cut.sink, unbounded)
    if least > budget or count == 0:
        return least, forced
    early = np.zeros(count, np.bool_)
    late = np.zeros(count, np.bool_)
    note_sides(cut.arcs, cut.sink, cut.sink, late, early)
    near = mark_side(cut.arcs, cut.source, np.int64(0))
    for i in range(count):
        if not near[i]:
            late[i] = True
    arcs = Arcs(cut.arcs.first, cut.arcs.following, cut.arcs.head, cut.arcs.room.copy())
    for k in range(2 * count):
        i = k >> 1
        wants_early = k & 1 == 0
        u = free[i]
        if forced[u] != FREE or (early[i] if wants_early else late[i]):
            continue
        if tests == 0:
            break
        for e in range(len(arcs.room)):
            arcs.room[e] = cut.arcs.room[e]
        source, sink = cut.source, cut.sink
        if wants_early:
            source = i
        else:
            sink = i
        if max_flow(arcs, source, sink, budget - least) <= budget - least:
            note_sides(arcs, sink, cut.sink, late, early)
            tests = tests - 1
            continue
        for j in range(count):
            w = free[j]
            if wants_early and (w == u or above[w, u]):
                forced[w] = AFTER
            elif not wants_early and (w == u or above[u, w]):
                forced[w] = BEFORE
    return least, forced


@kernel
def imply_at(
    net: Net, base: Int, above: Matrix, op: Int, budget: Int, tests: Int
) -> tuple[Int, npt.NDArray[np.int8]]:
    """Bytes that `op` forces, and where the budget forces the other ops to be.

    Parameters
    ----------
    net, base
        The problem, and the live bytes of the empty downset.
    above
        Shape `(n, n)`: `above[v, u]` if `u` is known to run before `v`; transitive, and at least
        what the net says.
    op
        The op looked at.
    budget
        Orders above it are of no interest.
    tests
        Try no further ops once for so many nothing was implied.

    Returns
    -------
    tuple
        Least live bytes while `op` runs; shape `(n,)`: `FREE`, `BEFORE` or `AFTER` for each op that
        was not related to it (meaningless if the bytes pass the budget). Where the op has ways to
        save bytes, only what holds in each of these cases.
    """
    n = len(net.net)
    before = above[op].copy()
    first, end = net.way_ptr[op], net.way_ptr[op + 1]
    spare = np.int64(0)
    if end - first > MOST_CASES:
        for i in range(first, end):
            spare = max(spare, net.way[i])
        end = first
    least, forced = imply_case(net, base, above, before, op, spare, budget, tests)
    for i in range(first, end):
        more = before.copy()
        if not require_above(net, above, np.int64(i), op, more):
            continue
        value, held = imply_case(net, base, above, more, op, net.way[i], budget, tests)
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
