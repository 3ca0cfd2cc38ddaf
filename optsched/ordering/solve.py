"""Find an order of minimum peak memory, and prove it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optsched.model.graph import Graph
from optsched.ordering.context import OutOfTimeError
from optsched.ordering.effort import EFFORT, OrderingEffort
from optsched.ordering.progress import NOTHING_BEHIND, OrderProgress
from optsched.ordering.rounds import OrderingRounds
from optsched.ordering.rules import ALL_RULES, OrderingRules, Statistics
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import held_interrupts
from optsched.runtime.limits import Limits, OnEvent, Proof, StopReason

NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class OrderOutcome:
    """What is known about the minimum peak of a graph.

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
    progress
        What a later search of the graph needs to go on from there.
    """

    order: tuple[int, ...]
    peak: int
    bound: int
    proof: Proof | None
    stop_reason: StopReason
    statistics: Statistics
    progress: OrderProgress = NOTHING_BEHIND


def solve_order(
    graph: Graph,
    *,
    limits: Limits | Clock = NO_LIMITS,
    warm_start: Sequence[int] | None = None,
    bound: int = 0,
    rules: OrderingRules = ALL_RULES,
    effort: OrderingEffort = EFFORT,
    progress: OrderProgress = NOTHING_BEHIND,
    on_event: OnEvent | None = None,
) -> OrderOutcome:
    """Find an order of minimum peak memory, and prove it.

    Parameters
    ----------
    graph
        The graph.
    limits
        With one worker and no time limit the answer is a function of the input. With more, two
        threads share orders and bounds once a first search has failed.
    warm_start
        A known order; the better, the sooner the end.
    bound
        A known lower bound on the peak of every order (a closure bound: rung L2).
    rules
        What the search may use.
    effort
        How much of it.
    progress
        :attr:`OrderOutcome.progress` of an earlier search of the graph, to go on from there: best
        with its order as the warm start, and its bound. Its trees are taken at their word.
    on_event
        Told of every better order and bound.

    Returns
    -------
    OrderOutcome
        The best order and bound; on a time limit or an interrupt, as far as they got.
    """
    graph.refuse_streams("the search of orders of all ops")
    clock = Clock.of(limits)
    run = OrderingRounds(graph, clock, warm_start, bound, rules, effort, on_event, progress)
    try:
        try:
            with held_interrupts():
                reason = run.solve()
        finally:
            run.join_worker()
    except OutOfTimeError:
        reason = clock.limit_reason()
    except KeyboardInterrupt:
        reason = StopReason.INTERRUPTED
    if run.bound >= run.peak and reason is not StopReason.INTERRUPTED:
        reason = StopReason.PROVED
    run.context.collect()
    proof = run.proof if run.peak == run.bound else None
    return OrderOutcome(
        *(tuple(run.order), run.peak, run.bound, proof, reason),
        *(run.context.statistics, NOTHING_BEHIND if run.proved else run.progress()),
    )
