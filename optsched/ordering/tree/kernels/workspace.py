"""Work space of the flow at an op: sources, sinks, and the bytes sent between them.

:mod:`optsched.ordering.tree.kernels.flow` explains sources and sinks, and the use of the flow.

Example: a buffer of 5 bytes is freed by an op that makes 3. The source has a supply of 5, the sink
takes 3, and 2 bytes stay at the source.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import int64

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.bits import WORD, clear_bit, has_bit, pack, set_bit, words
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.problem import OrderingProblem
from optsched.runtime.kernel import inner

SOURCES, LOGGED = 0, 1
"""Indices of a workspace's `tally`: sources that are listed; lines in the log."""

LOG_PATHS = 16
"""Number of paths of maximum length that fit the log."""


class FlowWorkspace(NamedTuple):
    """The flow at one op, and the last flows of all ops.

    There is a source for each shared buffer, then one for each op of `shrinking`, then a spare
    source, which requires ops to have ended. Sets of ops and of sources are rows of bits.
    """

    every: IntArray
    """Shape `(words,)`: all ops."""
    user: IntArray
    """Shape `(m, words)`: the users of a shared buffer."""
    shrinking: IntArray
    """Ops after which fewer bytes are live."""
    saved: IntArray
    saved_count: IntArray
    """`saved` and `saved_count`: shapes `(n, room, 3)` and `(n,)`: source, op and bytes of the last
    flow at each op."""
    undecided: IntArray
    """Shape `(words,)`: ops that may have ended or not."""
    sources: IntArray
    """The sources with a supply."""
    needs: IntArray
    """Shape `(sources + 1, words)`: undecided ops that must have ended for a source to be freed."""
    supply: IntArray
    """Shape `(sources + 1,)`: bytes that a source has left to send."""
    capacity: IntArray
    unfilled: IntArray
    """`capacity` and `unfilled`: shape `(n,)`: bytes that an op can still take; shape `(words,)`:
    the ops that can take any."""
    sent: IntArray
    receivers: IntArray
    senders: IntArray
    """`sent`, `receivers` and `senders`: shape `(sources + 1, n)`: bytes that a source sends to an
    op. Shape `(sources + 1, words)`: the ops that a source sends to. Shape `(n, words of sources)`:
    the sources that send to an op."""
    log: IntArray
    """Shape `(room, 3)`: source, op and bytes sent since the log was empty. If the op is stored as
    `-1 - op`, bytes that left a supply and a capacity."""
    came_from: IntArray
    came_by: IntArray
    queue: IntArray
    seen: IntArray
    seen_sources: IntArray
    """`came_from`, `came_by`, `queue`, `seen` and `seen_sources`: work space of a search for a
    path: the op from which a source was reached, and the source from which an op was; sources to
    visit; ops and sources reached, in two copies."""
    tally: IntArray
    """See :data:`SOURCES`."""


def make_workspace(problem: OrderingProblem) -> FlowWorkspace:
    """Return the work space for a problem, without saved flows."""
    n, m = len(problem.delta), len(problem.size)
    width = words(n)
    user = np.zeros((m, width), np.int64)
    owner = np.repeat(np.arange(m), np.diff(problem.user_ptr))
    np.bitwise_or.at(user, (owner, problem.user // WORD), int64(1) << (problem.user % WORD))
    shrinking = np.flatnonzero(problem.delta < 0)
    sources = m + len(shrinking)
    rows, row_words = sources + 1, words(sources + 1)

    def zeros(*shape: int) -> IntArray:
        return np.zeros(shape, np.int64)

    return FlowWorkspace(
        every=pack(np.ones((1, n), np.bool_))[0],
        user=user,
        shrinking=shrinking,
        saved=zeros(n, sources + n, 3),
        saved_count=zeros(n),
        undecided=zeros(width),
        sources=zeros(sources),
        needs=zeros(rows, width),
        supply=zeros(rows),
        capacity=zeros(n),
        unfilled=zeros(width),
        sent=zeros(rows, n),
        receivers=zeros(rows, width),
        senders=zeros(n, row_words),
        log=zeros(LOG_PATHS * (2 * sources + 4), 3),
        came_from=zeros(rows),
        came_by=zeros(n),
        queue=zeros(rows),
        seen=zeros(2, width),
        seen_sources=zeros(2, row_words),
        tally=zeros(2),
    )


@inner
def add_source(flow: FlowWorkspace, source: Int, amount: Int) -> None:
    """Add a source with its supply to the list."""
    flow.supply[source] = amount
    flow.sources[flow.tally[SOURCES]] = source
    flow.tally[SOURCES] += 1


@inner
def include_op(flow: FlowWorkspace, source: Int, before: IntArray, u: Int) -> None:
    """Add an undecided op, and the undecided ops before it, to the ops that a source needs."""
    for w in range(len(flow.undecided)):
        flow.needs[source, w] |= before[u, w] & flow.undecided[w]
    set_bit(flow.needs[source], u)


@inner
def set_up(
    problem: OrderingProblem,
    before: IntArray,
    after: IntArray,
    flow: FlowWorkspace,
    v: Int,
) -> Int:
    """Set up sources and sinks at an op; return its live bytes if all sources were freed.

    Sketch: the undecided ops are those unrelated to the op; ops of positive `delta` among them get
    a capacity. A shared buffer is a source if all its remaining users are undecided; an undecided
    op of negative `delta` is one as well. The value returned is below that of every downset, as it
    leaves out the bytes that undecided ops make.
    """
    width = len(flow.undecided)
    for w in range(width):
        flow.undecided[w] = flow.every[w] & ~(before[v, w] | after[v, w])
        flow.unfilled[w] = 0
    clear_bit(flow.undecided, v)
    live = problem.base + problem.rise[v]
    for u in range(len(problem.delta)):
        flow.capacity[u] = 0
        if has_bit(before[v], u):
            live += problem.delta[u]
        elif problem.delta[u] > 0 and has_bit(flow.undecided, u):
            flow.capacity[u] = problem.delta[u]
            set_bit(flow.unfilled, u)
    flow.tally[SOURCES] = 0
    shared = len(problem.size)
    for b in range(shared):
        dead = possible = True
        for w in range(width):
            flow.needs[b, w] = 0
            left = flow.user[b, w] & ~before[v, w]
            dead = dead and left == 0
            possible = possible and left & ~flow.undecided[w] == 0
        flow.supply[b] = 0
        if possible:
            live -= problem.size[b]
        if possible and not dead:
            add_source(flow, int64(b), problem.size[b])
            for k in range(problem.user_ptr[b], problem.user_ptr[b + 1]):
                if not has_bit(before[v], problem.user[k]):
                    include_op(flow, int64(b), before, problem.user[k])
    for i in range(len(flow.shrinking)):
        u = flow.shrinking[i]
        source = int64(shared + i)
        flow.supply[source] = 0
        for w in range(width):
            flow.needs[source, w] = 0
        if has_bit(flow.undecided, u):
            live += problem.delta[u]
            add_source(flow, source, -problem.delta[u])
            include_op(flow, source, before, u)
    return live
