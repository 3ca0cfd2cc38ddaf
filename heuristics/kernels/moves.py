"""Local search over orders for several pools, by the sum of the peaks of the pools.

Example: the order a, b, c and the move of `c` to step 0 give c, a, b. If the sum of the peaks does
not grow, or is at most that of 64 moves ago, the new order stays.
"""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import kernel

MEMORY = 64
"""Length of the history for late acceptance: a move is accepted if the result is at least as good
as the order that many moves ago.
"""


@kernel
def sum_of_peaks(
    step: IntArray,
    birth: IntArray,
    user_ptr: IntArray,
    user: IntArray,
    size: IntArray,
    keep: IntArray,
    pool: IntArray,
    change: IntArray,
) -> int:
    """Return the sum over all pools of the maximum of live bytes.

    `step`: shape `(n,)`: the step of each op. `birth`, `size`, `keep`, `pool`: shape `(m,)`: data
    of the buffers that count; birth -1 means before the first step. `user_ptr`, `user`: ops that
    hold each buffer, including its producer; at least one unless it is kept. `change`: shape
    `(pools, n + 1)`: work space.
    """
    pools, steps = change.shape
    change[:, :] = 0
    for b in range(len(size)):
        start = step[birth[b]] if birth[b] >= 0 else 0
        end = 0
        for k in range(user_ptr[b], user_ptr[b + 1]):
            end = max(end, step[user[k]])
        # Differences per step; a running sum then gives the live bytes.
        change[pool[b], start] += size[b]
        if keep[b] == 0:
            change[pool[b], end + 1] -= size[b]
    total = 0
    for p in range(pools):
        live, peak = 0, 0
        for t in range(steps):
            live += change[p, t]
            peak = max(peak, live)
        total += peak
    return total


@kernel
def run_moves(
    order: IntArray,
    moves: int,
    seed: int,
    pred_ptr: IntArray,
    pred: IntArray,
    succ_ptr: IntArray,
    succ: IntArray,
    birth: IntArray,
    user_ptr: IntArray,
    user: IntArray,
    size: IntArray,
    keep: IntArray,
    pool: IntArray,
    pools: int,
) -> IntArray:
    """Return the best order found in a walk of `moves` attempted moves, shape `(n,)`.

    A move takes one op to another step between its last predecessor and its first successor. By
    late acceptance, an order is accepted if it is at least as good as the current one or as the one
    :data:`MEMORY` moves ago.

    Sketch: draw an op and a new step for it, shift the ops in between, and compute the sum of the
    peaks from scratch. Keep the move if it is accepted, otherwise shift back. Remember the best
    order.

    Parameters
    ----------
    order
        A valid order, shape `(n,)`.
    moves
        Number of attempted moves.
    seed
        Seed of the random choices.
    pred_ptr, pred, succ_ptr, succ
        Ops that must run before and after each op.
    birth, user_ptr, user, size, keep, pool
        As in `sum_of_peaks`.
    pools
        Number of pools.

    References
    ----------
    E. Burke, Y. Bykov, "The late acceptance hill-climbing heuristic", European Journal of
    Operational Research 258(1), 2017.
    """
    n = len(order)
    order = order.copy()
    step = np.empty(n, np.int64)
    for at in range(n):
        step[order[at]] = at
    change = np.zeros((pools, n + 1), np.int64)
    now = sum_of_peaks(step, birth, user_ptr, user, size, keep, pool, change)
    best, found = now, order.copy()
    # Linear congruential random numbers are identical in Python and in compiled code.
    earlier = np.full(MEMORY, now)
    for turn in range(moves):
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        v = (seed >> 8) % n
        at, low, high = step[v], 0, n - 1
        # Between its last predecessor and its first successor the op can move without breaking an
        # edge.
        for k in range(pred_ptr[v], pred_ptr[v + 1]):
            low = max(low, step[pred[k]] + 1)
        for k in range(succ_ptr[v], succ_ptr[v + 1]):
            high = min(high, step[succ[k]] - 1)
        # The op has no other step, and the history keeps its entry.
        if low == high:
            continue
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        to = low + (seed >> 8) % (high - low + 1)
        way = 1 if to > at else -1
        for t in range(at, to, way):
            order[t] = order[t + way]
            step[order[t]] = t
        order[to], step[v] = v, to
        moved = sum_of_peaks(step, birth, user_ptr, user, size, keep, pool, change)
        # Late acceptance: as good as now, or as 64 moves ago, so that the walk can cross small
        # hills.
        if moved <= now or moved <= earlier[turn % MEMORY]:
            now = moved
            if now < best:
                best = now
                found = order.copy()
        else:
            for t in range(to, at, -way):
                order[t] = order[t - way]
                step[order[t]] = t
            order[at], step[v] = v, at
        # Written for rejected moves as well: late acceptance compares with the order at that time.
        earlier[turn % MEMORY] = now
    return found
