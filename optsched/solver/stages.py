"""The stages of solve(): each calls one engine, for its share of the time, and keeps what it has.

A stage takes a :class:`optsched.solver.incumbent.PlanIncumbent` and the clock of its share; one
that is repeated returns whether more time might bring more.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

import numpy as np

from heuristics.portfolio import candidate_orders
from optsched.errors import GraphError, UsageError
from optsched.model.elements import MAX_ADDRESS
from optsched.model.inplace_choice import Pairs, pair_choices
from optsched.model.packing_problem import packing_problem, select
from optsched.model.plan import placed_plan
from optsched.model.pools import pins_clash, pool_rows, roof
from optsched.model.steps import Order
from optsched.ordering.bound.single_ops import peak_lower_bound
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import take_interrupt
from optsched.runtime.limits import Objective, Proof
from optsched.solver.driver import Feature, Stage, run_stages
from optsched.solver.incumbent import PlanIncumbent, packing_key
from optsched.solver.pack import CONTINUED, WHOLE, PackingIncumbent

PackingStages = Sequence[Stage[PackingIncumbent]]
OTHER_ORDERS_LACK = Feature.INPLACE | Feature.POOLS | Feature.PEAK | Feature.MOVES
"""What packing other orders knows nothing of."""


def heuristic_orders(best: PlanIncumbent, clock: Clock) -> None:
    """Try orders, promising ones first, until one meets a simple bound.

    A search that is gone on with has the best of them already.
    """
    if best.continued:
        return
    seed = best.clock.limits.seed
    for name, order in candidate_orders(best.graph, seed=seed, peak_of=best.peak_of):
        best.clock.spend(len(order))
        best.offer_order(order, name)
        if len(best.candidates) == 1:
            part = best.clock.share(best.effort.simple_bound_share)
            bound = peak_lower_bound(best.graph, [order], clock=part)
            best.raise_bound(bound.value, Proof.BOUND, "simple bound")
        # The second order is the program's own, which takes no time to make.
        take_interrupt()
        late = len(best.candidates) > 1 and best.clock.spent(best.effort.heuristics_share)
        if late or best.order_done():
            return


def closure_bounds(best: PlanIncumbent, clock: Clock) -> None:
    """Raise the bound by flows, where the simple one leaves a gap."""
    if best.order_done() or best.continued:
        return
    from optsched.ordering import closure_bound

    orders = [order for _, order in best.best_orders(best.effort.closure_orders)]
    found = closure_bound(best.graph, orders, clock=clock)
    best.raise_bound(found.value, Proof.BOUND, "closure bound")


def pack_heuristically(best: PlanIncumbent, clock: Clock) -> None:
    """Pack the best orders so far by all promising packers."""
    many = len(best.graph.buffers) > best.effort.many_buffers
    for _, order in best.best_orders(1 if many else best.effort.packed_orders):
        best.pack(order, "heuristic order")
        if best.done() or best.clock.expired():
            break


def pack_at_the_end(best: PlanIncumbent) -> None:
    """Pack the best order if a limit kept it from being packed: no order is met in vain.

    So the program's own order counts, however tight the limit.
    """
    if best.done() or best.graph.on_streams or not best.candidates:
        return
    peak, order = best.best_orders(1)[0]
    if best.plan is None or peak < best.peak:
        many = len(best.graph.buffers) > best.effort.many_buffers
        best.pack(order, "heuristic order", packings=1 if many else None)


def pack_before_search(best: PlanIncumbent, clock: Clock) -> None:
    """Do the same, but of many buffers not while a better order may be found: it takes longer."""
    if best.order_done() or len(best.graph.buffers) <= best.effort.many_buffers:
        pack_heuristically(best, clock)


def order_search(best: PlanIncumbent, clock: Clock) -> None:
    """Find the minimum peak over all orders by our exact search; then pack that order."""
    if best.order_done() or not best.has_time() or not best.candidates:
        return
    from optsched.ordering import solve_order

    # Where other orders can be packed afterwards, these take time too.
    others = not best.features & OTHER_ORDERS_LACK
    share = best.effort.order_share if others else best.effort.peak_share
    outcome = solve_order(
        best.graph,
        limits=best.part(share),
        warm_start=best.best_orders(1)[0][1].tolist(),
        bound=best.peak_bound,
        progress=best.rounds,
        on_event=best.relay("order search", orders=True),
    )
    best.rounds = outcome.progress
    best.order_search = asdict(outcome.statistics)
    best.raise_bound(outcome.bound, outcome.proof or Proof.SEARCH, "order search")
    best.offer_order(outcome.order, "order search")
    best.pack(best.best_orders(1)[0][1], "order search")
    best.cut_short = outcome.stop_reason.is_limit
    outcome.stop_reason.raise_if_interrupted()


def first_packing(best: PlanIncumbent, clock: Clock) -> None:
    """Search the packings of the order of smallest peak, for a part of the time only."""
    _pack_best_orders(best, _before_last_packing(best, clock), CONTINUED)


def last_packing(best: PlanIncumbent, clock: Clock) -> bool:
    """Pack the order of the best plan as :func:`optsched.solver.pack.pack` does, then others."""
    settled = best.plan is None or pack_order(best, best.plan.order, clock, WHOLE)
    if not best.done() and best.has_time():
        settled &= _pack_best_orders(best, best.part(), WHOLE)
    return not settled


def _pack_best_orders(best: PlanIncumbent, clock: Clock, stages: PackingStages) -> bool:
    """Pack the best orders in turn: one, but a few where it is not known which is best."""
    if best.objective is Objective.PEAK and not best.order_done():
        return True
    orders = best.best_orders(best.effort.packed_orders if best.pool_graphs else 1)
    settled = True
    for number, (_, order) in enumerate(orders):
        settled &= pack_order(best, order, clock.share(1 / (len(orders) - number)), stages)
    return settled


def pack_order(best: PlanIncumbent, order: Order, clock: Clock, stages: PackingStages) -> bool:
    """Pack an order with each choice of in-place pairs; whether more time would bring no more."""
    choices = list(pair_choices(best.graph, order, best.peak_bound))
    settled = True
    for number, taken in enumerate(choices):
        if best.done() or not best.has_time():
            return best.done()
        part = clock.share(1 / (len(choices) - number))
        settled &= _pack_choice(best, order, taken, part, stages)
    return settled


def _pack_choice(
    best: PlanIncumbent, order: Order, taken: Pairs, clock: Clock, stages: PackingStages
) -> bool:
    key = packing_key(order, taken)
    if key in best.packed:
        return True
    problem, ids = packing_problem(best.graph, order, taken)
    if pins_clash(best.graph, problem, ids):
        return True
    rows = pool_rows(best.graph, ids)
    load = sum(select(problem, row).max_load for row in rows)
    fewer = best.counts_moves and best.moved_by(order) < best.moved
    hopeless = load > best.slab_wanted or (load == best.slab_wanted and not fewer)
    if best.plan is not None and hopeless and best.objective is Objective.SLAB:
        return True
    offsets, settled, interrupted = np.zeros(len(problem), np.int64), True, False
    bound = 0
    for number, row in enumerate(rows):
        part = PackingIncumbent(
            problem if len(rows) < 2 else select(problem, row),
            clock.share(1 / (len(rows) - number)),
            best.capacity if len(rows) < 2 else None,
            # Its bound is that of one order.
            lambda event: best.report("packing search"),
        )
        run_stages(part, stages)
        bound += part.slab_bound
        late = part.stop_reason().is_limit
        settled &= part.done() or (stages is WHOLE and not late)
        interrupted |= part.interrupted
        if part.offsets is None:
            break
        offsets[row] = part.offsets
    else:
        best.offer(placed_plan(best.graph, order, ids, offsets, taken), "packing search")
        if best.is_only_order and not problem.is_widened:
            best.refute_slab(bound - 1, "only order")
    if interrupted:
        raise KeyboardInterrupt
    if settled:
        best.packed[key] = None
    return settled


def all_orders(best: PlanIncumbent, clock: Clock) -> None:
    """Pack or refute each order of a small graph: a proof where the slab exceeds the peak.

    Where only the peak is asked for, any plan will do; without one, pins may clash in every order.
    """
    from optsched.joint import enumerate_orders

    if Feature.PEAK & best.features and best.plan is not None:
        return
    # Pins may have refused all orders so far; with this much room they alone can.
    room = roof(best.graph)
    below = room if best.plan is None else best.slab - 1
    below = below if best.capacity is None else min(best.capacity, room)
    found = enumerate_orders(
        best.graph,
        below,
        floor=best.slab_bound,
        offer=lambda plan: best.offer(plan, "all orders"),
        limits=clock,
        baseline=best.baseline,
    )
    if found.complete and best.plan is None and below > MAX_ADDRESS:
        pinned = any(buffer.pin is not None for buffer in best.graph.buffers)
        clash = "has buffers pinned onto each other, or " if pinned else ""
        raise GraphError(f"{best.graph.name}: every order {clash}takes more than 2**63 - 1 bytes")
    if found.complete and best.plan is None and below == room:
        raise GraphError(f"{best.graph.name}: buffers are pinned onto each other in every order")
    if found.complete:
        best.refute_slab(found.refuted, "all orders")


def other_orders(best: PlanIncumbent, clock: Clock) -> bool:
    """Pack other orders of minimum peak, each for a short while, and then orders above it.

    The end of the time is kept for packing the best plan's own order, unless that is done.
    """
    from optsched.joint import other_plans

    if best.plan is None:
        return False
    is_late = _left_before_last_packing(best) == 0.0
    clock = _before_last_packing(best, clock)
    known = [(best.peak, np.array(best.plan.order, np.int64))]
    known += best.best_orders(best.effort.packed_orders)
    room = max(best.peak_bound, min(peak for peak, _ in known))
    if best.capacity is not None:
        room = best.capacity
    elif room >= best.slab:
        # Only an order of smaller peak could bring less.
        return False
    part, before = clock.share(best.effort.least_peak_share), len(best.seen_orders)
    while not best.done():
        slab, seen = best.slab, len(best.seen_orders)
        orders = [order for peak, order in known if peak <= room]
        if not orders:
            break
        for plan in other_plans(
            best.graph, orders, room, bound=best.peak_bound, limits=part, seen=best.seen_orders
        ):
            best.offer(plan, "other order")
            known.insert(0, (best.peak, np.array(best.plan.order, np.int64)))
            if is_late and best.slab < slab:
                # What time is left is for packing this order.
                return True
        nothing_new = best.slab == slab and (part.left() is None or len(best.seen_orders) == seen)
        if clock.expired() or best.capacity is not None or (part is clock and nothing_new):
            break
        # Orders above the minimum peak may pack into less than all of that peak.
        part, room = clock, best.slab - 1
    return len(best.seen_orders) > before


def search_again(best: PlanIncumbent, clock: Clock) -> bool:
    """Search for an order once more, with ops under other names: ties break otherwise."""
    if best.order_done() or not best.candidates or clock.left() is None:
        return False
    from optsched.joint.other_orders import search_renamed

    clock = _before_last_packing(best, clock)
    if clock.expired():
        return True
    best.searches += 1
    rng = np.random.default_rng((best.clock.limits.seed, best.searches))
    peak, order = best.best_orders(1)[0]
    relay = best.relay("order search again", orders=True)
    names: list[int] = rng.permutation(best.size).tolist()
    start = np.argsort(names)[order].tolist()
    outcome = search_renamed(best.graph, names, lambda _: start, best.peak_bound, clock, relay)
    best.raise_bound(outcome.bound, outcome.proof or Proof.SEARCH, "order search again")
    if outcome.peak < peak:
        found = np.array(outcome.order, np.int64)
        best.offer_order(found, "order search again")
        best.pack(found, "order search again")
    outcome.stop_reason.raise_if_interrupted()
    return True


def _before_last_packing(best: PlanIncumbent, clock: Clock) -> Clock:
    """Return a clock that leaves time for packing the order of whatever is found until then.

    Later there is a search only if the best plan's order has been packed for good.
    """
    left, whole = _left_before_last_packing(best), clock.left()
    if left is None or not whole or left >= whole:
        return clock
    if best.plan is not None and not left and packing_key(best.plan.order, ()) in best.packed:
        return clock
    return clock.share(left / whole)


def _left_before_last_packing(best: PlanIncumbent) -> float | None:
    if best.plan is None or Feature.PEAK & best.features:
        return None
    return best.clock.share(1.0, best.effort.last_packing * (best.whole or 0.0)).left()


def pooled_walk(best: PlanIncumbent, clock: Clock) -> None:
    """Lower the sum of the pools' peaks, of which the search for the minimum peak knows nothing."""
    from heuristics.orderings.pooled import pooled_orders

    if best.candidates:
        start = best.best_orders(1)[0][1]
        for order in pooled_orders(best.graph, start, seed=best.clock.limits.seed):
            best.offer_order(order, "pooled order")
            best.pack(order, "pooled order")
            if best.done() or clock.expired():
                break


def joint_model(best: PlanIncumbent, clock: Clock) -> None:
    """Choose order and offsets together, by CP-SAT; its bound is a claim."""
    from optsched.joint.cpsat import solve_joint

    if Feature.MOVES in best.features:
        raise UsageError("engine cpsat does not limit moved ops (max_moved)")
    outcome = solve_joint(
        best.graph,
        objective=best.objective,
        capacity=best.capacity,
        limits=clock,
        warm_start=best.plan,
        peak_bound=best.peak_bound,
        slab_bound=best.slab_bound,
        on_event=best.relay("cpsat"),
    )
    if outcome.plan is not None:
        best.offer(outcome.plan, "cpsat")
    _claim(best, best.objective, outcome.bound, "cpsat")
    best.cut_short |= outcome.stop_reason.is_limit
    outcome.stop_reason.raise_if_interrupted()


def joint_model_if_exact(best: PlanIncumbent, clock: Clock) -> None:
    """Ask the joint model where nobody asked for it by name, and sizes are in its exact range."""
    with suppress(UsageError):
        joint_model(best, clock)


def milp_order(best: PlanIncumbent, clock: Clock) -> None:
    """Choose the order by MILP, then pack it by heuristics; the bound is a claim."""
    from optsched.joint.milp import solve_order_milp

    if best.size > (most := best.effort.milp_ops):
        raise UsageError(f"engine milp takes up to {most} ops, {best.graph.name} has {best.size}")
    if Feature.MOVES in best.features:
        raise UsageError("engine milp does not limit moved ops (max_moved)")
    start = best.best_orders(1)[0][1].tolist() if best.candidates else None
    outcome = solve_order_milp(best.graph, limits=clock, peak_bound=best.peak_bound, start=start)
    if outcome.order is not None:
        best.offer_order(outcome.order, "milp")
        best.pack(np.asarray(outcome.order, np.int64), "milp")
    _claim(best, Objective.PEAK, outcome.bound, "milp")


def _claim(best: PlanIncumbent, objective: Objective, bound: int, engine: str) -> None:
    """Keep what an engine claims, unless the best plan refutes it."""
    from optsched.joint.claims import refutation, report

    value = best.slab if objective is Objective.SLAB else best.peak
    known = None if best.plan is None else value
    if not report(refutation(engine, bound, known, "a checked plan")):
        best.claim(objective, bound)
