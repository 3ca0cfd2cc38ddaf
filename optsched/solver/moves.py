"""The stages that keep plans near a baseline: few ops moved, or the fewest that are as good.

Every bound on all orders is one on those near the baseline, so the other stages run as ever; plans
and orders that move too many ops are not taken. What remains between a bound and the best plan is
for the search of :mod:`optsched.ordering.moves`, and on small graphs for the enumeration of orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optsched.errors import GraphError
from optsched.model.order_rules import Baseline
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Objective, Proof
from optsched.solver.driver import Stage
from optsched.solver.effort import DriverEffort
from optsched.solver.incumbent import PlanIncumbent
from optsched.solver.pack import WHOLE
from optsched.solver.stages import pack_order


def begin_near(best: PlanIncumbent, baseline: Baseline) -> None:
    """Offer the baseline itself, if it is an order of the graph: it moves nothing."""
    step = {v: at for at, v in enumerate(baseline.order)}
    before = best.graph.predecessors
    if all(step[u] < step[v] for v in step for u in before[v]):
        best.offer_order(baseline.order, "baseline")


def orders_near(best: PlanIncumbent, clock: Clock) -> None:
    """Find the order of least peak among those that move at most so many ops."""
    near = best.baseline
    if near is None or near.max_moved is None or best.order_done():
        return
    from optsched.ordering.improve.few_moves import lower_peak
    from optsched.ordering.moves import least_peak_within

    part = clock.share(best.effort.back_share)
    for _, order in best.best_orders(1):
        found_near = lower_peak(best.graph, near.order, order.tolist(), near.max_moved, part)
        best.offer_order(found_near, "orders near the baseline")
    known = [order.tolist() for _, order in best.best_orders(1)]
    found = least_peak_within(
        best.graph,
        near.order,
        near.max_moved,
        clock=clock,
        bound=best.peak_bound,
        known=known[0] if known else None,
    )
    if found.feasible is False:
        raise GraphError(
            f"{best.graph.name}: no order moves at most {near.max_moved} ops of the baseline, "
            f"each moves at least {found.moved_bound}"
        )
    best.raise_bound(found.bound, Proof.SEARCH, "orders near the baseline")
    if found.order is not None:
        best.offer_order(found.order, "orders near the baseline")
        best.pack(np.array(found.order, np.int64), "orders near the baseline")


def _fewest_moves(best: PlanIncumbent, clock: Clock) -> None:
    """Move ops of the best plan back to the baseline while it stays as good; bound how many."""
    near, plan = best.baseline, best.plan
    if near is None or plan is None:
        return
    from optsched.ordering.improve.few_moves import move_back
    from optsched.ordering.moves import fewest_moves

    # A slab holds no order of a larger peak.
    peak = best.peak if best.objective is Objective.PEAK else best.slab_wanted
    back_clock = clock.share(best.effort.back_share)
    back = [plan.order, *move_back(best.graph, near.order, plan.order, peak, back_clock)]
    found = fewest_moves(
        best.graph, near.order, peak, clock=clock, most=near.max_moved, known=back[-1]
    )
    best.raise_moved_bound(found.bound)
    for order in ([] if found.order is None else [found.order]) + back[:0:-1]:
        if not _improves(best, order, clock):
            break


def _improves(best: PlanIncumbent, order: Sequence[int], clock: Clock) -> bool:
    """Pack an order that moves fewer ops; whether another that moves more may still be wanted."""
    moved = best.moved_by(order)
    if moved >= best.moved or best.done():
        return False
    best.pack(np.array(order, np.int64), "fewer moves")
    if best.moved > moved and not clock.expired():
        pack_order(best, order, clock.share(best.effort.moved_share), WHOLE)
    return best.moved > moved


def _fewest_of_all_orders(best: PlanIncumbent, clock: Clock) -> None:
    """Go through the orders of a small graph that move one op more, and one more."""
    from optsched.joint import enumerate_orders

    near = best.baseline
    while near is not None and best.plan is not None and not best.done():
        room = best.slab_wanted
        if best.objective is Objective.PEAK:
            return
        found = enumerate_orders(
            best.graph,
            room,
            floor=room,
            offer=lambda plan: best.offer(plan, "all orders"),
            limits=clock,
            baseline=replace(near, max_moved=best.moved_bound),
        )
        if not found.complete or best.moved <= best.moved_bound or best.slab_wanted < room:
            return
        best.raise_moved_bound(best.moved_bound + 1)


def fewest_moves_stages(effort: DriverEffort) -> tuple[Stage[PlanIncumbent], ...]:
    """Return what follows once the objective is proved, or its time is over."""
    return (
        Stage(_fewest_moves, share=effort.fewest_share),
        Stage(_fewest_of_all_orders, most=effort.small_ops),
    )
