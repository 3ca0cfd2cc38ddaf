"""Why an op forces its bytes: a state at which no more are live while it runs.

The closure bound of an op is a minimum over all states in which it can run. The witness is one that
attains it, so "what is live then, and who holds it" explains the bound to a person. Certificates
prove the same number by a flow instead (:mod:`optsched.certificate.flow`).
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
    """A state that attains the closure bound of an op.

    Parameters
    ----------
    op
        The op that runs.
    value
        Bytes that are live while it runs, in every order.
    done
        The ops that have ended in a state at which exactly these bytes are live; of all such states
        the one with the fewest ops.
    shared
        Outputs of `op` and the inputs that it writes them into in that state, if the graph is
        in-place.
    """

    op: int
    value: int
    done: tuple[int, ...]
    shared: tuple[Pair, ...] = ()


def closure_witness(
    graph: Graph, op: int, *, before: Iterable[int] = (), after: Iterable[int] = ()
) -> ClosureWitness:
    """Return the witness of the bytes that an op forces.

    Parameters
    ----------
    graph
        The graph.
    op
        Op id.
    before, after
        Further ops that are known to have run before `op`, or to run after it.

    Raises
    ------
    ValueError
        If some ops would have to run both before and after `op`.
    """
    problem = build_problem(graph.arrays)
    done, later = _closed(problem, (op, *before))[0], _closed(problem, (op, *after))[1]
    done[op] = False
    if (done & later).any():
        raise ValueError(f"op {op}: some ops are said to run both before and after it")
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
    """Some ops with all their ancestors, and with all their descendants."""
    before, after = np.zeros(len(problem.delta), np.bool_), np.zeros(len(problem.delta), np.bool_)
    enclose = around.for_work(8 * (len(problem.pred) + len(problem.delta)))
    for v in ops:
        ancestors, descendants = enclose(problem, v)
        before |= ancestors
        after |= descendants
        before[v] = after[v] = True
    return before, after


def _fewest_bytes(problem: OrderingProblem, done: Flags, later: Flags) -> tuple[Flags, int]:
    """The smallest of the states with minimum live bytes that have `done`, and none of `later`."""
    free = np.flatnonzero(~done & ~later)
    choose = smallest_best.for_work(
        8 * (len(problem.pred) + len(problem.user) + len(problem.delta))
    )
    state = done.copy()
    state[free] = choose(problem, done, free)
    return state, count_waiting(problem, state)[1]


def written_over(graph: Graph, op: int, done: set[int]) -> tuple[Pair, ...]:
    """Outputs of an op, and the inputs that it writes them into where the ops `done` have ended."""
    arrays = graph.arrays
    free = []
    for i in np.flatnonzero(arrays.inplace_op == op).tolist():
        output, source = int(arrays.inplace_output[i]), int(arrays.inplace_source[i])
        if done.issuperset(set(arrays.user.row(source).tolist()) - {op}):
            free.append((output, source))
    return tuple(sorted((b, s) for s, b in heaviest_matching(free, arrays.size).items()))
