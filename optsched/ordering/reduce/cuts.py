"""Forced cuts: ops comparable to all others, before and after which every order is in one state."""

from __future__ import annotations

import numpy as np

from optsched.ordering.problem import OrderingProblem


def forced_cuts(problem: OrderingProblem) -> tuple[list[int], list[int]]:
    """Return a topological order, and after how many of its ops every order is in the same state.

    In a topological order, all ops behind step `i` descend from its op if each has a predecessor
    at step `i` or later; all ops ahead of it are its ancestors if each has a successor at step
    `i` or earlier. Linear in the size of the problem.
    """
    order = np.array(topological(problem), np.int64)
    n = len(order)
    step = np.empty(n, np.int64)
    step[order] = np.arange(n)
    # By step: the latest predecessor's and the earliest successor's step.
    latest, earliest = np.full(n, -1), np.full(n, n)
    pred, succ = np.diff(problem.pred_ptr), np.diff(problem.succ_ptr)
    np.maximum.at(latest, np.repeat(step, pred), step[problem.pred])
    np.minimum.at(earliest, np.repeat(step, succ), step[problem.succ])
    behind = np.append(np.minimum.accumulate(latest[::-1])[::-1], n)[1:]
    ahead = np.append(-1, np.maximum.accumulate(earliest))[:-1]
    steps = np.arange(n)
    at = np.flatnonzero((behind >= steps) & (steps >= ahead))
    return order.tolist(), np.union1d([0, n], np.concatenate((at, at + 1))).tolist()


def topological(problem: OrderingProblem) -> list[int]:
    """Return some valid order."""
    missing = np.diff(problem.pred_ptr).tolist()
    ptr, succ = problem.succ_ptr.tolist(), problem.succ.tolist()
    order = [v for v, count in enumerate(missing) if not count]
    for v in order:
        for w in succ[ptr[v] : ptr[v + 1]]:
            missing[w] -= 1
            if not missing[w]:
                order.append(w)
    return order
