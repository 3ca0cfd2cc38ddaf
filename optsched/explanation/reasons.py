"""Find the simplest reason why no order has a smaller peak."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from heuristics import ORDERINGS
from optsched.certificate.bounds import refute
from optsched.certificate.effort import DEFAULT_EFFORT
from optsched.check.steps import OrderStep, SetStep
from optsched.explanation.bottleneck import Bottleneck, Bounds
from optsched.explanation.data import Change, Explanation, Group, Implied, Searched
from optsched.explanation.live import live_buffers
from optsched.explanation.smaller import shrink
from optsched.model.graph import Graph
from optsched.model.liveness import Order, peak_memory, timeline
from optsched.ordering import OrderOutcome, closure_bound, closure_witness, solve_order
from optsched.ordering.bound.precedences import BudgetPrecedences
from optsched.ordering.bound.witness import written_over
from optsched.ordering.context import OutOfTimeError, SearchContext
from optsched.ordering.problem import build_problem
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Event, Limits, StopReason
from optsched.solver.result import DEFAULT_LIMITS

CHANGES = 8
"""Buffers that are tried for what a smaller one would bring: the largest ones."""

QUICK = ("program", "lpmf", "lpmf_backward", "dfs")
"""Orderings whose orders say where to look for the bound."""

SEARCH_SHARE = 0.6
"""Part of the time that the search for an order may take."""

MOST_PRECEDENCES = 300
"""More of them are no explanation."""


def explain(graph: Graph, *, changes: int = CHANGES, limits: Limits | None = None) -> Explanation:
    """Say why no order has a smaller peak than the best bound known.

    Parameters
    ----------
    graph
        The graph.
    changes
        So many of the largest live buffers are tried smaller.
    limits
        Time, workers and seed; as for :func:`optsched.solve` if None. Where the time is too short
        for the minimum peak, the bound that was proved is explained.

    Returns
    -------
    Explanation
        Of what an interrupt left known, if there was one.
    """
    return _Explainer(graph, changes, limits or DEFAULT_LIMITS).run()


def explain_op(graph: Graph) -> Explanation:
    """Explain the most that a single op forces, even where more can be proved; without changes."""
    explainer = _Explainer(graph, 0, Limits())
    return explainer.of_op(explainer.begin())


@dataclass(slots=True)
class _Known:
    """The best order and bound, and what one op forces."""

    order: Order
    peak: int
    bound: int
    closure: Bottleneck
    outcome: OrderOutcome | None = None


class _Explainer:
    def __init__(self, graph: Graph, changes: int, limits: Limits) -> None:
        self.graph, self.changes = graph, changes
        self.clock = Clock.of(limits)
        self.orders = [ORDERINGS[name](graph, 0) for name in QUICK]
        self.bounds = Bounds(graph, self.orders, self.clock)
        self.raised, self.by = 0, ""
        self.interrupted = False

    def run(self) -> Explanation:
        known, found = self.solve(), None
        if not self.interrupted:
            try:
                found = self.reason(known)
            except KeyboardInterrupt:
                self.interrupted = True
        if found is None:
            self.changes = 0
            simple = known.bound == known.closure.value
            found = self.of_op(known) if simple else self.of_search(known)
        return replace(found, interrupted=self.interrupted)

    def reason(self, known: _Known) -> Explanation:
        """The simplest reason for a bound, found out without haste."""
        if known.bound == known.closure.value:
            return self.of_op(known)
        try:
            found = self.find_set(known)
            if found is not None:
                return self.of_set(known, found)
            implied = self.of_precedences(known)
        except OutOfTimeError:
            implied = None
        return implied or self.of_search(known)

    def begin(self) -> _Known:
        """The best of quick orders, and what one op forces."""
        peaks = [peak_memory(self.graph, order) for order in self.orders]
        peak = min(peaks)
        order = self.orders[peaks.index(peak)]
        found = closure_bound(self.graph, self.orders, clock=self.clock)
        closure = Bottleneck(found.value, found.op)
        return _Known(order, peak, found.value, closure)

    def solve(self) -> _Known:
        """Find out what can be proved."""
        known = self.begin()
        if known.peak == known.bound:
            return known
        outcome = solve_order(
            self.graph,
            limits=self.clock.share(SEARCH_SHARE),
            warm_start=np.asarray(known.order).tolist(),
            bound=known.bound,
            on_event=self.note,
        )
        self.interrupted = outcome.stop_reason is StopReason.INTERRUPTED
        return _Known(outcome.order, outcome.peak, outcome.bound, known.closure, outcome)

    def note(self, event: Event) -> None:
        """Remember what raised the bound last."""
        if event.bound > self.raised:
            self.raised, self.by = event.bound, event.source

    def of_op(self, known: _Known) -> Explanation:
        """One op forces the bound, or an end of the graph does."""
        graph, found = self.graph, known.closure
        if found.op is not None:
            return self.at_op(known, graph, found)
        start = graph.arrays.initial == found.value
        done = set[int]() if start else set(range(len(graph.ops)))
        explanation = Explanation(
            graph=self.graph,
            bound=found.value,
            peak=known.peak,
            op=None,
            at="start" if start else "end",
            forced=found.value,
            buffers=live_buffers(graph, None, done),
            shared=(),
            op_bound=found.value,
            op_bound_at=None,
        )
        return self.with_changes(explanation, found)

    def at_op(
        self, known: _Known, graph: Graph, found: Bottleneck, *, changes: bool = True
    ) -> Explanation:
        """An op forces the bound of a graph: as it is, or with more edges."""
        assert found.op is not None
        before, after = found.before, found.after
        witness = closure_witness(graph, found.op, before=before, after=after)
        explanation = Explanation(
            graph=self.graph,
            bound=known.bound,
            peak=known.peak,
            op=found.op,
            at="op",
            forced=witness.value,
            buffers=live_buffers(graph, found.op, witness.done, before=before, after=after),
            shared=witness.shared,
            op_bound=known.closure.value,
            op_bound_at=known.closure.op,
        )
        return self.with_changes(explanation, found) if changes else explanation

    def with_changes(self, explanation: Explanation, found: Bottleneck) -> Explanation:
        """Add what a smaller buffer would bring, for as many as there is time for."""
        tried = [row.buffer for row in explanation.buffers[: self.changes]]
        done: list[Change] = []
        try:
            for buffer in tried:
                done.append(shrink(self.bounds, buffer, found))
        except OutOfTimeError:
            pass
        except KeyboardInterrupt:
            self.interrupted = True
        done.sort(key=lambda change: (change.bound, change.smaller_by, change.buffer))
        return replace(explanation, changes=tuple(done), untried=len(tried) - len(done))

    def find_set(self, known: _Known) -> Bottleneck | None:
        """Return a set that gives the bound."""
        if not self.bounds.look_at_sets():
            return None
        found = self.bounds.strongest(self.graph)
        return found if found.value >= known.bound else None

    def of_set(self, known: _Known, found: Bottleneck) -> Explanation:
        """The last op of a set forces the bound, or the first."""
        known.bound = found.value
        candidates = self.bounds.candidates(self.graph, found.ops, last=found.last)
        group = Group(found.ops, found.last, candidates)
        return replace(self.at_op(known, self.graph, found), group=group)

    def of_precedences(self, known: _Known) -> Explanation | None:
        """Precedences that every smaller budget implies, and what forces the bound with them."""
        graph, budget = self.graph, known.bound - 1
        if len(graph.ops) > DEFAULT_EFFORT.flow_ops or not self.contradicts(known.order, budget):
            return None
        _, steps = refute(graph, np.asarray(known.order, np.int64), budget, self.clock)
        if steps is None:
            return None
        implied = []
        for step in steps:
            if isinstance(step, OrderStep):
                before = (step.second,) if step.at == step.first else ()
                after = (step.first,) if step.at == step.second else ()
                forced = closure_witness(graph, step.at, before=before, after=after).value
                implied.append(Implied(step.first, step.second, step.at, forced))
                graph = with_precedence(graph, step.first, step.second)
        last, group = steps[-1], None
        # The orders known may not keep the precedences, so they say nothing of this graph.
        bounds = Bounds(graph, (), self.clock)
        if isinstance(last, SetStep):
            bounds.look_at_sets()
            found = bounds.of_set(graph, last.ops, last=last.last)
            group = Group(last.ops, last.last, bounds.candidates(graph, last.ops, last=last.last))
        else:
            found = bounds.strongest(graph)
        explanation = self.at_op(known, graph, found, changes=False)
        return replace(explanation, group=group, precedences=tuple(implied))

    def contradicts(self, order: Order, budget: int) -> bool:
        """Whether few precedences that a budget implies refute it; found without any witness."""
        net = build_problem(self.graph.arrays)
        problem = SearchContext(net, self.graph.arrays.initial, clock=self.clock)
        relations = BudgetPrecedences(problem)
        during = np.empty(len(self.graph.ops), np.int64)
        during[np.asarray(order, np.int64)] = timeline(self.graph, order).running
        return relations.refute(budget, during) and len(relations.added) <= MOST_PRECEDENCES

    def of_search(self, known: _Known) -> Explanation:
        """Nothing simpler is known than what the engine did."""
        graph, order = self.graph, np.asarray(known.order, np.int64)
        running = timeline(graph, order).running
        step = int(np.argmax(running))
        op, done = int(order[step]), set(order[:step].tolist())
        assert known.outcome is not None
        statistics = known.outcome.statistics
        return Explanation(
            graph=graph,
            bound=known.bound,
            peak=known.peak,
            op=op,
            at="op",
            forced=int(running[step]),
            buffers=live_buffers(graph, op, done),
            shared=written_over(graph, op, done),
            op_bound=known.closure.value,
            op_bound_at=known.closure.op,
            searched=Searched(self.by, statistics.expanded, statistics.branches, step),
        )


def with_precedence(graph: Graph, first: int, second: int) -> Graph:
    """Return the graph with a control edge more."""
    op = graph.ops[second]
    op = replace(op, control=(*op.control, first))
    return replace(graph, ops=(*graph.ops[:second], op, *graph.ops[second + 1 :]))
