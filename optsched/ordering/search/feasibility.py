"""Feasibility: decide whether an order within a budget exists, by precedences, then by search.

Three methods, cheapest first: the precedences that the budget implies may contradict each other; a
tree of assumed precedences may be refuted completely; and the states of the problem may be
searched. The implied precedences become edges, after which the problem can be contracted further,
so the search has fewer ops. The strengthened problem and the tree of each budget are kept: a later
round with more effort resumes them.

Example: within 10 bytes, `u` and `v` of :mod:`optsched.ordering.bound.precedences` must run as `v`,
`u`. That is one edge; if it closes a cycle no order is within 10 bytes, and the bound is 11.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.bound.precedences import BudgetPrecedences
from optsched.ordering.context import SearchContext
from optsched.ordering.kernels import explore
from optsched.ordering.problem import forced_cuts
from optsched.ordering.progress import OpenTree
from optsched.ordering.reduce.contraction import Contracted, contract
from optsched.ordering.search.segment import Segment
from optsched.ordering.tree import PrecedenceTree

OnBound = Callable[[int], None]
"""Called with a lower bound on the peak of every order."""


@dataclass(frozen=True, slots=True)
class Feasibility:
    """Answer about a budget: refuted, an order within it, or neither."""

    refuted: bool
    """True if no order is within the budget."""
    order: list[int] | None = None
    """An order of minimum peak, if it is known."""


UNKNOWN = Feasibility(refuted=False)


def search_all(
    context: SearchContext,
    bound: int,
    ceiling: int,
    states: int,
    on_bound: OnBound,
    order: Sequence[int] = (),
) -> Feasibility:
    """Search the states of a problem for an order of minimum peak below the ceiling.

    A known `order` shortens the search. Only the stretch in which that order exceeds the bound is
    searched, between the nearest states on both sides that all orders pass; the steps outside are
    taken from the known order.
    """
    first, end = 0, context.ops
    if len(order):
        # Steps within the bound cannot be improved on, so only those above it are searched.
        above = np.flatnonzero(context.follow(order)[1] > bound)
        cuts = forced_cuts(context.problem, order)
        first, end = int(cuts[cuts <= above[0]].max()), int(cuts[cuts > above[-1]].min())
    low, high = np.zeros(context.ops, np.bool_), np.ones(context.ops, np.bool_)
    low[list(order[:first])], high[list(order[end:])] = True, False
    segment = Segment(context, low, high, bound, ceiling)
    how = segment.run(states)
    if how == explore.EXHAUSTED:
        return Feasibility(refuted=True)
    # Even an unfinished search has proved its present budget.
    on_bound(segment.budget)
    if how != explore.REACHED:
        return UNKNOWN
    return Feasibility(refuted=False, order=[*order[:first], *segment.moves, *order[end:]])


class FeasibilitySearch:
    """Answers for one problem and many budgets; what a budget implies is kept.

    `context`: the problem. `during`: live bytes while each op runs in some good order: where to
    look first. `failures`: as :class:`PrecedenceTree` takes it: what an earlier search of the
    problem has met. `earlier`: the trees that it left, by their budgets.
    """

    def __init__(
        self,
        context: SearchContext,
        during: IntArray,
        failures: IntArray,
        earlier: Mapping[int, OpenTree],
    ) -> None:
        self.context = context
        self.during = during
        self.known: dict[int, tuple[SearchContext, Contracted] | None] = {}
        self.trees: dict[int, PrecedenceTree] = {}
        self.earlier = dict(earlier)
        # A copy: two workers must not count in one array.
        self.failures = failures.copy()
        self.latest: PrecedenceTree | None = None
        self.shared: tuple[PrecedenceTree, PrecedenceTree] | None = None

    def refutes(self, budget: int) -> bool:
        """Return True if the precedences that a budget implies refute it."""
        if budget not in self.known:
            self.known[budget] = self.strengthen(budget)
        return self.known[budget] is None

    def strengthen(self, budget: int) -> tuple[SearchContext, Contracted] | None:
        """Return the problem with the precedences that a budget implies; None if refuted."""
        context = self.context
        split = context.rules.split and context.ops <= context.effort.branch_ops
        tree = self.reopen(budget) if split else None
        problem = context.problem
        if tree is None:
            precedences = BudgetPrecedences(context)
            # A tree asks less of an op with in-place savings.
            if (len(problem.saving) or not split) and precedences.refute(budget, self.during):
                return None
            problem, implied = precedences.problem, precedences.added
            if split:
                tree = PrecedenceTree(context, budget, self.during, self.failures, implied=implied)
        if tree is not None:
            if tree.settled:
                return None
            self.trees[budget] = tree
            problem = tree.strengthened()
        small = contract(problem, merge=context.rules.contract, check_time=context.check_time)
        priority = small.gather(self.during)
        return replace(context, problem=small.problem, priority=priority), small

    def reopen(self, budget: int) -> PrecedenceTree | None:
        """Return the unfinished tree of a budget from an earlier search; None without one."""
        left = self.earlier.get(budget)
        if left is None:
            return None
        tree = None
        # A damaged tree is dropped, and a new one started.
        with suppress(ValueError):
            tree = PrecedenceTree.reopen(self.context, self.during, self.failures, left)
        del self.earlier[budget]
        return tree

    def decide(self, budget: int, bound: int, states: int, on_bound: OnBound) -> Feasibility:
        """Look for an order of minimum peak within a budget."""
        # Budgets below the bound are refuted, so their trees are not needed any more.
        for settled in [known for known in self.trees if known < bound]:
            del self.trees[settled]
        if self.refutes(budget):
            return Feasibility(refuted=True)
        strong = self.known[budget]
        assert strong is not None
        context, small = strong
        if budget in self.trees:
            # Moved to the end: the latest tree is the first to be kept for a later search.
            self.latest = self.trees[budget] = self.trees.pop(budget)
            answer = self.grow(self.latest, states)
            if answer is not UNKNOWN:
                return answer
        answer = search_all(context, bound, budget + 1, states, on_bound)
        context.collect()
        if answer.order is None:
            return answer
        return Feasibility(refuted=False, order=small.expand(answer.order))

    def begun(self, budget: int, bound: int) -> int:
        """Return a budget with an unfinished tree in the upper half of the range, or `budget`."""
        low = bound + (budget - bound) // 2
        known = (*self.trees, *self.earlier)
        return max((begun for begun in known if low <= begun < budget), default=budget)

    def take_work(self, other: FeasibilitySearch, states: int) -> tuple[int, Feasibility]:
        """Take parts of the tree that another worker is at; return its budget and the answer."""
        theirs = other.latest
        if theirs is None or theirs.settled:
            time.sleep(self.context.effort.poll_seconds)
            return 0, UNKNOWN
        if self.shared is None or self.shared[0] is not theirs:
            self.shared = theirs, theirs.share(self.context)
        tree = self.shared[1]
        return tree.budget, self.grow(tree, states)

    def grow(self, tree: PrecedenceTree, states: int) -> Feasibility:
        """Look at more branches of a tree, if it has a part that no other worker is using."""
        for _ in range(self.context.effort.polls):
            if tree.settled or tree.take_part():
                break
            # The worker with the last part divides it when it sees that another worker waits.
            time.sleep(self.context.effort.poll_seconds)
            self.context.check_time()

        def search(strong: SearchContext) -> list[int] | bool:
            small = contract(strong.problem, merge=strong.rules.contract)
            part = replace(strong, problem=small.problem, priority=small.gather(self.during))
            # A branch is not the whole problem, so its bounds are not reported.
            found = search_all(part, 0, tree.budget + 1, part.effort.branch_states, lambda _: None)
            part.collect()
            return found.refuted if found.order is None else small.expand(found.order)

        found = tree.run(states // self.context.effort.states_per_branch, search)
        if isinstance(found, list):
            return Feasibility(refuted=False, order=found)
        return Feasibility(refuted=True) if found else UNKNOWN
