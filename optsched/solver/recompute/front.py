"""Plans for several budgets of one graph, from one planner.

Budgets are planned from the largest to the smallest, since a plan and a proof of one budget are
starts for the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from optsched.model.graph import Graph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits, StopReason
from optsched.solver.recompute.result import RecomputeResult
from optsched.solver.recompute.solve import Planner


def recompute(
    graph: Graph,
    peaks: Sequence[int],
    *,
    loss: Sequence[str] = (),
    known: Sequence[Sequence[int]] = (),
    limits: Limits | Clock,
) -> tuple[RecomputeResult, ...]:
    """Plan a graph for one or several budgets, which share plans and proofs, in the given order.

    A larger budget never has a larger extra cost. `loss` and `known` are as for :class:`Planner`.
    Budgets not yet planned share the time of `limits` that is left.
    """
    clock = Clock.of(limits)
    return plan_budgets(Planner(graph, loss, known), peaks, clock)


def plan_budgets(
    planner: Planner, peaks: Sequence[int], clock: Clock
) -> tuple[RecomputeResult, ...]:
    """Plan budgets, in bytes, with a planner that may know plans already: one result for each."""
    # Checking and showing the plans takes about half as long as making the problem did.
    clock = clock.share(1.0, reserve=0.0 if clock.counts else clock.seconds() / 2)
    found: dict[int, RecomputeResult] = {}
    todo = sorted(set(peaks), reverse=True)
    for i, peak in enumerate(todo):
        part = min(1.0, 2.0 / (len(todo) - i))
        found[peak] = planner.plan(peak, clock.share(part))
        if found[peak].stop_reason is StopReason.INTERRUPTED:
            clock.stop()
    merged = {x: planner.result(x, y.stop_reason, y.seconds) for x, y in found.items()}
    return tuple(merged[peak] for peak in peaks)
