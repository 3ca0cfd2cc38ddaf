"""States that some order of minimum peak passes, found along known orders.

Let `R` be a state that such an order passes, and `X` a later state with `M(X) <= M(R)` live bytes
that is reached from `R` with no load above a proved lower bound on the peak. Of the states between
the two, let `Z` be one with fewest bytes. Then `Z` can be the next state to pass: join `Z` to each
state `T` of an order of minimum peak. As live bytes are submodular,

    M(T | Z) <= M(T) + M(Z) - M(T & Z) <= M(T)

since `T & Z` lies between `R` and `X`, so that `M(T & Z) >= M(Z)`. No load rises, and the way from
`R` to `Z` costs no more than the bound. The same holds backward from the last state; what an op
that writes in place saves is covered as in :mod:`optsched.ordering.inplace`.

Example: `a` makes 9 bytes and leaves 1, `b` makes 5 and leaves none. The bound is 9. Running `b`
first takes 5 and leaves no more than before, so that `b` runs first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import product

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.bound.precedences import with_edges
from optsched.ordering.context import OutOfTimeError, SearchContext
from optsched.ordering.kernels.cut import Flags, smallest_best
from optsched.ordering.problem import OrderingProblem


def with_passed_states(
    context: SearchContext, orders: Sequence[Sequence[int]], bound: int
) -> OrderingProblem:
    """Return the problem with edges by which all orders pass the states found.

    `context`: the problem. `orders`: known orders, along which states are looked for. `bound`:
    proved lower bound on the peak in bytes.
    """
    found = _PassedStates(context, bound)
    with suppress(OutOfTimeError):
        for move in (found.advance, found.retreat):
            # Each order is tried again whenever another one has moved the state.
            while any(move(order) for order in orders):
                pass
    # Each cut adds edges to the problem that already has those before it.
    problem = context.problem
    for done in found.states:
        problem = _with_cut(problem, done)
    return problem


class _PassedStates:
    """First and last states found so far; the ops between them are free."""

    def __init__(self, context: SearchContext, bound: int) -> None:
        self.context, self.bound = context, bound
        self.head: list[int] = []
        self.tail: list[int] = []
        self.states: list[Flags] = []

    def advance(self, order: Sequence[int]) -> bool:
        """Move the first state forward along an order; return False if it stays."""
        path, start = self._path(order), len(self.head)
        live, within = self._measure(path)
        # Steps up to the first one above the bound can be taken.
        reached = start + int(np.argmin(np.append(within[start:], False)))
        reached = min(reached, len(path) - len(self.tail))
        # A later state with no more live bytes than the present one.
        able = np.flatnonzero(live[start + 1 : reached + 1] <= live[start])
        if not len(able):
            return False
        chosen = self._fewest(path[:start], path[start : start + 1 + int(able[-1])])
        path = [*path[:start], *chosen, *(v for v in path[start:] if v not in set(chosen))]
        # With the chosen ops first, their steps may be higher than along the given order.
        if not self._measure(path)[1][start : start + len(chosen)].all():
            return False
        self.head += chosen
        self._keep(self.head)
        return True

    def retreat(self, order: Sequence[int]) -> bool:
        """Move the last state backward along an order; return False if it stays."""
        path = self._path(order)
        end = len(path) - len(self.tail)
        live, within = self._measure(path)
        first = end - int(np.argmin(np.append(within[:end][::-1], False)))
        first = max(first, len(self.head))
        able = np.flatnonzero(live[first:end] <= live[end])
        if not len(able):
            return False
        low = first + int(able[0])
        early = set(self._fewest(path[:low], path[low:end], whole=False))
        late = [v for v in path[low:end] if v not in early]
        path = [*path[:low], *(v for v in path[low:end] if v in early), *late, *self.tail]
        if not self._measure(path)[1][end - len(late) : end].all():
            return False
        self.tail = late + self.tail
        self._keep(path[: len(path) - len(self.tail)])
        return True

    def _path(self, order: Sequence[int]) -> list[int]:
        """Return an order that passes the states found, its other ops in the given sequence."""
        taken = {*self.head, *self.tail}
        return [*self.head, *(v for v in order if v not in taken), *self.tail]

    def _measure(self, path: Sequence[int]) -> tuple[IntArray, Flags]:
        """Return the live bytes of each state, and True for each step within the bound."""
        self.context.check_time()
        during = self.context.follow(path)[1]
        return live_along(self.context.problem, path), during <= self.bound

    def _fewest(self, done: list[int], free: list[int], *, whole: bool = True) -> list[int]:
        """Return ops to add to a state for fewest live bytes.

        If adding all (or no) ops is as good as anything, it is the answer: the state has to move.
        """
        flags = np.zeros(self.context.ops, np.bool_)
        flags[done] = True
        self.context.clock.spend(1)
        pick = self.context.pick(smallest_best)
        chosen = pick(self.context.problem, flags, np.array(free, np.int64))
        if whole and not chosen.any():
            return free
        if not whole and chosen.all():
            return []
        return [v for v, x in zip(free, chosen, strict=True) if x]

    def _keep(self, done: Sequence[int]) -> None:
        flags = np.zeros(self.context.ops, np.bool_)
        flags[list(done)] = True
        self.states.append(flags)


def live_along(problem: OrderingProblem, order: Sequence[int]) -> IntArray:
    """Return the live bytes before the first op of an order and after each, shape `(n + 1,)`."""
    path = np.asarray(order, np.int64)
    step = np.empty(len(path), np.int64)
    step[path] = np.arange(len(path))
    change = problem.delta[path]
    if len(problem.size):
        last = np.maximum.reduceat(step[problem.user], problem.user_ptr[:-1])
        np.subtract.at(change, last, problem.size)
    return problem.base + np.append(0, np.cumsum(change))


def _with_cut(problem: OrderingProblem, done: Flags) -> OrderingProblem:
    """Return the problem with edges by which every op of a state runs before all others."""
    n = len(done)
    owner = np.repeat(np.arange(n), np.diff(problem.succ_ptr))
    inner = done[owner] & done[problem.succ]
    outer = ~done[owner] & ~done[problem.succ]
    # Only the last ops of the state and the first ones after it need an edge.
    last, first = done.copy(), ~done
    last[owner[inner]] = False
    first[problem.succ[outer]] = False
    rows = np.array(list(product(np.flatnonzero(last), np.flatnonzero(first))), np.int64)
    rows = rows.reshape(-1, 2)
    # Edges that are there already would be listed twice.
    is_new = np.isin(rows @ (n, 1), owner * n + problem.succ, invert=True)
    return with_edges(problem, *rows[is_new].T)
