"""Programs to solve: that of the graph, or that of the contracted problem of the exact search.

Example: a chain of three ops that the contraction merges is one op of the contracted program;
:meth:`ContractedGraph.expand` writes the three in their order again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from heuristics.portfolio import candidate_orders
from optsched.joint.families import ALL_FAMILIES, OrderFamilies
from optsched.joint.instance import graph_instance
from optsched.joint.order_program import OrderProgram, instance_program, problem_program
from optsched.joint.passed_states import with_passed_states
from optsched.model.graph import Graph
from optsched.ordering.bound.precedences import BudgetPrecedences, related
from optsched.ordering.bound.table import ORDER_BOUNDS
from optsched.ordering.context import OutOfTimeError, SearchContext
from optsched.ordering.problem import build_problem
from optsched.ordering.reduce.regions import Reduced, reduce
from optsched.ordering.reduce.symmetry import order_copies
from optsched.runtime.clock import Clock

HEURISTICS_SHARE = 0.5
"""Share of the time for reductions after which no further heuristic order is tried."""
LOOK_OPS = 1000
"""Maximum number of ops for which states to pass and sets are looked for: models of more ops are
too large to be solved.
"""


class WholeGraph:
    """The graph itself: the independent model. `unit` are the bytes per unit of the program."""

    bound = 0
    """Lower bound on the peak in bytes that reductions prove."""

    def __init__(self, graph: Graph) -> None:
        instance = graph_instance(graph)
        self.program, self.unit = instance_program(instance), instance.unit

    def expand(self, order: Sequence[int]) -> list[int]:
        """Return the order as it is."""
        return list(order)

    shrink = expand


class ContractedGraph:
    """The contracted problem of the exact search, with the same minimum peak.

    Identical blocks of ops pass one of their ops in line, and states that some order of minimum
    peak passes are passed.

    Raise `OutOfTimeError` if the clock expires while the graph is contracted.

    `start`: a known order. `bound`: proved lower bound on the peak in bytes; :attr:`bound` may be
    larger. `clock`: limits on time or work. `families`: families of constraints to use.
    """

    unit = 1

    def __init__(
        self,
        graph: Graph,
        start: Sequence[int],
        bound: int,
        clock: Clock,
        families: OrderFamilies = ALL_FAMILIES,
    ) -> None:
        self.families, self.bound = families, bound
        context = SearchContext(build_problem(graph.arrays), clock=clock)
        self.reduced: Reduced = reduce(context)
        context = replace(context, problem=self.reduced.problem, priority=None)
        order = self.reduced.shrink(start)
        self.copies = order_copies(context, context.families(wanted=True), context.follow(order)[1])
        self.context = self.copies.context
        self.program = problem_program(self.context.problem)
        self.known: list[list[int]] = []
        # Out of time: the program as it is, with fewer reductions, is still correct.
        with suppress(OutOfTimeError):
            self._raise_bound()
            self.look_along([start, *_heuristic_orders(graph, clock)])

    def _raise_bound(self) -> None:
        """Raise the bound by all bounds of the table, such as the last op of a set."""
        if self.families.sets and self.context.ops <= LOOK_OPS:
            above = related(self.context.problem)
            for row in ORDER_BOUNDS:
                found = row.find(self.context, above, self.bound)
                self.bound = self.bound if found is None else found.value

    def look_along(self, orders: Iterable[Sequence[int]]) -> None:
        """Pass states that some order of minimum peak passes, found along orders of the graph."""
        if self.families.passed and self.context.ops <= LOOK_OPS:
            self.known += [self.shrink(order) for order in orders]
            problem = with_passed_states(self.copies.context, self.known, self.bound)
            # From the original problem each time: states found along more orders replace the
            # earlier ones.
            self.context = replace(self.copies.context, problem=problem)
            self.program = problem_program(problem)

    def expand(self, order: Sequence[int]) -> list[int]:
        """Return the order of the graph."""
        return self.reduced.expand(order)

    def shrink(self, order: Sequence[int]) -> list[int]:
        """Return an order of the contracted problem, which need not pass the states found."""
        return self.copies.lead(self.reduced.shrink(order))

    def within(self, budget: int, order: Sequence[int], clock: Clock) -> OrderProgram | None:
        """Return the program with the precedences that a budget implies; None if it refutes it."""
        if not self.families.implied:
            return self.program
        context = replace(self.context, clock=clock)
        implied = BudgetPrecedences(context)
        with suppress(OutOfTimeError):
            if implied.refute(budget, context.during(order)):
                return None
        return problem_program(implied.problem)


def _heuristic_orders(graph: Graph, clock: Clock) -> Iterator[list[int]]:
    for _, order in candidate_orders(graph):
        if clock.spent(HEURISTICS_SHARE):
            break
        clock.spend(len(order))
        yield order.tolist()


def order_source(
    graph: Graph,
    start: Sequence[int],
    bound: int,
    clock: Clock,
    *,
    independent: bool,
    families: OrderFamilies = ALL_FAMILIES,
) -> WholeGraph | ContractedGraph:
    """Return the program to solve; the whole graph where time ends while it is contracted."""
    if not independent:
        with suppress(OutOfTimeError):
            return ContractedGraph(graph, start, bound, clock, families)
    return WholeGraph(graph)
