"""Stages of solve() that choose orders and offsets together: by enumeration, CP-SAT or MILP."""

from __future__ import annotations

import numpy as np

from optsched.errors import GraphError, UsageError
from optsched.model.elements import MAX_ADDRESS
from optsched.model.limits import upper_limits
from optsched.model.pools import address_limit
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Objective, Proof
from optsched.solver.effort import JOINT, PACKING
from optsched.solver.features import Feature
from optsched.solver.finding import Bound, Finding, slab_bound
from optsched.solver.known import Known
from optsched.solver.order_packing import (
    Findings,
    before_last_packing,
    found_orders,
    left_before_last_packing,
    pack_order,
    pack_quickly,
)
from optsched.solver.packing_stages import CONTINUED
from optsched.solver.resume import Resume

OTHER_ORDERS_LACK = Feature.INPLACE | Feature.POOLS | Feature.PEAK | Feature.MOVES
"""Features that the packing of other orders cannot handle."""


def all_orders(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Pack or refute each order of a small graph: a proof if the slab exceeds the peak.

    If only the peak is minimized, any plan will do; without one, pins may clash in every order, or
    upper limits be missed.
    """
    from optsched.joint import enumerate_orders

    if Feature.PEAK & known.features and known.plan is not None:
        return
    # With as much room as `address_limit`, only clashing pins and upper limits can refute an order.
    room = address_limit(known.graph)
    below = room if known.plan is None else known.measured.slab - 1
    # Only a slab below that of the best plan is of interest; with a capacity, any slab within it.
    below = below if known.capacity is None else min(known.capacity, room)
    found = enumerate_orders(
        known.graph,
        below,
        floor=known.slab_bound,
        offer=lambda plan: known.merge(Finding("all orders", plans=(plan,))),
        limits=clock,
        baseline=known.question.near,
    )
    if found.complete and known.plan is None:
        refuse_without_plan(known, below, room)
    if found.complete:
        # All orders were packed or refuted within this slab, so the next byte is a bound.
        yield Finding("all orders", bounds=slab_bound(found.refuted + 1))


def refuse_without_plan(known: Known, below: int, room: int) -> None:
    """Raise GraphError if no order has a packing within `room`, which is enough for any."""
    name = known.graph.name
    if below > MAX_ADDRESS:
        pinned = any(buffer.pin is not None for buffer in known.graph.buffers)
        clash = "has buffers pinned onto each other, or " if pinned else ""
        raise GraphError(f"{name}: every order {clash}takes more than 2**63 - 1 bytes")
    if below == room:
        is_limited = bool((upper_limits(known.graph) < MAX_ADDRESS).any())
        missed = " or miss an upper limit" if is_limited else ""
        raise GraphError(f"{name}: buffers are pinned onto each other{missed} in every order")


def other_orders(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Pack other orders of minimum peak, each for a short while, and then orders above it.

    The end of the time is kept for packing the best plan's own order, unless that is done.
    """
    from optsched.joint import other_plans

    if known.plan is None:
        return
    # At the end of the time no packing stage is left that would search the best order again.
    is_late = left_before_last_packing(known) == 0.0
    clock = before_last_packing(known, resume, clock)
    orders = [(known.measured.peak, np.array(known.plan.order, np.int64))]
    orders += known.best_orders(PACKING.packed_orders)
    # No order has a peak below the bound, and orders of least peak are tried first.
    room = max(known.peak_bound, min(peak for peak, _ in orders))
    if known.capacity is not None:
        room = known.capacity
    elif room >= known.measured.slab:
        # Only an order of smaller peak could lower the slab.
        return
    part, before = clock.share(PACKING.least_peak_share), len(resume.seen)
    while not known.done():
        slab, seen = known.measured.slab, len(resume.seen)
        # A walk from an order above the room would have to lower the peak first.
        starts = [order for peak, order in orders if peak <= room]
        if not starts:
            break
        for plan in other_plans(
            known.graph, starts, room, bound=known.peak_bound, limits=part, seen=resume.seen
        ):
            yield Finding("other order", plans=(plan,))
            # The new order is the best start for the next walk.
            orders.insert(0, (known.measured.peak, np.array(known.plan.order, np.int64)))
            if is_late and known.measured.slab < slab:
                # The time left is for packing this order.
                yield Finding("other order", more=True)
                return
        same = known.measured.slab == slab
        # Without a limit on time each round would go on forever once orders repeat.
        nothing_new = same and (part.left() is None or len(resume.seen) == seen)
        if clock.expired() or known.capacity is not None or (part is clock and nothing_new):
            break
        # Orders above the minimum peak may pack into less than all of that peak.
        part, room = clock, known.measured.slab - 1
    yield Finding("other order", more=len(resume.seen) > before)


def order_neighborhoods(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Free ops near the fullest steps of the best order, search for a lower peak, and pack it."""
    if known.order_done() or clock.left() is None or not len(known.orders):
        return
    from optsched.joint.order_neighborhoods import lower_orders_nearby

    resume.searches += 1
    floor, seed, order = known.peak_bound, resume.searches, known.best_orders(1)[0][1]
    part, better = clock.share(JOINT.order_neighborhood_part), False
    for found in lower_orders_nearby(
        known.graph, order.tolist(), clock=part, seed=seed, floor=floor
    ):
        better, order = True, np.array(found, np.int64)
        yield Finding("order neighborhood", orders=(order,), more=True)
    if better:
        yield from pack_quickly(known, order, "order neighborhood")
    if better and not Feature.PEAK & known.features:
        # The best plan may be of an order of larger peak that has been searched for long.
        yield from pack_order(known, resume, order, clock, CONTINUED)


def joint_model(
    known: Known, resume: Resume, clock: Clock, *, independent: bool = False
) -> Findings:
    """Choose order and offsets together by CP-SAT; its bound is a claim."""
    from optsched.joint.cpsat import solve_joint

    if Feature.MOVES in known.features:
        raise UsageError("engine cpsat does not limit moved ops (max_moved)")
    objective = known.question.objective
    outcome = solve_joint(
        known.graph,
        objective=objective,
        capacity=known.capacity,
        limits=clock,
        warm_start=known.plan,
        # An independent run gets no bounds of ours, or it would only confirm them.
        peak_bound=0 if independent else known.peak_bound,
        slab_bound=0 if independent else known.slab_bound,
        on_event=known.relay("cpsat"),
        independent=independent,
    )
    yield Finding(
        "cpsat",
        plans=() if outcome.plan is None else (outcome.plan,),
        bounds=(Bound(objective, outcome.bound, Proof.CLAIMED),),
        more=outcome.stop_reason.is_limit,
    )
    outcome.stop_reason.raise_if_interrupted()


def joint_model_if_exact(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Run the joint model unless sizes exceed its exact range; the caller did not ask for it."""
    try:
        yield from joint_model(known, resume, clock)
    except UsageError:
        return


def milp_order(
    known: Known, resume: Resume, clock: Clock, *, independent: bool = False
) -> Findings:
    """Choose the order by MILP, then pack it by heuristics; the bound is a claim."""
    from optsched.joint.milp import solve_order_milp

    if known.size > (most := JOINT.milp_ops):
        raise UsageError(f"engine milp takes up to {most} ops, {known.graph.name} has {known.size}")
    if Feature.MOVES in known.features:
        raise UsageError("engine milp does not limit moved ops (max_moved)")
    # A start only shortens the search; independence is about bounds.
    start = known.best_orders(1)[0][1].tolist() if len(known.orders) else None
    outcome = solve_order_milp(
        known.graph,
        limits=clock,
        peak_bound=0 if independent else known.peak_bound,
        start=start,
        independent=independent,
        on_event=known.relay("milp", orders=True),
    )
    if outcome.order is not None:
        yield from found_orders(known, "milp", outcome.order)
        yield from pack_quickly(known, outcome.order, "milp")
    yield Finding("milp", bounds=(Bound(Objective.PEAK, outcome.bound, Proof.CLAIMED),))
    if outcome.interrupted:
        raise KeyboardInterrupt
