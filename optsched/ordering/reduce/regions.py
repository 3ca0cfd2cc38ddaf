"""Regions: parts of a problem with an order of their own that is best whatever runs beside them.

Let `M` be a set of ops (a *module*) such that each other op runs before all of them, after all of
them, or is unrelated to all, and no shared buffer is used inside and outside. Live bytes are then a
sum `g(done in M) + h(done elsewhere)`, and `g` is submodular. A step of `M` has a *level*: its live
bytes by `g` alone, whatever `h` adds.

Let `D` be a downset of `M` with minimum `g`. For every level `c` there is a set `R(c)` with minimum
`g` among those that steps of at most `c` reach from the start; these are nested, the steps from one
to the next do not pass the next level, and they end at `D`: that is what a search does which raises
its budget only when it must, and commits. Backward from the end of `M` it is the same. The order
that results is the hill-valley order of `M`.

Any order of the whole can have `M` run along its hill-valley order without a higher peak. Take the
step `T` at which `h` is minimum while `M` is under way. Before `T`, whenever `M` makes a step of a
new highest level `c`, run on to `R(c)`: at no more than `c`, at the same `h`. In between `M` then
has no more live bytes than it had. At `T` run on to `D`: all levels that takes, `M` makes anyway,
at `T` or later, at no less `h`. After `T` it is the mirror image. So nothing is lost if `M` becomes
a chain along its hill-valley order, in which the ops from one `R(c)` to the next are one op.

Regions here lie between an op and the first one that all paths from it lead to. Inner ones become
chains first, so those around them have few ops left: series-parallel graphs are solved by this
alone.

References
----------
Abdel-Wahab and Kameda, "Scheduling to minimize maximum cumulative cost subject to series-parallel
precedence constraints", Operations Research 26, 1978 (chains in parallel).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optsched.model.arrays import IntArray, row_counts
from optsched.ordering.context import SearchContext
from optsched.ordering.problem import OrderingProblem, topological
from optsched.ordering.reduce.contraction import Contracted, contract
from optsched.ordering.reduce.modules import ModuleContraction

FLOW_BITS = 62
"""Bits of the random numbers that ops pass on."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """Contractions, at least one; each but the first is of the problem that the last one makes."""

    stages: tuple[Contracted, ...]

    @property
    def problem(self) -> OrderingProblem:
        """The smallest problem."""
        return self.stages[-1].problem

    def expand(self, order: Iterable[int]) -> list[int]:
        """Turn an order of the smallest problem into one of the first."""
        for stage in reversed(self.stages):
            order = stage.expand(order)
        return list(order)

    def gather(self, values: IntArray) -> IntArray:
        """Turn values of the first problem's ops into the largest over each op of the smallest."""
        for stage in self.stages:
            values = stage.gather(values)
        return values

    def spread(self, values: IntArray) -> IntArray:
        """Give each op of the first problem the value of the one that it is part of."""
        for stage in reversed(self.stages):
            values = stage.spread(values)
        return values

    def shrink(self, order: Iterable[int]) -> list[int]:
        """Turn an order of the first problem into one of the smallest, of at most its peak."""
        for stage in self.stages:
            order = stage.shrink(order)
        return list(order)


def _contracted(context: SearchContext, problem: OrderingProblem) -> Contracted:
    """The problem contracted, or as it is where that would take too long."""
    n = len(problem.delta)
    if n > context.effort.contract_ops:
        return Contracted(problem, tuple((v,) for v in range(n)), tuple(range(n)))
    return contract(problem, merge=context.rules.contract, check_time=context.check_time)


def reduce(context: SearchContext) -> Reduced:
    """Contract a problem, make chains of its regions, and contract it again."""
    first = _contracted(context, context.problem)
    unwanted = not context.rules.regions or len(context.problem.saving)
    if unwanted or len(first.members) > context.effort.fork_ops:
        return Reduced((first,))
    order, many = topological(first.problem), context.effort.many_ops
    forks = find_forks(first.problem, order[-many:])
    if len(order) > many:
        dense = len(forks) * context.effort.fork_distance > many
        forks = find_forks(first.problem, order) if dense else []
    if not forks:
        return Reduced((first,))
    modules = ModuleContraction(replace(context, problem=first.problem, priority=None))
    modules.contract_all(forks)
    if not modules.found:
        return Reduced((first,))
    context.statistics.regions += len(modules.found)
    chained = modules.result()
    return Reduced((first, chained, _contracted(context, chained.problem)))


def find_forks(problem: OrderingProblem, order: Sequence[int]) -> list[int]:
    """Ops with an op that all ways from them lead to, and all ways to it come from; last first.

    Each op passes on what it got, divided at random among its successors. Whoever gets the same
    is such a pair, but by chance: all else is looked at later. `order` are the last ops, or all,
    in topological order.
    """
    draw = random.Random(0)
    inside = np.zeros(len(problem.delta), np.bool_)
    inside[order] = True
    fed = row_counts(problem.pred_ptr, inside[problem.pred]) == np.diff(problem.pred_ptr)
    fed &= np.diff(problem.pred_ptr) > 0
    ptr, succ = problem.succ_ptr.tolist(), problem.succ.tolist()
    flow = dict.fromkeys(order, 0)
    for v in order:
        left, first, end = flow[v], ptr[v], ptr[v + 1]
        if not fed[v]:
            left += draw.getrandbits(FLOW_BITS)
            flow[v] = left
        for w in succ[first + 1 : end]:
            share = draw.getrandbits(FLOW_BITS)
            flow[w] += share
            left -= share
        if first < end:
            flow[succ[first]] += left
    found, later = [], set()
    for v in reversed(order):
        if ptr[v + 1] - ptr[v] > 1 and flow[v] in later:
            found.append(v)
        later.add(flow[v])
    return found
