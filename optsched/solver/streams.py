"""The stages of solve() for ops on several streams: bounds, orders of the streams, their packings.

Offsets are found as for one stream: what conflicts without meeting in a step is kept apart.
"""

from __future__ import annotations

import numpy as np

from optsched.model.steps import Order
from optsched.model.streams import has_one_order
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Objective, Proof
from optsched.solver import stages
from optsched.solver.driver import Feature, Stage
from optsched.solver.effort import EFFORT
from optsched.solver.incumbent import PlanIncumbent


def only_order(best: PlanIncumbent, clock: Clock) -> None:
    """Where edges leave each stream one order, its peak is the least, and its packings are all."""
    if best.candidates and has_one_order(best.graph):
        best.is_only_order = True
        best.raise_bound(best.best_orders(1)[0][0], Proof.BOUND, "only order")


def one_at_a_time(best: PlanIncumbent, clock: Clock) -> None:
    """Let the ops run one after another: what that takes is a bound on all orders of the streams.

    An order of the streams, and a plan for it, allow the ops to run one at a time, in an order of
    all ops that keeps those of the streams and the syncs, and so all dependencies. Whatever is live
    at once then conflicts. So neither the slab nor the peak on streams is below the least peak of
    one stream. It may be well above, since ops that run side by side conflict more: what conflicts
    in every order is a bound besides. The order found is where the streams' orders may begin.
    """
    if best.order_done() or not best.candidates:
        return
    from optsched.ordering import closure_bound, solve_order
    from optsched.ordering.bound.forced_conflicts import forced_conflict_bound

    graph, order = best.graph.without_streams(), best.best_orders(1)[0][1]
    part = clock.share(best.effort.closure_share)
    bound = closure_bound(graph, [order], clock=part).value
    best.raise_bound(bound, Proof.BOUND, "closure bound")
    forced = forced_conflict_bound(best.graph)
    best.raise_bound(forced.value, Proof.BOUND, "conflicts in every order")
    if best.order_done():
        return
    outcome = solve_order(graph, limits=clock, warm_start=order.tolist(), bound=bound)
    best.raise_bound(outcome.bound, outcome.proof or Proof.SEARCH, "one at a time")
    best.offer_order(outcome.order, "one at a time")
    outcome.stop_reason.raise_if_interrupted()


def stream_walk(best: PlanIncumbent, clock: Clock) -> bool:
    """Lower the bytes that conflict, by other orders in the streams."""
    from heuristics.orderings.streams import stream_orders

    if best.order_done() or not best.candidates:
        return False
    best.searches += 1
    peak, start = best.best_orders(1)[0]
    seed = best.clock.limits.seed + best.searches
    for order in stream_orders(best.graph, start, seed=seed):
        clock.spend(len(order))
        best.offer_order(order, "stream order")
        if best.order_done() or clock.expired():
            break
    if best.best_orders(1)[0][0] < peak:
        best.pack(best.best_orders(1)[0][1], "stream order")
    return not best.order_done()


def all_stream_orders(best: PlanIncumbent, clock: Clock) -> None:
    """Pack or refute each order of a small graph's streams."""
    from optsched.joint.stream_orders import enumerate_stream_orders

    if best.plan is None:
        return
    asked = Objective.PEAK if Feature.PEAK & best.features else Objective.SLAB
    below = (best.value() or 0) - 1

    def offer_order(order: Order) -> None:
        best.offer_order(order, "all orders")
        best.pack(np.asarray(order, np.int64), "all orders")

    found = enumerate_stream_orders(
        best.graph,
        below if best.capacity is None else min(best.capacity, below),
        objective=asked,
        offer=lambda plan: best.offer(plan, "all orders"),
        offer_order=offer_order,
        limits=clock,
    )
    if found.complete:
        best.raise_bound(found.least_peak, Proof.SEARCH, "all orders")
    if found.complete and asked is Objective.SLAB:
        best.refute_slab(found.refuted, "all orders")


STREAM_STAGES: tuple[Stage[PlanIncumbent], ...] = (
    Stage(stages.heuristic_orders),
    Stage(only_order),
    Stage(stages.pack_before_search),
    Stage(one_at_a_time, share=EFFORT.one_stream_share),
    Stage(stream_walk, share=EFFORT.walk_share),
    Stage(stages.first_packing, share=EFFORT.first_packing_share),
    Stage(all_stream_orders, share=EFFORT.all_orders_share, most=EFFORT.small_ops),
)
"""Run once in turn; the walk and the last packing are repeated after them."""
