"""Set bounds: of any set of ops one runs last, when all others are done, and one first.

    peak >= min over v in W that may be last of LB(v | all of W but v have ended)
    peak >= min over v in W that may be first of LB(v | all of W but v have not begun)

`W` are the ops that rise by at least `t`, for some thresholds `t`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.context import SearchContext
from optsched.ordering.kernels.cut import Flags, least_given
from optsched.ordering.kernels.max_flow import UNBOUNDED


@dataclass(frozen=True, slots=True)
class ForcedSet:
    """A set of ops of which one runs last (or first), and that one forces bytes.

    Parameters
    ----------
    value
        Bytes: the minimum over all ops of the set that may be the last.
    op
        The op that forces no more.
    ops
        The set, ascending.
    last
        Whether the last one is meant; else the first.
    """

    value: int
    op: int
    ops: tuple[int, ...]
    last: bool


def best_set(
    context: SearchContext, above: Flags, bound: int, enough: int = UNBOUNDED
) -> ForcedSet | None:
    """Return the set that forces most bytes; None if none forces more than `bound`.

    The first set that forces `enough` bytes ends the search.
    """
    best = None
    for members, last in product(large_ops(context), (True, False)):
        if bound >= enough:
            break
        value, op = least_extreme(context, above, members, bound, last=last)
        if value > bound:
            best, bound = ForcedSet(value, op, tuple(members.tolist()), last), value
    return best


def large_ops(context: SearchContext) -> Iterator[IntArray]:
    """Yield sets of at least two ops: those that rise by at least some threshold."""
    effort, rise = context.effort, context.problem.rise
    heights = np.unique(rise[rise > 0])[::-1]
    if len(heights) > effort.set_thresholds:
        chosen = np.linspace(0, len(heights) - 1, effort.set_thresholds)
        heights = heights[chosen.astype(np.int64)]
    for height in heights.tolist():
        members = np.flatnonzero(rise >= height)
        if len(members) > effort.set_ops:
            break
        if len(members) > 1:
            yield members


def least_extreme(
    context: SearchContext, above: Flags, members: IntArray, bound: int, *, last: bool
) -> tuple[int, int]:
    """Least bytes that the last (or first) op of a set forces, and that op.

    Stops at one that is no news.
    """
    least, weakest = -1, -1
    for op, value in extremes(context, above, members, last=last):
        if least < 0 or value < least:
            least, weakest = value, op
        if least <= bound:
            break
    return least, weakest


def extremes(
    context: SearchContext, above: Flags, members: IntArray, *, last: bool
) -> Iterator[tuple[int, int]]:
    """Yield each op that may be the last (or first) of a set, and the bytes that it then forces."""
    n = context.ops
    toward = above if last else above.T
    inside = np.zeros(n, np.bool_)
    inside[members] = True
    evaluate = context.pick(least_given)
    spot = np.full(n, -1, np.int64)
    for v in members.tolist():
        if (toward[:, v] & inside).any():
            continue
        context.check_time()
        others = inside.copy()
        others[v] = False
        done = toward[others].any(axis=0) | others | toward[v]
        rest = toward[:, v].copy()
        before, after = (done, rest) if last else (rest, done)
        context.statistics.flows += 1
        context.clock.spend(1)
        yield v, int(evaluate(context.problem, before, after, v, spot))
