"""Forced cuts: ops comparable to all others, before and after which every order is in one state."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import numpy as np

from optsched.arrays import IntArray
from optsched.ordering.model import Net


def forced_cuts(net: Net) -> tuple[list[int], list[int]]:
    """Return a topological order, and after how many of its ops every order is in the same state.

    In a topological order, all ops behind step `i` descend from its op if each has a predecessor
    at step `i` or later; all ops ahead of it are its ancestors if each has a successor at step
    `i` or earlier. Linear in the size of the net.
    """
    order = np.array(topological(net), np.int64)
    n = len(order)
    step = np.empty(n, np.int64)
    step[order] = np.arange(n)
    latest = [_ends(net.pred_ptr, net.pred, step, v, max, -1) for v in order.tolist()]
    earliest = [_ends(net.succ_ptr, net.succ, step, v, min, n) for v in order.tolist()]
    behind = [*accumulate([n, *reversed(latest)], min)][::-1][1:]
    ahead = [-1, *accumulate(earliest, max)][:n]
    cuts = [0]
    for i in range(n):
        if behind[i] >= i >= ahead[i]:
            if i > cuts[-1]:
                cuts.append(i)
            cuts.append(i + 1)
    if n > cuts[-1]:
        cuts.append(n)
    return order.tolist(), cuts


def _ends(
    ptr: IntArray,
    idx: IntArray,
    step: IntArray,
    v: int,
    best: Callable[[list[int]], int],
    none: int,
) -> int:
    row = step[idx[ptr[v] : ptr[v + 1]]].tolist()
    return best(row) if row else none


def topological(net: Net) -> list[int]:
    """Return some valid order."""
    missing = np.diff(net.pred_ptr).tolist()
    ptr, succ = net.succ_ptr.tolist(), net.succ.tolist()
    order = [v for v, count in enumerate(missing) if not count]
    for v in order:
        for w in succ[ptr[v] : ptr[v + 1]]:
            missing[w] -= 1
            if not missing[w]:
                order.append(w)
    return order
