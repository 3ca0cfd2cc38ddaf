"""Orders of graphs with several pools: ops move while the sum of the peaks allows it."""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import kernel

MEMORY = 64
"""A move is made if it is no worse than the order so many moves ago."""


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
    """Return the most live bytes of each pool, summed.

    Parameters
    ----------
    step
        Shape `(n,)`: the step of each op.
    birth, size, keep, pool
        Of the buffers that count, shape `(m,)`; birth -1 is before the first step.
    user_ptr, user
        Ops that hold each buffer, its producer among them; one at least unless it is kept.
    change
        Shape `(pools, n + 1)`: scratch.
    """
    pools, steps = change.shape
    change[:, :] = 0
    for b in range(len(size)):
        start = step[birth[b]] if birth[b] >= 0 else 0
        end = 0
        for k in range(user_ptr[b], user_ptr[b + 1]):
            end = max(end, step[user[k]])
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
    """Return the best order met on a walk of so many tried moves, shape `(n,)`.

    A move takes one op to another step between its last predecessor and its first successor.
    Late acceptance: worse orders are taken as long as they are no worse than an earlier one.

    Parameters
    ----------
    order
        A valid order, shape `(n,)`.
    moves, seed
        How many are tried; of the choices.
    pred_ptr, pred, succ_ptr, succ
        Ops that must run before and after each op.
    birth, user_ptr, user, size, keep, pool
        As of `sum_of_peaks`.
    pools
        How many pools there are.

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
    earlier = np.full(MEMORY, now)
    for turn in range(moves):
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        v = (seed >> 8) % n
        at, low, high = step[v], 0, n - 1
        for k in range(pred_ptr[v], pred_ptr[v + 1]):
            low = max(low, step[pred[k]] + 1)
        for k in range(succ_ptr[v], succ_ptr[v + 1]):
            high = min(high, step[succ[k]] - 1)
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
        earlier[turn % MEMORY] = now
    return found
