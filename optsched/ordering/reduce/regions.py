"""Regions: sets of ops with an order of their own that is best regardless of the ops around them.

Let `M` be a set of ops (a *module*) such that each other op runs before all ops of `M`, after all
of them, or is unrelated to all of them, and no shared buffer is used both inside and outside. Live
bytes are then a sum `g(done in M) + h(done elsewhere)`, and `g` is submodular. A step of `M` has a
*level*: its live bytes by `g` alone.

Let `D` be a downset of `M` with minimum `g`. For every level `c`, let `R(c)` be a set with minimum
`g` among those that can be reached from the start by steps of level at most `c`. These sets are
nested, the steps from one to the next stay within the next level, and the last of them is `D`. A
search that raises its budget only when no state is left, and then commits, visits exactly these
sets. Backward from the end of `M` it is the same. The resulting order is the hill-valley order of
`M` (:mod:`optsched.ordering.reduce.hill_valley`, with an example).

*Claim*: in any order of the full graph, `M` can run along its hill-valley order instead without a
higher peak. Proof: let `T` be the step at which `h` is minimum between the first and the last op of
`M`. Before `T`, whenever `M` makes a step of a new highest level `c`, run all ops up to `R(c)` at
that point: their levels are at most `c`, and `h` is the same. Between these points `M` then has no
more live bytes than in the given order. At `T`, run all ops up to `D`: the given order makes steps
of these levels as well, at `T` or later, where `h` is not smaller. After `T`, take the mirror
image. So the optimum is kept if `M` becomes a chain along its hill-valley order, in which the ops
from one `R(c)` to the next are one op.

The regions tried are the ops between an op and the first op that all paths from it lead to. Inner
regions become chains first, so the regions around them have few ops left: series-parallel graphs
are solved by this reduction alone.

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
"""Bits of the random numbers that ops pass on to their successors."""


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
        """Turn an order of the first problem into one of the smallest."""
        for stage in self.stages:
            order = stage.shrink(order)
        return list(order)


def _contracted(context: SearchContext, problem: OrderingProblem) -> Contracted:
    """Return the contracted problem; the problem itself if it has too many ops."""
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
    # A look at the last ops first tells whether regions are dense enough for the whole graph.
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
    # Chains have made new pairs that can be merged.
    return Reduced((first, chained, _contracted(context, chained.problem)))


def find_forks(problem: OrderingProblem, order: Sequence[int]) -> list[int]:
    """Return the ops at which a region probably starts, last first.

    A region starts at an op if there is a later op that all paths from it lead to, and that only
    these paths lead to. The test is random: each op splits the number that it received at random
    among its successors. The op at the end of a region receives the full number of the op at its
    start, so two ops with equal numbers are such a pair, except by chance. The caller checks each
    pair exactly. `order` are the last ops, or all ops, in topological order.
    """
    draw = random.Random(0)
    inside = np.zeros(len(problem.delta), np.bool_)
    inside[order] = True
    # An op is fed if all its predecessors are among `order`, so that its number is complete.
    fed = row_counts(problem.pred_ptr, inside[problem.pred]) == np.diff(problem.pred_ptr)
    fed &= np.diff(problem.pred_ptr) > 0
    ptr, succ = problem.succ_ptr.tolist(), problem.succ.tolist()
    flow = dict.fromkeys(order, 0)
    for v in order:
        left, first, end = flow[v], ptr[v], ptr[v + 1]
        if not fed[v]:
            # A predecessor outside `order` would have passed on an unknown number.
            left += draw.getrandbits(FLOW_BITS)
            flow[v] = left
        for w in succ[first + 1 : end]:
            share = draw.getrandbits(FLOW_BITS)
            flow[w] += share
            left -= share
        if first < end:
            # The first successor gets the rest, so the parts add up to the full number.
            flow[succ[first]] += left
    found, later = [], set()
    # Backward, so that `later` has the numbers of all ops after this one.
    for v in reversed(order):
        if ptr[v + 1] - ptr[v] > 1 and flow[v] in later:
            found.append(v)
        later.add(flow[v])
    return found
