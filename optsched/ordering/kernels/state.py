"""A state of the search: a downset that grows op by op from the start, or shrinks from the end.

If `forward` is True, placing an op adds it to the downset; if False, placing an op removes it, and
the live bytes are those before the op. Ops that may be placed next are *ready*. Placing an op and
taking it back both update counters only, in time proportional to the edges of the op.

Example: `a` and `b` are read by `c`. Forward from the empty set, `a` and `b` are ready; after both
are placed, `missing[c]` is 0 and `c` becomes ready. Backward from the full set, `c` is ready first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import int64

from optsched.model.arrays import IntArray, row_counts, row_lengths
from optsched.ordering.kernels.cut import Flags
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.problem import OrderingProblem
from optsched.runtime.kernel import inner, kernel

READY, LIVE = 0, 1

WIDE = 1_024
"""With more ready ops than this, the closure rule is not applied to each successor of a state."""


class Downset(NamedTuple):
    """A downset with counters that placing and taking back an op keep up to date."""

    done: Flags
    """Shape `(n,)`: True if the op is in the downset."""
    within: Flags
    """Shape `(n,)`: True if the op may ever be placed."""
    missing: IntArray
    """Shape `(n,)`: number of neighbors that must be placed before the op."""
    waiting: IntArray
    """Shape `(m,)`: number of users of the shared buffer outside the downset."""
    ready: IntArray
    """Shape `(n + 1,)`: ops that may be placed next, `tally[READY]` of them."""
    slot: IntArray
    """Shape `(n,)`: position of an op in `ready`, or -1."""
    tally: IntArray
    """Number of ready ops; live bytes."""


def count_waiting(problem: OrderingProblem, done: Flags) -> tuple[IntArray, int]:
    """Return the number of users of each shared buffer outside a downset, and the live bytes."""
    waiting = row_counts(problem.user_ptr, ~done[problem.user])
    return waiting, int(problem.base + problem.delta[done].sum() - problem.size[waiting == 0].sum())


def start_state(problem: OrderingProblem, done: Flags, within: Flags, forward: bool) -> Downset:
    """Return the state of a downset; only ops of `within` will ever be placed."""
    n = len(problem.delta)
    waiting, live = count_waiting(problem, done)
    if forward:
        missing = row_counts(problem.pred_ptr, ~done[problem.pred])
    else:
        missing = row_counts(problem.succ_ptr, done[problem.succ])
    first = np.flatnonzero(within & (missing == 0))
    ready, slot = np.empty(n + 1, np.int64), np.full(n, -1, np.int64)
    ready[: len(first)] = first
    slot[first] = np.arange(len(first))
    tally = np.array([len(first), live], np.int64)
    return Downset(done.copy(), within, missing, waiting, ready, slot, tally)


@inner
def add_ready(state: Downset, v: Int) -> None:
    """Add an op to the ready list."""
    count = state.tally[READY]
    state.ready[count] = v
    state.slot[v] = count
    state.tally[READY] = count + 1


@inner
def drop_ready(state: Downset, v: Int) -> None:
    """Remove an op from the ready list; the last op of the list takes its place."""
    count = state.tally[READY] - 1
    last = state.ready[count]
    at = state.slot[v]
    state.ready[at] = last
    state.slot[last] = at
    state.slot[v] = -1
    state.tally[READY] = count


@inner
def put_in(problem: OrderingProblem, state: Downset, v: Int) -> None:
    """Add an op to the downset, and update the live bytes to those after it."""
    live = state.tally[LIVE] + problem.delta[v]
    for k in range(problem.read_ptr[v], problem.read_ptr[v + 1]):
        b = problem.read[k]
        state.waiting[b] -= 1
        # The last user outside is placed, so the buffer is released.
        if state.waiting[b] == 0:
            live -= problem.size[b]
    state.done[v] = True
    state.tally[LIVE] = live


@inner
def take_out(problem: OrderingProblem, state: Downset, v: Int) -> None:
    """Remove an op from the downset, and update the live bytes to those before it."""
    live = state.tally[LIVE] - problem.delta[v]
    for k in range(problem.read_ptr[v], problem.read_ptr[v + 1]):
        b = problem.read[k]
        if state.waiting[b] == 0:
            # Before this op ends it still uses the buffer, so the buffer is live again.
            live += problem.size[b]
        state.waiting[b] += 1
    state.done[v] = False
    state.tally[LIVE] = live


@inner
def make_ready(state: Downset, ptr: IntArray, idx: IntArray, v: Int) -> None:
    """Count a placed op in its neighbors ahead, and add those to the ready list that now are."""
    for k in range(ptr[v], ptr[v + 1]):
        w = idx[k]
        state.missing[w] -= 1
        if state.missing[w] == 0 and state.within[w]:
            add_ready(state, w)


@inner
def hold_back(state: Downset, ptr: IntArray, idx: IntArray, v: Int) -> None:
    """Undo :func:`make_ready`: the neighbors ahead of the op are not ready any more."""
    for k in range(ptr[v], ptr[v + 1]):
        # Only ops in the ready list are taken off: others were not ready before either.
        w = idx[k]
        if state.slot[w] >= 0:
            drop_ready(state, w)
        state.missing[w] += 1


@inner
def place(problem: OrderingProblem, state: Downset, forward: bool, v: Int) -> None:
    """Place a ready op."""
    drop_ready(state, v)
    if forward:
        put_in(problem, state, v)
        make_ready(state, problem.succ_ptr, problem.succ, v)
    else:
        take_out(problem, state, v)
        make_ready(state, problem.pred_ptr, problem.pred, v)


@kernel
def place_all(
    problem: OrderingProblem, state: Downset, forward: bool, moves: npt.NDArray[np.int32]
) -> None:
    """Place moves one after the other, to make a committed state the current one."""
    for k in range(len(moves)):
        place(problem, state, forward, int64(moves[k]))


@inner
def take_back(problem: OrderingProblem, state: Downset, forward: bool, v: Int) -> None:
    """Undo the latest placement, which must be that of `v`."""
    if forward:
        hold_back(state, problem.succ_ptr, problem.succ, v)
        take_out(problem, state, v)
    else:
        hold_back(state, problem.pred_ptr, problem.pred, v)
        put_in(problem, state, v)
    # The op goes to the end of the list, not to its old position: no rule depends on that
    # sequence.
    add_ready(state, v)


@inner
def saved(problem: OrderingProblem, waiting: IntArray, v: Int, left: Int) -> Int:
    """Return the bytes an op saves: its largest saving whose buffers all wait for `left` users.

    `left` is 1 if the op is not in the downset yet (it is the last user), and 0 if it is.
    """
    most = int64(0)
    for i in range(problem.saving_ptr[v], problem.saving_ptr[v + 1]):
        met = problem.saving[i] > most
        for k in range(problem.need_ptr[i], problem.need_ptr[i + 1]):
            met = met and waiting[problem.need[k]] == left
        if met:
            most = problem.saving[i]
    return most


@inner
def look_ahead(
    problem: OrderingProblem, state: Downset, forward: bool, v: Int, budget: Int
) -> tuple[Int, Int]:
    """Return the live bytes while a ready op runs, and those after placing it.

    Savings of the op are subtracted only if the bytes would exceed the budget without them.
    """
    live = int(state.tally[LIVE])
    if forward:
        far = live + problem.delta[v]
        for k in range(problem.read_ptr[v], problem.read_ptr[v + 1]):
            # Waiting for this op alone means that it is the last user.
            if state.waiting[problem.read[k]] == 1:
                far -= problem.size[problem.read[k]]
        during = live + problem.rise[v]
    else:
        # Backward the op is still in the downset: the live bytes before it have the buffers that
        # it ends.
        far = live - problem.delta[v]
        for k in range(problem.read_ptr[v], problem.read_ptr[v + 1]):
            if state.waiting[problem.read[k]] == 0:
                far += problem.size[problem.read[k]]
        during = far + problem.rise[v]
    if during > budget and problem.saving_ptr[v] < problem.saving_ptr[v + 1]:
        during -= saved(problem, state.waiting, v, int64(forward))
    return during, far


@inner
def close_state(
    problem: OrderingProblem,
    state: Downset,
    forward: bool,
    budget: Int,
    moves: npt.NDArray[np.int32],
    count: Int,
) -> Int:
    """Place ready ops that fit the budget and do not raise the live bytes, while there are any.

    Writes them to `moves` from position `count`; returns the position after the last.
    """
    changed = True
    while changed:
        changed = False
        i = 0
        while i < state.tally[READY]:
            v = state.ready[i]
            during, far = look_ahead(problem, state, forward, v, budget)
            if during <= budget and far <= state.tally[LIVE]:
                place(problem, state, forward, v)
                moves[count] = v
                count += 1
                changed = True
                # `i` stays: another ready op has taken this place in the list.
            else:
                i += 1
    return count


@kernel
def follow(problem: OrderingProblem, order: IntArray, during: IntArray) -> Int:
    """Write the live bytes during each step of an order to `during`; return the peak."""
    waiting = row_lengths(problem.user_ptr)
    # Live bytes before any op count too: with unused ops the inputs alone may be the peak.
    live = peak = problem.base
    for i in range(len(order)):
        v = order[i]
        during[i] = live + problem.rise[v]
        if problem.saving_ptr[v] < problem.saving_ptr[v + 1]:
            during[i] -= saved(problem, waiting, v, int64(1))
        peak = max(peak, during[i])
        live += problem.delta[v]
        for k in range(problem.read_ptr[v], problem.read_ptr[v + 1]):
            b = problem.read[k]
            waiting[b] -= 1
            if waiting[b] == 0:
                live -= problem.size[b]
    return peak
