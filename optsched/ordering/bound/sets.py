"""Set bounds: in any set of ops one runs last, when all others have ended, and one runs first.

For a set `W` of ops, with the closure bound `LB` under the stated condition,

    peak >= min over v in W that may be last of LB(v | all of W but v have ended)
    peak >= min over v in W that may be first of LB(v | all of W but v start later)

The sets tried are the ops that rise by at least `t`, for some thresholds `t`.

Example: three branches each end in an op that makes 5 bytes for the output and needs 8 bytes of
workspace. The closure bound of each op alone is 13. But one of them runs last, when the other two
have left 10 bytes: the peak is at least 23.
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
    """A set bound: the bytes that the last (or the first) op of a set forces."""

    value: int
    """Bytes: the minimum over all ops of the set that may be the last (or the first)."""
    op: int
    """Id of an op that attains the minimum."""
    ops: tuple[int, ...]
    """Ids of the set, ascending."""
    last: bool
    """True for the last op of the set, False for the first."""


def best_set(
    context: SearchContext, above: Flags, bound: int, enough: int = UNBOUNDED
) -> ForcedSet | None:
    """Return the set that forces most bytes; None if no set forces more than `bound`.

    Stops at the first set that forces `enough` bytes.
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
    # Thresholds are spread evenly, since sets of neighboring thresholds differ by few ops.
    if len(heights) > effort.set_thresholds:
        chosen = np.linspace(0, len(heights) - 1, effort.set_thresholds)
        heights = heights[chosen.astype(np.int64)]
    for height in heights.tolist():
        members = np.flatnonzero(rise >= height)
        # Lower thresholds give larger sets only, which take as many flows as they have ops.
        if len(members) > effort.set_ops:
            break
        if len(members) > 1:
            yield members


def least_extreme(
    context: SearchContext, above: Flags, members: IntArray, bound: int, *, last: bool
) -> tuple[int, int]:
    """Return the least bytes that the last (or first) op of a set forces, and that op.

    Stops at the first op that forces at most `bound` bytes: the set cannot raise the bound then.
    """
    least, weakest = -1, -1
    for op, value in extremes(context, above, members, last=last):
        if least < 0 or value < least:
            least, weakest = value, op
        # The minimum only falls from here on, so it cannot exceed the bound any more.
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
        # An op of the set with a descendant (an ancestor) in it cannot be the last (the first).
        if (toward[:, v] & inside).any():
            continue
        context.check_time()
        others = inside.copy()
        others[v] = False
        # As last op, all others have ended with their ancestors; as first op, all others start
        # later.
        done = toward[others].any(axis=0) | others | toward[v]
        rest = toward[:, v].copy()
        before, after = (done, rest) if last else (rest, done)
        context.statistics.flows += 1
        context.clock.spend(1)
        yield v, int(evaluate(context.problem, before, after, v, spot))
