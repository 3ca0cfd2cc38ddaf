"""Hill-valley orders: an order of a region that is best regardless of the ops that run around it.

Between two *valleys* the live bytes go up a *hill* and down again. The order found here repeatedly
takes the lowest possible hill to a deeper valley, from the start to the deepest state `D`; and in
the same way backward, from the end to `D`. An exact search finds it if it raises its budget only
when no state is left, and commits to every deeper valley, once from each end.
:mod:`optsched.ordering.reduce.regions` proves that no other order of the region is better.

Example: op `a` rises by 9 bytes and frees 1 in the end, `b` rises by 3 and frees 2. The order is
`b`, `a`: over a hill at 3 into the valley at -2, from there over a hill at 7 into the valley at -3.
The two parts of this order are `b` and `a`.

References
----------
Liu, "An application of generalized tree pebbling to sparse matrix factorization", 1987;
Kayaaslan, Lambert, Marchal and Uçar, "Scheduling series-parallel task graphs to minimize peak
memory", 2018.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from optsched.ordering.context import SearchContext
from optsched.ordering.kernels import explore
from optsched.ordering.kernels.cut import smallest_best
from optsched.ordering.problem import OrderingProblem
from optsched.ordering.rules import ALL_RULES
from optsched.ordering.search.segment import Segment

MOST_BYTES = 2**61
"""Limit on the live bytes of a region alone, counted from below its lowest downset."""


@dataclass(frozen=True, slots=True)
class HillValleyOrder:
    """An order of a region and the parts between its valleys."""

    ops: list[int]
    """Shape `(n,)`: the ops by step."""
    ends: list[int]
    """Ascending, from 0 to `n`: number of ops that have ended before each part, and at the end."""
    live: list[int]
    """Shape `(n + 1,)`: live bytes before each step and at the end, counted from 0."""
    level: list[int]
    """Shape `(n,)`: live bytes while each step runs."""

    def parts(self) -> list[tuple[list[int], int, int]]:
        """Return each part: its ops, its rise above its start, and its net change of live bytes."""
        live, level = self.live, self.level
        return [
            (self.ops[a:b], max(level[a:b]) - live[a], live[b] - live[a])
            for a, b in pairwise(self.ends)
        ]


def hill_valley_order(context: SearchContext, problem: OrderingProblem) -> HillValleyOrder | None:
    """Return the hill-valley order of the region `problem`; None if that takes too many states.

    The region must not have in-place savings. The problem of the context is not used.
    """
    # A base for which no downset has fewer than 0 bytes, as searches start with budget 0.
    base = int(np.maximum(-problem.delta, 0).sum()) + int(problem.size.sum())
    if base + int(problem.rise.sum()) >= MOST_BYTES:
        return None
    # One direction only, so that every commit leads to the nearest deeper valley.
    rules = replace(ALL_RULES, dovetail=False, symmetry=False)
    problem = problem._replace(base=base)
    context = replace(context, problem=problem, priority=None, rules=rules)
    n = context.ops
    none, every = np.zeros(n, np.bool_), np.ones(n, np.bool_)
    # The two halves meet in the deepest state, at which one kind of valley turns into the other.
    deepest = context.pick(smallest_best)(problem, none, np.arange(n))
    order: list[int] = []
    for low, high in ((none, deepest), (deepest, every)):
        segment = Segment(context, low, high, 0, 2 * MOST_BYTES)
        how = segment.run(context.effort.region_states)
        context.collect()
        if how != explore.REACHED:
            # Too many states, or the region has more bytes than fit: it stays as it is.
            return None
        order += segment.moves
    return cut_at_valleys(problem, order)


def cut_at_valleys(problem: OrderingProblem, order: list[int]) -> HillValleyOrder:
    """Cut an order at the valleys before its deepest state, and at those backward from the end."""
    live, level = trace(problem, order)
    # The first of the deepest states, as `smallest_best` chose the smallest downset.
    split = live.index(min(live))
    n = len(order)
    ends = {0, split, n}
    ends.update(k for k, _ in valleys(live[: split + 1], level[:split]))
    # Backward the same rule applies to the reversed steps.
    ends.update(n - k for k, _ in valleys(live[split:][::-1], level[split:][::-1]))
    return HillValleyOrder(order, sorted(ends), live, level)


def trace(problem: OrderingProblem, order: Iterable[int]) -> tuple[list[int], list[int]]:
    """Return the live bytes before each step and at the end, from 0, and during each step."""
    waiting = np.diff(problem.user_ptr).tolist()
    ptr, read = problem.read_ptr.tolist(), problem.read.tolist()
    rise, change, size = problem.rise.tolist(), problem.delta.tolist(), problem.size.tolist()
    live, level = [0], []
    for v in order:
        level.append(live[-1] + rise[v])
        now = live[-1] + change[v]
        for b in read[ptr[v] : ptr[v + 1]]:
            waiting[b] -= 1
            if not waiting[b]:
                now -= size[b]
        live.append(now)
    return live, level


def valleys(live: Sequence[int], level: Sequence[int]) -> list[tuple[int, int]]:
    """Return the valleys of an order: the number of steps, and the highest level up to there.

    A valley is a state with fewer live bytes than all states before it. Of valleys with the same
    highest level only the last is kept, as no other op needs to run between them.
    """
    found: list[tuple[int, int]] = []
    least, top = live[0], None
    for k, height in enumerate(level, 1):
        top = height if top is None else max(top, height)
        if live[k] < least:
            least = live[k]
            if found and found[-1][1] == top:
                # The same hill leads to this deeper valley.
                found.pop()
            found.append((k, top))
    return found
