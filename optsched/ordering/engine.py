"""The engine: bounds, contractions, then rounds of search with growing effort."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from optsched.graph import Graph
from optsched.liveness import peak_memory
from optsched.ordering.closure import closure_bound
from optsched.ordering.contract import contract
from optsched.ordering.cuts import forced_states, topological
from optsched.ordering.interval import Interval
from optsched.ordering.kernels import explore
from optsched.ordering.model import build_net
from optsched.ordering.problem import OutOfTimeError, Problem
from optsched.ordering.rules import ALL_RULES, Rules, Statistics
from optsched.result import Event, Limits, OnEvent, Proof, StopReason

FIRST_EFFORT, EFFORT_GROWTH = 4_096, 4
"""States that each direction may store in the first round; how much more in each later one."""

NO_LIMITS = Limits()

MOST_STATES = 8_000_000
"""States that one direction may hold: about 1 GB."""


@dataclass(frozen=True, slots=True)
class OrderOutcome:
    """What is known about the least peak of a graph.

    Parameters
    ----------
    order
        The best order found.
    peak
        Its peak memory.
    bound
        No order has a smaller peak.
    proof
        What stands behind the peak if it equals the bound; else None.
    stop_reason
        Why the search ended.
    statistics
        What it did.
    """

    order: tuple[int, ...]
    peak: int
    bound: int
    proof: Proof | None
    stop_reason: StopReason
    statistics: Statistics


def solve_order(
    graph: Graph,
    *,
    limits: Limits = NO_LIMITS,
    warm_start: Sequence[int] | None = None,
    bound: int = 0,
    rules: Rules = ALL_RULES,
    on_event: OnEvent | None = None,
) -> OrderOutcome:
    """Find an order of least peak memory, and prove it.

    Parameters
    ----------
    graph
        The graph.
    limits
        Without a time limit the answer is a function of the input.
    warm_start
        A known order; the better, the sooner the end.
    bound
        A known lower bound on the peak of every order (a closure bound: rung L2).
    rules
        What the search may use.
    on_event
        Told of every better order and bound.

    Returns
    -------
    OrderOutcome
        The best order and bound; on a time limit or an interrupt, as far as they got.
    """
    run = _Run(graph, limits, warm_start, bound, rules, on_event)
    try:
        reason = run.solve()
    except OutOfTimeError:
        reason = StopReason.TIME_LIMIT
    except KeyboardInterrupt:
        reason = StopReason.INTERRUPTED
    run.problem.collect()
    proof = run.proof if run.peak == run.bound else None
    return OrderOutcome(
        tuple(run.order), run.peak, run.bound, proof, reason, run.problem.statistics
    )


class _Run:
    def __init__(
        self,
        graph: Graph,
        limits: Limits,
        warm_start: Sequence[int] | None,
        bound: int,
        rules: Rules,
        on_event: OnEvent | None,
    ) -> None:
        self.started = time.monotonic()
        deadline = None if limits.seconds is None else self.started + limits.seconds
        self.graph, self.rules, self.on_event = graph, rules, on_event
        net = build_net(graph.arrays)
        self.whole = Problem(net, graph.arrays.initial, rules, deadline)
        self.problem = self.whole
        self.problem.statistics.ops = len(graph.ops)
        order = topological(net) if warm_start is None else [int(v) for v in warm_start]
        self.order, self.peak = order, peak_memory(graph, order)
        self.bound, self.proof = bound, Proof.BOUND
        self.deadline = deadline
        self.report("warm start")

    def report(self, source: str) -> None:
        if self.on_event is not None:
            seconds = time.monotonic() - self.started
            self.on_event(Event(seconds, self.peak, self.bound, source))

    def raise_bound(self, bound: int, proof: Proof, source: str) -> None:
        """Take a better bound; nothing is above the peak of an order that is known."""
        if bound > self.bound:
            self.bound, self.proof = bound, proof
            self.report(source)

    def take_order(self, order: Sequence[int], source: str) -> None:
        """Take an order of the contracted problem if it is better."""
        full = self.small.expand(order)
        peak = peak_memory(self.graph, full)
        if peak < self.peak:
            self.order, self.peak = full, peak
            self.report(source)

    def solve(self) -> StopReason:
        found = closure_bound(self.graph, [self.order], deadline=self.deadline)
        self.whole.statistics.flows += found.flows
        self.raise_bound(found.value, Proof.BOUND, "closure bound")
        if self.bound >= self.peak:
            return StopReason.PROVED
        self.whole.check_time()
        self.small = contract(self.whole.net, merge=self.rules.contract)
        self.problem = Problem(
            self.small.net, self.whole.base, self.rules, self.deadline, self.whole.statistics
        )
        self.problem.statistics.merged = self.whole.ops - self.problem.ops
        self.take_order(self.small.shrink(self.order), "contraction")
        return self.search()

    def search(self) -> StopReason:
        states = forced_states(self.problem.net)
        if not self.rules.cuts:
            states = [states[0], states[-1]]
        self.problem.statistics.segments = len(states) - 1
        parts = [
            Interval(self.problem, low, high, self.bound, self.peak)
            for low, high in pairwise(states)
        ]
        effort = FIRST_EFFORT
        while self.bound < self.peak:
            open_parts = 0
            for part in parts:
                part.budget = max(part.budget, self.bound)
                how = part.run(effort)
                if how == explore.EXHAUSTED:
                    self.raise_bound(self.peak, Proof.SEARCH, "search")
                    return StopReason.PROVED
                self.raise_bound(min(part.budget, self.peak), Proof.SEARCH, "search")
                open_parts += how == explore.FULL
            if not open_parts:
                self.take_order([v for part in parts for v in part.moves], "search")
                break
            if effort >= MOST_STATES:
                return StopReason.EXHAUSTED
            effort = min(effort * EFFORT_GROWTH, MOST_STATES)
        return StopReason.PROVED
