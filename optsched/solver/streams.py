"""Stages of solve() for ops on several streams: bounds, orders of the streams, their packings.

Offsets are found as for one stream: buffers that conflict without sharing a step are kept apart.
"""

from __future__ import annotations

from optsched.model.pools import address_limit
from optsched.model.steps import Order
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Objective, Proof
from optsched.solver.effort import ORDERS
from optsched.solver.features import Feature
from optsched.solver.finding import Finding, peak_bound, slab_bound
from optsched.solver.joint_stages import refuse_without_plan
from optsched.solver.known import Known
from optsched.solver.order_packing import Findings, found_orders, pack_quickly
from optsched.solver.resume import Resume


def only_order(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Bound the peak by that of the only order that edges leave to each stream."""
    if len(known.orders):
        peak = known.best_orders(1)[0][0]
        yield Finding("only order", bounds=peak_bound(peak, Proof.BOUND))


def one_at_a_time(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Bound all orders of the streams by the least peak of ops that run one at a time.

    One possible execution of streams runs one op at a time, in some order of all ops that keeps the
    order within each stream, the syncs and hence all dependencies. Buffers that are live at one
    step of this execution conflict. Therefore the slab and the peak of the streams are at least the
    minimum peak of a single stream. They may be well above it, since ops that run side by side add
    conflicts; buffers that conflict in every order give a second bound. The order found is a good
    start for the streams.
    """
    if known.order_done() or not len(known.orders):
        return
    from optsched.ordering import closure_bound, solve_order
    from optsched.ordering.bound.forced_conflicts import forced_conflict_bound

    graph, order = known.graph.without_streams(), known.best_orders(1)[0][1]
    part = clock.share(ORDERS.closure_share)
    bound = closure_bound(graph, [order], clock=part).value
    yield Finding("closure bound", bounds=peak_bound(bound, Proof.BOUND))
    forced = forced_conflict_bound(known.graph)
    yield Finding("conflicts in every order", bounds=peak_bound(forced.value, Proof.BOUND))
    if known.order_done():
        return
    # One op at a time is the simpler question, with the engine that is exact for it.
    outcome = solve_order(graph, limits=clock, warm_start=order.tolist(), bound=bound)
    yield Finding("one at a time", bounds=peak_bound(outcome.bound, outcome.proof))
    yield from found_orders(known, "one at a time", outcome.order)
    outcome.stop_reason.raise_if_interrupted()


def stream_walk(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Lower the bytes that conflict by other orders of the streams."""
    from heuristics.orderings.streams import stream_orders

    if known.order_done() or not len(known.orders):
        return
    # Another seed in each round, as a walk with the same one would repeat itself.
    resume.searches += 1
    peak, start = known.best_orders(1)[0]
    seed = known.clock.limits.seed + resume.searches
    for order in stream_orders(known.graph, start, seed=seed):
        clock.spend(len(order))
        yield from found_orders(known, "stream order", order)
        if known.order_done() or clock.expired():
            break
    if known.best_orders(1)[0][0] < peak:
        yield from pack_quickly(known, known.best_orders(1)[0][1], "stream order")
    yield Finding("stream order", more=not known.order_done())


def all_stream_orders(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Pack or refute each order of a small graph's streams.

    If only the peak is minimized, any plan will do; without one, orders are packed, too.
    """
    from optsched.joint.stream_orders import enumerate_stream_orders

    is_peak = Feature.PEAK & known.features and known.plan is not None
    objective = Objective.PEAK if is_peak else Objective.SLAB
    room = address_limit(known.graph)
    below = room if known.plan is None else (known.value() or 0) - 1
    below = below if known.capacity is None else min(known.capacity, below)
    # Merged at once, since the enumeration takes long and a progress line waits for its plans.
    found = enumerate_stream_orders(
        known.graph,
        below,
        objective=objective,
        offer=lambda plan: known.merge(Finding("all orders", plans=(plan,))),
        offer_order=lambda order: merge_order(known, order, "all orders"),
        limits=clock,
    )
    if found.complete and known.plan is None:
        refuse_without_plan(known, below, room)
    if found.complete:
        yield Finding("all orders", bounds=peak_bound(found.least_peak))
    if found.complete and objective is Objective.SLAB:
        yield Finding("all orders", bounds=slab_bound(found.refuted + 1))


def merge_order(known: Known, order: Order, source: str) -> None:
    """Merge an order that an engine reports, and the plans that heuristic packers make of it."""
    known.merge(Finding(source, orders=(order,)))
    for finding in pack_quickly(known, order, source):
        known.merge(finding)
