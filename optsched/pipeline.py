"""solve(): heuristics, bounds, exact search of orders, packing, the joint model; one checked plan.

The composition root: it chooses engines and keeps the best plan and bounds, and holds no
algorithm of its own. Each stage runs only while something is left to prove, so an easy graph
never imports a solver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import StrEnum

import numpy as np

from heuristics.portfolio import candidate_orders
from optsched.arrays import IntArray
from optsched.bounds import peak_lower_bound
from optsched.errors import GraphError, UsageError
from optsched.graph import Graph
from optsched.inplace import refuse_inplace
from optsched.pairing import Pairs, pair_choices
from optsched.plan import Plan, make_plan
from optsched.problem import packing_problem, select
from optsched.result import Limits, Objective, OnEvent, Proof, Result, StopReason
from optsched.run import Run
from optsched.slabs import pins_clash, pool_rows, roof

DEFAULT_LIMITS = Limits(seconds=60.0)
"""Where a caller sets no limits: some questions have no answer in useful time."""
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
CLOSURE_SHARE, ORDER_SHARE = 0.3, 0.85
"""Parts of the time left that the closure bound and the search for an order may take: the order
that is best then is still to be packed."""
POOL_SHARE = 0.3
"""Part of the time left that the pools of a graph may take, each by itself."""
FIRST_PACK_SHARE, OTHER_SHARE, WINDOW_SHARE = 0.3, 0.5, 0.5
"""Parts of the time left that packing the first order of least peak, other orders (and before that
all orders of a small graph), and windows of a large one may take."""
OTHER_TRIES, WINDOW_TRIES = 200, 60
"""Other orders that are packed, and windows that are freed, at most."""
MILP_OPS = 60
"""Above this many ops the MILP would not be built in useful time."""


class Engine(StrEnum):
    """Who closes what the heuristics and simple bounds leave open."""

    AUTO = "auto"
    """Our search first, the joint CP-SAT model where the graph is small."""
    CPSAT = "cpsat"
    """The joint CP-SAT model, whatever the size."""
    MILP = "milp"
    """The order by MILP: an independent second opinion on small graphs."""
    HEURISTICS = "heuristics"
    """Nobody: heuristics and bounds only."""


def solve(
    graph: Graph,
    *,
    objective: Objective | str = Objective.SLAB,
    capacity: int | None = None,
    engine: Engine | str = Engine.AUTO,
    limits: Limits | None = None,
    warm_start: Plan | None = None,
    on_event: OnEvent | None = None,
) -> Result:
    """Choose an order and offsets of least slab or peak, with proof or an honest gap.

    Parameters
    ----------
    graph
        What to plan. Where its buffers name several pools each of these has a slab, the slab is
        the sum of them all, and the peak is over all pools together.
    objective
        `slab` (least slab, then least peak) or `peak` (least peak, then least slab).
    capacity
        Ask only whether a slab of this many bytes is enough.
    engine
        See :class:`Engine`.
    limits
        Time, workers, seed; a minute if None. Ctrl-C ends the search as a time limit does.
    warm_start
        A plan to start from; it must be valid.
    on_event
        Called whenever the best plan or bound moves.

    Returns
    -------
    Result
        Its plan has passed the independent checker and is never worse than the best heuristic's.

    Raises
    ------
    UsageError
        If an option makes no sense: the models of `cpsat` and `milp` know nothing of in-place.
    PlanError
        If the warm start breaks a rule of the graph.
    """
    run = Run(
        graph,
        Objective(objective),
        capacity,
        limits or DEFAULT_LIMITS,
        on_event or (lambda event: None),
    )
    stages = _STAGES[Engine(engine)]
    if _joint in stages or _milp in stages:
        refuse_inplace(graph, f"engine {engine}")
    try:
        if warm_start is not None:
            run.offer(warm_start, "warm start")
            run.offer_order(warm_start.order, "warm start")
        for stage in stages:
            if run.plan is not None and run.seconds_left() == 0:
                break
            # A model asked for by name has its say even where the question is answered.
            if not run.done() or stage in (_joint, _milp):
                stage(run)
    except KeyboardInterrupt:
        run.interrupted = True
    return run.result()


def _heuristics(run: Run) -> None:
    """Orders, promising ones first, until one meets a simple bound."""
    for name, order in candidate_orders(run.graph, seed=run.limits.seed):
        run.offer_order(order, name)
        if len(run.candidates) == 1:
            bound = peak_lower_bound(run.graph, [order])
            run.raise_bound(bound.value, Proof.BOUND, "simple bound")
        if run.order_done() or run.share_spent(HEURISTICS_SHARE):
            return


def _closure_bound(run: Run) -> None:
    if run.order_done():
        return
    from optsched.ordering import closure_bound

    left = run.seconds_left()
    deadline = None if left is None else time.monotonic() + left * CLOSURE_SHARE
    orders = [order for _, order in run.best_orders(CLOSURE_ORDERS)]
    found = closure_bound(run.graph, orders, deadline=deadline)
    run.raise_bound(found.value, Proof.BOUND, "closure bound")


def _pools_apart(run: Run) -> None:
    """What each pool needs by itself, whatever order the others would like: a bound, and orders."""
    if not run.pool_graphs or run.objective is Objective.PEAK:
        return
    peaks = slabs = 0
    for number, graph in enumerate(run.pool_graphs):
        share = POOL_SHARE / (len(run.pool_graphs) - number * POOL_SHARE)
        found = solve(graph, limits=run.limits_left(share))
        peaks, slabs = peaks + found.peak_bound, slabs + found.slab_bound
        if found.plan is not None:
            run.offer_order(found.plan.order, f"order of pool {number}")
        run.stop_if(found.stop_reason)
    run.raise_pool_bounds(peaks, slabs, "pools apart")


def _pack_heuristically(run: Run) -> None:
    few = PACKED_ORDERS if len(run.graph.buffers) <= MANY_BUFFERS else 1
    for _, order in run.best_orders(few):
        run.pack(order, "heuristic order")
        if run.done() or run.seconds_left() == 0:
            return


def _order_search(run: Run) -> None:
    """The least peak over all orders, by our exact search; then its order, packed."""
    if run.order_done():
        return
    from optsched.ordering import solve_order

    outcome = solve_order(
        run.graph,
        limits=run.limits_left(ORDER_SHARE),
        warm_start=run.best_orders(1)[0][1].tolist(),
        bound=run.bound,
        on_event=run.relay("order search"),
    )
    run.raise_bound(outcome.bound, outcome.proof or Proof.SEARCH, "order search")
    run.offer_order(outcome.order, "order search")
    run.pack(run.best_orders(1)[0][1], "order search")
    run.stop_if(outcome.stop_reason)


def _first_packing(run: Run) -> None:
    _packing_search(run, FIRST_PACK_SHARE)


def _packing_search(run: Run, share: float = 1.0) -> None:
    """The least slab of the least-peak order, by our exact packing search."""
    if run.objective is Objective.PEAK and not run.order_done():
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


def _all_orders(run: Run) -> None:
    """Each order of a small graph, packed or refuted: a proof where the slab exceeds the peak."""
    if len(run.graph.ops) > JOINT_OPS or run.graph.in_place:
        return
    if run.plan is not None and not run.asks_for_slab():
        return
    from optsched.joint import exhaust

    # Pins may have refused all orders so far; with this much room they alone can.
    below = roof(run.graph) if run.plan is None else run.slab - 1
    found = exhaust(
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


def _other_orders(run: Run) -> None:
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
                tries=OTHER_TRIES,
                room=room,
            ):
                run.offer(plan, "other order")


def _pooled_orders(run: Run) -> None:
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


def _joint_windows(run: Run) -> None:
    """Order and offsets inside stretches of steps, by CP-SAT, where the whole is too large."""
    few = len(run.graph.ops) <= JOINT_OPS
    if run.plan is None or not run.asks_for_slab() or few or run.pool_graphs:
        return
    from optsched.joint.windows import window_plans

    target = max(run.bound, run.best_orders(1)[0][0]) if run.capacity is None else run.capacity
    limits = run.limits_left(WINDOW_SHARE)
    try:
        for plan in window_plans(run.graph, run.plan, target, limits=limits, windows=WINDOW_TRIES):
            run.offer(plan, "window")
    except UsageError:
        # As for the joint model.
        return


def _joint(run: Run) -> None:
    """Order and offsets together, by CP-SAT; its bound is a claim."""
    from optsched.cpsat import Stop, solve_joint

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
    if outcome.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt


def _joint_if_small(run: Run) -> None:
    if len(run.graph.ops) > JOINT_OPS or run.graph.in_place:
        return
    try:
        _joint(run)
    except UsageError:
        # Sizes outside CP-SAT's exact range: nobody asked for it by name, so do without.
        return


def _milp(run: Run) -> None:
    """The order by MILP, then the heuristic packers; its bound is a claim."""
    from optsched.milp import solve_order_milp

    if len(run.graph.ops) > MILP_OPS:
        raise UsageError(
            f"engine milp takes up to {MILP_OPS} ops, {run.graph.name} has {len(run.graph.ops)}"
        )
    outcome = solve_order_milp(run.graph, limits=run.limits_left(), peak_bound=run.bound)
    if outcome.order is not None:
        run.offer_order(outcome.order, "milp")
        run.pack(np.asarray(outcome.order, np.int64), "milp")
    run.claim(Objective.PEAK, outcome.bound)


Stage = Callable[[Run], None]
_HEURISTIC_STAGES: tuple[Stage, ...] = (_heuristics, _closure_bound, _pack_heuristically)
_STAGES: dict[Engine, Sequence[Stage]] = {
    Engine.AUTO: (
        *_HEURISTIC_STAGES,
        _pools_apart,
        _order_search,
        _first_packing,
        _pooled_orders,
        _all_orders,
        _other_orders,
        _joint_if_small,
        _joint_windows,
        _packing_search,
    ),
    Engine.CPSAT: (*_HEURISTIC_STAGES, _joint),
    Engine.MILP: (*_HEURISTIC_STAGES, _milp),
    Engine.HEURISTICS: _HEURISTIC_STAGES,
}
