"""Where the flow at an op is worked out: what a release of buffers gains, what it costs.

What gains and costs are, and how they meet, is said in
:mod:`optsched.ordering.tree.kernels.release`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.bits import WORD, clear_bit, has_bit, pack, set_bit, words
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.problem import OrderingProblem
from optsched.runtime.kernel import inner

LISTED, LOGGED = 0, 1
"""Numbers of a desk's `tally`: gains within reach; lines in the log."""


LOG_PATHS = 16
"""The log has room for so many paths of the greatest length."""


class Desk(NamedTuple):
    """Where the flow at an op is worked out, and the flows of all ops are kept.

    There is a gain for each shared buffer, then one for each op of `giver`, then one spare row.

    Parameters
    ----------
    every
        Shape `(words,)`: all ops.
    user
        Shape `(m, words)`: the users of a shared buffer.
    giver
        Ops with a negative net change.
    kept, kept_count
        Shapes `(n, room, 3)` and `(n,)`: gain, op and bytes of the flow last seen at each op.
    free
        Shape `(words,)`: ops that may have ended or not.
    listed
        The gains that can be had.
    need
        Shape `(gains + 1, words)`: free ops that a gain needs.
    supply
        Shape `(gains + 1,)`, bytes: what a gain has not sent.
    space, roomy
        Shape `(n,)`, bytes: what an op can still take; those with any, as bits.
    sent, carry, holder
        Shape `(gains + 1, n)`, bytes: what a gain sends to an op. Which ones, as bits of ops
        `(gains + 1, words)`, and of gains `(n, words of gains)`.
    log
        Shape `(room, 3)`: what was sent since the log was empty; an op as `-1 - op` says what left
        a supply and a space.
    up, over, queue, mark, met
        Scratch of a search for a path: op by which a gain was reached, gain by which an op was;
        gains to look at; ops and gains reached, as bits.
    tally
        See :data:`LISTED`.
    """

    every: IntArray
    user: IntArray
    giver: IntArray
    kept: IntArray
    kept_count: IntArray
    free: IntArray
    listed: IntArray
    need: IntArray
    supply: IntArray
    space: IntArray
    roomy: IntArray
    sent: IntArray
    carry: IntArray
    holder: IntArray
    log: IntArray
    up: IntArray
    over: IntArray
    queue: IntArray
    mark: IntArray
    met: IntArray
    tally: IntArray


def make_desk(net: OrderingProblem) -> Desk:
    """A desk for a problem; no flow is known."""
    n, m = len(net.delta), len(net.size)
    width = words(n)
    user = np.zeros((m, width), np.int64)
    owner = np.repeat(np.arange(m), np.diff(net.user_ptr))
    np.bitwise_or.at(user, (owner, net.user // WORD), np.int64(1) << (net.user % WORD))
    giver = np.flatnonzero(net.delta < 0)
    gains = m + len(giver)

    def zeros(*shape: int) -> IntArray:
        return np.zeros(shape, np.int64)

    return Desk(
        pack(np.ones((1, n), np.bool_))[0], user, giver,
        zeros(n, gains + n, 3), zeros(n), zeros(width), zeros(gains),
        zeros(gains + 1, width), zeros(gains + 1), zeros(n), zeros(width), zeros(gains + 1, n),
        zeros(gains + 1, width), zeros(n, words(gains + 1)), zeros(LOG_PATHS * (2 * gains + 4), 3),
        zeros(gains + 1), zeros(n), zeros(gains + 1), zeros(3, width), zeros(3, words(gains + 1)),
        zeros(2),
    )  # fmt: skip


@inner
def list_gain(desk: Desk, gain: Int, amount: Int) -> None:
    """Note a gain that can be had."""
    desk.supply[gain] = amount
    desk.listed[desk.tally[LISTED]] = gain
    desk.tally[LISTED] += 1


@inner
def need_op(desk: Desk, gain: Int, before: IntArray, u: Int) -> None:
    """Let a gain need an op, and all before it."""
    for w in range(len(desk.free)):
        desk.need[gain, w] |= before[u, w] & desk.free[w]
    set_bit(desk.need[gain], u)


@inner
def lay_out(
    net: OrderingProblem, base: Int, before: IntArray, after: IntArray, desk: Desk, v: Int
) -> Int:
    """Set up gains and costs at an op, without a flow; return its live bytes with all gains."""
    width = len(desk.free)
    for w in range(width):
        desk.free[w] = desk.every[w] & ~(before[v, w] | after[v, w])
        desk.roomy[w] = 0
    clear_bit(desk.free, v)
    live = base + net.rise[v]
    for u in range(len(net.delta)):
        desk.space[u] = 0
        if has_bit(before[v], u):
            live += net.delta[u]
        elif net.delta[u] > 0 and has_bit(desk.free, u):
            desk.space[u] = net.delta[u]
            set_bit(desk.roomy, u)
    desk.tally[LISTED] = 0
    shared = len(net.size)
    for b in range(shared):
        dead = possible = True
        for w in range(width):
            desk.need[b, w] = 0
            left = desk.user[b, w] & ~before[v, w]
            dead = dead and left == 0
            possible = possible and left & ~desk.free[w] == 0
        desk.supply[b] = 0
        if possible:
            live -= net.size[b]
        if possible and not dead:
            list_gain(desk, np.int64(b), net.size[b])
            for k in range(net.user_ptr[b], net.user_ptr[b + 1]):
                if not has_bit(before[v], net.user[k]):
                    need_op(desk, np.int64(b), before, net.user[k])
    for i in range(len(desk.giver)):
        u = desk.giver[i]
        gain = np.int64(shared + i)
        desk.supply[gain] = 0
        for w in range(width):
            desk.need[gain, w] = 0
        if has_bit(desk.free, u):
            live += net.delta[u]
            list_gain(desk, gain, -net.delta[u])
            need_op(desk, gain, before, u)
    return live
