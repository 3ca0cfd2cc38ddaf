"""Search for the simplest reason why no order has a smaller peak."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heuristics import ORDERINGS
from optsched.certificate.bounds import Claim, refute, with_precedences
from optsched.certificate.effort import DEFAULT_EFFORT
from optsched.check.steps import OrderStep
from optsched.explanation.bottleneck import Bounds, live_buffers, shrink
from optsched.explanation.data import Change, Explanation, Implied, LiveBuffer, Searched
from optsched.model.graph import Graph
from optsched.model.inplace import Pair
from optsched.model.liveness import peak_memory, running_by_op, timeline
from optsched.model.steps import Order
from optsched.ordering import OrderOutcome, closure_bound, closure_witness, solve_order
from optsched.ordering.bound.closure import Bottleneck
from optsched.ordering.bound.order_bound import OrderBound
from optsched.ordering.bound.precedences import BudgetPrecedences
from optsched.ordering.bound.witness import written_over
from optsched.ordering.context import OutOfTimeError
from optsched.runtime.clock import Clock
from optsched.runtime.limits import DEFAULT_LIMITS, Event, Limits, StopReason

CHANGES = 8
"""Number of buffers, the largest ones, for which smaller sizes are tried."""

QUICK = ("program", "lpmf", "lpmf_backward", "dfs")
"""Orderings whose orders show where to look for the bound."""

SEARCH_SHARE = 0.6
"""Share of the time for the search for an order."""

MOST_PRECEDENCES = 300
"""Maximum number of precedences in an explanation; more would not explain anything."""


def explain(
    graph: Graph, *, changes: int = CHANGES, limits: Limits | Clock | None = None
) -> Explanation:
    """Explain why no order has a peak below the best bound known, also after an interrupt.

    The effect of smaller sizes is tried for at most `changes` of the largest live buffers. Without
    `limits`, those of :func:`optsched.solve` apply. If the time does not suffice for the minimum
    peak, the explanation is of the bound proved by then.
    """
    graph.refuse_streams("explanations")
    return _Explainer(graph, changes, limits or DEFAULT_LIMITS).run()


def explain_op(graph: Graph, *, limits: Limits | Clock | None = None) -> Explanation:
    """Explain the best bound of a single op, even if a higher one is provable; without changes.

    Without `limits` all ops are looked at, else those that there is time for.
    """
    return _Explainer(graph, 0, limits or Limits()).of_op()


class _Explainer:
    """State of an explanation: the best order and bound, and the best bound from a single op."""

    def __init__(self, graph: Graph, changes: int, limits: Limits | Clock) -> None:
        self.graph, self.changes = graph, changes
        self.clock = Clock.of(limits)
        orders = [ORDERINGS[name](graph, 0) for name in QUICK]
        self.bounds = Bounds(graph, orders, self.clock)
        peaks = [peak_memory(graph, order) for order in orders]
        self.peak = min(peaks)
        self.order: Order = orders[peaks.index(self.peak)]
        self.closure = closure_bound(graph, orders, clock=self.clock)
        self.bound = self.closure.value
        self.outcome: OrderOutcome | None = None
        self.raised, self.by = 0, ""
        self.interrupted = False

    def run(self) -> Explanation:
        found = None
        # A search only if the orders at hand do not meet the bound.
        if self.peak > self.bound:
            self.solve()
        if not self.interrupted:
            try:
                found = self.reason()
            except KeyboardInterrupt:
                self.interrupted = True
        if found is None:
            # Interrupted: no sizes are tried any more.
            self.changes = 0
            found = self.of_op() if self.bound == self.closure.value else self.of_search()
        return replace(found, interrupted=self.interrupted)

    def solve(self) -> None:
        """Search for a better order and a higher bound."""
        outcome = solve_order(
            self.graph,
            limits=self.clock.share(SEARCH_SHARE),
            warm_start=np.asarray(self.order).tolist(),
            bound=self.bound,
            on_event=self.note,
        )
        self.interrupted = outcome.stop_reason is StopReason.INTERRUPTED
        self.order, self.peak, self.bound = outcome.order, outcome.peak, outcome.bound
        self.outcome = outcome

    # The last event that raised the bound names what proved it.
    def note(self, event: Event) -> None:
        """Record the step that raised the bound last."""
        if event.bound > self.raised:
            self.raised, self.by = event.bound, event.source

    def reason(self) -> Explanation:
        """Return the simplest reason for the bound."""
        if self.bound == self.closure.value:
            return self.of_op()
        try:
            # From simple to complex: one op, several ops, precedences, a search.
            found = self.of_several() or self.of_precedences()
        except OutOfTimeError:
            found = None
        return found or self.of_search()

    def of_op(self) -> Explanation:
        """Explain a bound forced by one op, or by the start or end of the graph."""
        graph, found = self.graph, self.closure
        if found.op is not None:
            return self.at_op(graph, found)
        start = graph.arrays.initial == found.value
        live = live_buffers(graph, None, () if start else range(len(graph.ops)))
        at = "start" if start else "end"
        return self.with_changes(self.describe(found.value, live, at=at), found)

    def describe(
        self,
        forced: int,
        live: tuple[LiveBuffer, ...],
        *,
        op: int | None = None,
        at: str = "op",
        shared: tuple[Pair, ...] = (),
    ) -> Explanation:
        """Return an explanation with the buffers live at the bottleneck."""
        return Explanation(
            graph=self.graph,
            bound=self.bound,
            peak=self.peak,
            op=op,
            at=at,
            forced=forced,
            buffers=live,
            shared=shared,
            op_bound=self.closure.value,
            op_bound_at=self.closure.op,
        )

    def at_op(self, graph: Graph, found: Bottleneck, *, changes: bool = True) -> Explanation:
        """Explain a bound forced by an op of the graph, or of a copy with more edges."""
        assert found.op is not None
        sides = {"before": found.before, "after": found.after}
        witness = closure_witness(graph, found.op, **sides)
        live = live_buffers(graph, found.op, witness.done, **sides)
        explanation = self.describe(witness.value, live, op=found.op, shared=witness.shared)
        return self.with_changes(explanation, found) if changes else explanation

    def with_changes(self, explanation: Explanation, found: Bottleneck) -> Explanation:
        """Add the effect of smaller buffers, for as many as time allows."""
        tried = [row.buffer for row in explanation.buffers[: self.changes]]
        done: list[Change] = []
        try:
            for buffer in tried:
                done.append(shrink(self.bounds, buffer, found))
        except OutOfTimeError:
            pass
        except KeyboardInterrupt:
            self.interrupted = True
        # The most helpful change first.
        done.sort(key=lambda change: (change.bound, change.smaller_by, change.buffer))
        return replace(explanation, changes=tuple(done), untried=len(tried) - len(done))

    def of_several(self) -> Explanation | None:
        """Explain a bound forced by one of several ops; None if no bound of the table does."""
        if not self.bounds.look_at_all():
            return None
        found = self.bounds.strongest(self.graph)
        if found.value < self.bound or not isinstance(found, OrderBound):
            return None
        self.bound = found.value
        return replace(self.at_op(self.graph, found), by=found)

    def of_precedences(self) -> Explanation | None:
        """Explain a bound by precedences that every smaller budget implies; None if impossible."""
        # The budget is one byte below the bound: it must be impossible.
        graph, budget = self.graph, self.bound - 1
        if len(graph.ops) > DEFAULT_EFFORT.flow_ops or not self.contradicts(budget):
            return None
        claim = Claim(graph, np.asarray(self.order, np.int64), budget, self.clock)
        _, steps = refute(claim)
        if steps is None:
            return None
        implied = []
        for step in steps:
            # Each precedence is an edge of the next graph, in which more is forced.
            if isinstance(step, OrderStep):
                before = (step.second,) if step.at == step.first else ()
                after = (step.first,) if step.at == step.second else ()
                forced = closure_witness(graph, step.at, before=before, after=after).value
                implied.append(Implied(step.first, step.second, step.at, forced))
                graph = with_precedences(graph, [(step.first, step.second)])
        # The known orders may violate the precedences, so they give no peaks of this graph.
        found = Bounds(graph, (), self.clock).strongest(graph)
        explanation = self.at_op(graph, found, changes=False)
        return replace(explanation, precedences=tuple(implied))

    def contradicts(self, budget: int) -> bool:
        """Return True if at most `MOST_PRECEDENCES` implied precedences refute a budget."""
        relations = BudgetPrecedences(self.bounds.problem(self.graph))
        during = running_by_op(self.graph, self.order)
        return relations.refute(budget, during) and len(relations.added) <= MOST_PRECEDENCES

    def of_search(self) -> Explanation:
        """Explain the bound by the engine's work, because no simpler reason is known."""
        graph, order = self.graph, np.asarray(self.order, np.int64)
        running = timeline(graph, order).running
        step = int(np.argmax(running))
        op, done = int(order[step]), set(order[:step].tolist())
        assert self.outcome is not None
        statistics = self.outcome.statistics
        live, shared = live_buffers(graph, op, done), written_over(graph, op, done)
        explanation = self.describe(int(running[step]), live, op=op, shared=shared)
        searched = Searched(self.by, statistics.expanded, statistics.branches, step)
        return replace(explanation, searched=searched)
