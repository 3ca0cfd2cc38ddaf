"""Entry point of the exact ordering engine: an order of minimum peak memory, with proof.

The work is done by :mod:`optsched.ordering.rounds`; this module turns time limits and interrupts
into an outcome, so that the best order and bound are returned however the search ends.

Example: a fork of two branches. Contraction, bounds and a short search prove the peak; with a time
limit that is too short the outcome has an order, a smaller bound and the stop reason `time limit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optsched.model.graph import Graph
from optsched.ordering.context import OutOfTimeError
from optsched.ordering.effort import EFFORT, OrderingEffort
from optsched.ordering.progress import NOTHING_DONE, OrderProgress
from optsched.ordering.rounds import OrderingRounds
from optsched.ordering.rules import ALL_RULES, OrderingRules, Statistics
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import held_interrupts
from optsched.runtime.limits import Limits, OnEvent, Proof, StopReason

NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class OrderOutcome:
    """The best order of a graph that was found, with a lower bound on the peak."""

    order: tuple[int, ...]
    """Op ids of the best order found."""
    peak: int
    """Peak memory of that order, in bytes."""
    bound: int
    """Lower bound on the peak of every order, in bytes."""
    proof: Proof | None
    """Kind of proof of the bound if it equals the peak; else None."""
    stop_reason: StopReason
    """Why the search ended."""
    statistics: Statistics
    """Counters of the search."""
    progress: OrderProgress = NOTHING_DONE
    """State of the search, from which a later one can resume."""


def solve_order(
    graph: Graph,
    *,
    limits: Limits | Clock = NO_LIMITS,
    warm_start: Sequence[int] | None = None,
    bound: int = 0,
    rules: OrderingRules = ALL_RULES,
    effort: OrderingEffort = EFFORT,
    progress: OrderProgress = NOTHING_DONE,
    on_event: OnEvent | None = None,
) -> OrderOutcome:
    """Find an order of minimum peak memory, and prove that it is one.

    Raise `UsageError` if the graph has several streams.

    Parameters
    ----------
    graph
        The graph, on one stream.
    limits
        With one worker and no time limit the answer is a function of the input. With more workers,
        two threads share orders and bounds once a first search has failed.
    warm_start
        A known order; the better it is, the sooner the search ends.
    bound
        A known lower bound on the peak of every order, in bytes (for example the closure bound).
    rules
        Rules that the search may use.
    effort
        Limits on the work of each rule.
    progress
        :attr:`OrderOutcome.progress` of an earlier search of the graph, to resume from; best with
        the order of that search as the warm start, and its bound. The trees are not verified: they
        must come from a search of the same graph.
    on_event
        Called with every better order and bound.

    Returns
    -------
    OrderOutcome
        The best order and bound; after a time limit or an interrupt, the best ones so far.

    Examples
    --------
    >>> from optsched import GraphBuilder
    >>> builder = GraphBuilder("two")
    >>> builder.op("other", writes={"o": 6})
    >>> builder.op("big", writes={"b": 8})
    >>> builder.op("shrink", reads=["b"], writes={"s": 1})
    >>> builder.output("o", "s")
    >>> graph = builder.build()
    >>> outcome = solve_order(graph)
    >>> [graph.ops[v].name for v in outcome.order], outcome.peak, outcome.bound
    (['big', 'shrink', 'other'], 9, 9)
    """
    graph.refuse_streams("the search of orders of all ops")
    clock = Clock.of(limits)
    run = OrderingRounds(graph, clock, warm_start, bound, rules, effort, on_event, progress)
    try:
        try:
            with held_interrupts():
                reason = run.solve()
        finally:
            # The worker is joined on every way out, or its bound would be lost.
            run.join_worker()
    except OutOfTimeError:
        reason = clock.limit_reason()
    except KeyboardInterrupt:
        reason = StopReason.INTERRUPTED
    # The proof may have come from the second worker, after the first ran out of time.
    if run.bound >= run.peak and reason is not StopReason.INTERRUPTED:
        reason = StopReason.PROVED
    run.context.collect()
    proof = run.proof if run.peak == run.bound else None
    return OrderOutcome(
        *(tuple(run.order), run.peak, run.bound, proof, reason),
        *(run.context.statistics, NOTHING_DONE if run.proved else run.progress()),
    )
