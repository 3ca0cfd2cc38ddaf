"""Witness of a closure bound: a state that attains the bytes which an op forces.

The closure bound of an op is a minimum over all states in which it can run. A state that attains
the minimum explains the bound to a person: these buffers are live at that moment, held by these
ops. Certificates prove the same number by a flow instead (:mod:`optsched.ordering.bound.flow`).

Example: `a` makes 4 bytes, `b` shrinks them to 1, and `c`, unrelated, makes 8. At least 9 bytes are
live while `c` runs if `a` has, but `c` can also run first: its bound is 8, and the witness is the
empty state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from optsched.model.graph import Graph
from optsched.model.inplace import Pair, heaviest_matching
from optsched.ordering.kernels.cut import Flags, around, smallest_best
from optsched.ordering.kernels.state import count_waiting
from optsched.ordering.problem import OrderingProblem, build_problem


@dataclass(frozen=True, slots=True)
class ClosureWitness:
    """A state that attains the closure bound of an op."""

    op: int
    """Id of the op that runs."""
    value: int
    """Least bytes that are live while it runs, over all orders."""
    done: tuple[int, ...]
    """Ids of the ops that have ended in a state with exactly these bytes; of all such states the
    one with the fewest ops."""
    shared: tuple[Pair, ...] = ()
    """Pairs of an output of `op` and the input that it is written into in that state, if the graph
    is in-place."""


def closure_witness(
    graph: Graph, op: int, *, before: Iterable[int] = (), after: Iterable[int] = ()
) -> ClosureWitness:
    """Return a state that attains the closure bound of an op.

    Raise `ValueError` if some ops would have to run both before and after `op`.

    `op`: op id. `before`, `after`: ids of further ops that are known to run before `op`, or after
    it.
    """
    problem = build_problem(graph.arrays)
    # Closed with ancestors and descendants: an op that has ended implies that its ancestors have.
    done, later = _closed(problem, (op, *before))[0], _closed(problem, (op, *after))[1]
    done[op] = False
    if (done & later).any():
        raise ValueError(f"op {op}: an op cannot run both before and after it")
    cases = [(0, done)]
    for i in range(*problem.saving_ptr[op : op + 2].tolist()):
        needed = problem.need[problem.need_ptr[i] : problem.need_ptr[i + 1]]
        users = [problem.user[problem.user_ptr[b] : problem.user_ptr[b + 1]] for b in needed]
        more = done | _closed(problem, set(np.concatenate(users).tolist()) - {op})[0]
        if not more[op] and not (more & later).any():
            cases.append((int(problem.saving[i]), more))
    found = []
    for saved, given in cases:
        state, live = _fewest_bytes(problem, given, later)
        found.append((live + int(problem.rise[op]) - saved, state))
    value, state = min(found, key=lambda case: case[0])
    listed = tuple(np.flatnonzero(state).tolist())
    return ClosureWitness(op, value, listed, written_over(graph, op, set(listed)))


def _closed(problem: OrderingProblem, ops: Iterable[int]) -> tuple[Flags, Flags]:
    """Return flags of some ops with all their ancestors, and with all their descendants."""
    before, after = np.zeros(len(problem.delta), np.bool_), np.zeros(len(problem.delta), np.bool_)
    enclose = around.for_work(8 * (len(problem.pred) + len(problem.delta)))
    for v in ops:
        ancestors, descendants = enclose(problem, v)
        before |= ancestors
        after |= descendants
        before[v] = after[v] = True
    return before, after


def _fewest_bytes(problem: OrderingProblem, done: Flags, later: Flags) -> tuple[Flags, int]:
    """Return the smallest state of minimum live bytes between two sets, and its live bytes.

    It contains the ops `done` and no op of `later`.
    """
    free = np.flatnonzero(~done & ~later)
    choose = smallest_best.for_work(
        8 * (len(problem.pred) + len(problem.user) + len(problem.delta))
    )
    state = done.copy()
    state[free] = choose(problem, done, free)
    return state, count_waiting(problem, state)[1]


def written_over(graph: Graph, op: int, done: set[int]) -> tuple[Pair, ...]:
    """Return the pairs (output, input) that an op writes in place after the ops `done`."""
    arrays = graph.arrays
    free = []
    for i in np.flatnonzero(arrays.inplace_op == op).tolist():
        output, source = int(arrays.inplace_output[i]), int(arrays.inplace_source[i])
        if done.issuperset(set(arrays.user.row(source).tolist()) - {op}):
            free.append((output, source))
    return tuple(sorted((b, s) for s, b in heaviest_matching(free, arrays.size).items()))
