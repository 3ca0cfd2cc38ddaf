"""The stages of solve(): each calls one engine, for its share of the time, and keeps what it has.

A stage takes a :class:`optsched.solver.incumbent.Run`. It looks whether it can still bring
anything, and ends when the question is answered.
"""

from __future__ import annotations

import time
from dataclasses import asdict

import numpy as np

from heuristics.portfolio import candidate_orders
from optsched.check.pins import pins_clash
from optsched.errors import GraphError, UsageError
from optsched.model.arrays import IntArray
from optsched.model.inplace_choice import Pairs, pair_choices
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import PackingProblem, packing_problem, select
from optsched.model.plan import make_plan
from optsched.model.pools import pinned_bytes, pool_rows, roof
from optsched.ordering.bound.single_ops import peak_lower_bound
from optsched.runtime.limits import Objective, Proof, StopReason
from optsched.solver.core_first import core_packings
from optsched.solver.incumbent import Run

JOINT_OPS = 60
"""Up to this many ops the joint model is worth starting by itself."""
PACKED_ORDERS = 3
"""Heuristic orders that are packed: those of least peak."""
MANY_BUFFERS = 20_000
"""Beyond this many only the best order is packed."""
CLOSURE_ORDERS = 8
"""Orders that spare the closure bound its flows; more of them hardly spare more."""
HEURISTICS_SHARE = 0.3
"""Part of the whole time after which no further heuristic order begins."""
SIMPLE_SHARE, CLOSURE_SHARE, ORDER_SHARE = 0.1, 0.3, 0.85
"""Parts of the time left that the simple bound, the closure bound and the search for an order may
take: the order that is best then is still to be packed."""
FIRST_PACK_SHARE, OTHER_SHARE = 0.3, 0.5
"""Parts of the time left that packing the first order of least peak, and other orders (and before
that all orders of a small graph) may take."""
MILP_OPS = 60
"""Above this many ops the MILP would not be built in useful time."""


def heuristic_orders(run: Run) -> None:
    """Orders, promising ones first, until one meets a simple bound."""
    for name, order in candidate_orders(run.graph, seed=run.limits.seed):
        run.offer_order(order, name)
        if len(run.candidates) == 1:
            deadline = run.deadline(SIMPLE_SHARE)
            bound = peak_lower_bound(run.graph, [order], deadline=deadline)
            run.raise_bound(bound.value, Proof.BOUND, "simple bound")
        # The second order is the program's own, which takes no time to make.
        if run.order_done() or (len(run.candidates) > 1 and run.share_spent(HEURISTICS_SHARE)):
            return


def closure_bounds(run: Run) -> None:
    """A bound by flows, where the simple one leaves a gap."""
    if run.order_done():
        return
    from optsched.ordering import closure_bound

    orders = [order for _, order in run.best_orders(CLOSURE_ORDERS)]
    found = closure_bound(run.graph, orders, deadline=run.deadline(CLOSURE_SHARE))
    run.raise_bound(found.value, Proof.BOUND, "closure bound")


def pack_heuristically(run: Run) -> None:
    """The best orders so far, by all promising packers."""
    few = PACKED_ORDERS if len(run.graph.buffers) <= MANY_BUFFERS else 1
    for _, order in run.best_orders(few):
        run.pack(order, "heuristic order")
        if run.done() or run.seconds_left() == 0:
            return


def pack_before_search(run: Run) -> None:
    """The same, but of many buffers not while a better order may be found: that takes longer."""
    if run.order_done() or len(run.graph.buffers) <= MANY_BUFFERS:
        pack_heuristically(run)


def order_search(run: Run) -> None:
    """The least peak over all orders, by our exact search; then its order, packed."""
    if run.order_done() or not run.has_time():
        return
    from optsched.ordering import solve_order

    outcome = solve_order(
        run.graph,
        limits=run.limits_left(ORDER_SHARE),
        warm_start=run.best_orders(1)[0][1].tolist(),
        bound=run.bound,
        on_event=run.relay_orders("order search"),
    )
    run.order_search = asdict(outcome.statistics)
    run.raise_bound(outcome.bound, outcome.proof or Proof.SEARCH, "order search")
    run.offer_order(outcome.order, "order search")
    run.pack(run.best_orders(1)[0][1], "order search")
    run.stop_if(outcome.stop_reason)


def first_packing(run: Run) -> None:
    """The packing search, for a part of the time only: other orders may pack more easily."""
    packing_search(run, FIRST_PACK_SHARE)


def packing_search(run: Run, share: float = 1.0) -> None:
    """The least slab of the least-peak order, by our exact packing search."""
    if (run.objective is Objective.PEAK and not run.order_done()) or not run.has_time():
        return
    # Where there are several pools the best of these orders is not known beforehand.
    orders = run.best_orders(PACKED_ORDERS if run.pool_graphs else 1)
    choices = [
        (order, taken) for _, order in orders for taken in pair_choices(run.graph, order, run.bound)
    ]
    for number, (order, taken) in enumerate(choices):
        # The choices of in-place pairs share the time; without in-place there is one an order.
        _pack_choice(run, order, taken, share / (len(choices) - number))
        if run.done() or run.seconds_left() == 0:
            return


def _pack_choice(run: Run, order: IntArray, taken: Pairs, share: float) -> None:
    from optsched.packing import solve_packing

    key = order.tobytes() + np.array(taken, np.int64).tobytes()
    if key in run.packed:
        return
    problem, ids = packing_problem(run.graph, order, taken)
    if pins_clash(run.graph, problem, ids):
        return
    rows = pool_rows(run.graph, ids)
    least = sum(select(problem, row).max_load for row in rows)
    if run.plan is not None and least >= run.slab and (run.graph.in_place or len(rows) > 1):
        return
    if len(rows) == 1:
        _fill_around_core(run, order, taken, problem, share)
        if run.done():
            return
    offsets, reasons = np.zeros(len(problem), np.int64), set()
    for number, row in enumerate(rows):
        outcome = solve_packing(
            select(problem, row) if len(rows) > 1 else problem,
            limits=run.limits_left(share / (len(rows) - number * share)),
            capacity=run.capacity if len(rows) == 1 else None,
            # Its bound is that of one order.
            on_event=lambda event: run.report("packing search"),
        )
        reasons.add(outcome.stop_reason)
        if outcome.offsets is None:
            break
        offsets[row] = outcome.offsets
    else:
        run.offer(make_plan(run.graph, order, offsets, taken), "packing search")
    if StopReason.TIME_LIMIT not in reasons:
        run.packed.add(key)
    if StopReason.INTERRUPTED in reasons:
        raise KeyboardInterrupt


def _fill_around_core(
    run: Run, order: IntArray, taken: Pairs, problem: PackingProblem, share: float
) -> None:
    enough = max(problem.max_load, pinned_bytes(run.graph), run.capacity or 0)
    if run.plan is not None and run.slab <= enough:
        return
    peak = peak_memory(run.graph, order)
    for name, offsets in core_packings(problem, enough, lambda part: run.limits_left(share * part)):
        if run.is_better(peak, problem.slab_size(offsets)):
            run.offer(make_plan(run.graph, order, offsets, taken), name)
        if run.done() or run.slab <= enough:
            return


def all_orders(run: Run) -> None:
    """Each order of a small graph, packed or refuted: a proof where the slab exceeds the peak."""
    if len(run.graph.ops) > JOINT_OPS:
        return
    if run.plan is not None and run.objective is Objective.PEAK and run.capacity is None:
        return
    from optsched.joint import enumerate_orders

    # Pins may have refused all orders so far; with this much room they alone can.
    below = roof(run.graph) if run.plan is None else run.slab - 1
    found = enumerate_orders(
        run.graph,
        below if run.capacity is None else run.capacity,
        floor=run.slab_bound,
        offer=lambda plan: run.offer(plan, "all orders"),
        limits=run.limits_left(OTHER_SHARE),
    )
    if found.complete and run.plan is None and run.capacity is None:
        raise GraphError(f"{run.graph.name}: buffers are pinned onto each other in every order")
    if found.complete:
        run.refute_slab(found.refuted, "all orders")


def other_orders(run: Run) -> None:
    """Other orders of least peak, each packed for a short while."""
    if not run.asks_for_slab() or run.pool_graphs:
        return
    from optsched.joint import other_plans

    best = run.best_orders(PACKED_ORDERS)
    budget = max(run.bound, best[0][0]) if run.capacity is None else run.capacity
    # Orders of least peak first; some above it may pack into less than all of these.
    above = budget if run.capacity is not None else max(budget, run.slab - 1)
    for room in dict.fromkeys((budget, above)):
        orders = [order for peak, order in best if peak <= room]
        limits = run.limits_left(OTHER_SHARE)
        if orders and not run.done():
            for plan in other_plans(
                run.graph,
                orders,
                budget,
                bound=run.bound,
                limits=limits,
                room=room,
            ):
                run.offer(plan, "other order")


def pooled_walk(run: Run) -> None:
    """Orders by the sum of the pools' peaks, of which the search for the least knows nothing."""
    if not run.pool_graphs or not run.asks_for_slab() or not run.candidates:
        return
    from heuristics.orderings.pooled import pooled_orders

    started, left = time.perf_counter(), run.seconds_left()
    for order in pooled_orders(run.graph, run.best_orders(1)[0][1], seed=run.limits.seed):
        run.offer_order(order, "pooled order")
        run.pack(order, "pooled order")
        late = left is not None and time.perf_counter() - started > OTHER_SHARE * left
        if run.done() or late:
            return


def joint_model(run: Run) -> None:
    """Order and offsets together, by CP-SAT; its bound is a claim."""
    from optsched.joint.cpsat import solve_joint

    outcome = solve_joint(
        run.graph,
        objective=run.objective,
        capacity=run.capacity,
        limits=run.limits_left(),
        warm_start=run.plan,
        peak_bound=run.bound,
        slab_bound=run.slab_bound,
        on_event=run.relay("cpsat"),
    )
    if outcome.plan is not None:
        run.offer(outcome.plan, "cpsat")
    run.claim(run.objective, outcome.bound)
    if outcome.stop_reason is StopReason.INTERRUPTED:
        raise KeyboardInterrupt


def joint_model_if_small(run: Run) -> None:
    """The joint model where it is worth starting and knows all that the graph has."""
    if len(run.graph.ops) > JOINT_OPS or run.graph.in_place:
        return
    try:
        joint_model(run)
    except UsageError:
        # Sizes outside CP-SAT's exact range: nobody asked for it by name, so do without.
        return


def milp_order(run: Run) -> None:
    """The order by MILP, then the heuristic packers; its bound is a claim."""
    from optsched.joint.milp import solve_order_milp

    if len(run.graph.ops) > MILP_OPS:
        raise UsageError(
            f"engine milp takes up to {MILP_OPS} ops, {run.graph.name} has {len(run.graph.ops)}"
        )
    outcome = solve_order_milp(run.graph, limits=run.limits_left(), peak_bound=run.bound)
    if outcome.order is not None:
        run.offer_order(outcome.order, "milp")
        run.pack(np.asarray(outcome.order, np.int64), "milp")
    run.claim(Objective.PEAK, outcome.bound)
