"""Stages for orders near a baseline: few ops moved, or the fewest among plans that are as good.

Every bound on all orders is one on those near the baseline, so the other stages run as for any
question; orders and plans that move too many ops are dropped when they are merged. Between such a
bound and the best plan, the search of :mod:`optsched.ordering.moves` decides, and on small graphs
the enumeration of orders.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from optsched.errors import GraphError
from optsched.model.order_rules import Baseline
from optsched.model.plan import Plan
from optsched.model.steps import Order
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits, Objective, Proof
from optsched.solver.driver import Stage
from optsched.solver.effort import JOINT, NEAR
from optsched.solver.finding import MOVED, Bound, Finding, peak_bound
from optsched.solver.known import Known
from optsched.solver.order_packing import Findings, found_orders, pack_order, pack_quickly
from optsched.solver.packing_stages import WHOLE
from optsched.solver.resume import Resume

_SOURCE = "orders near the baseline"
_OWN = "fewer moves"


def baseline_order(known: Known) -> Findings:
    """Yield the baseline itself if it is an order of the graph, since it moves no op."""
    near = known.question.near
    if near is None:
        return
    step = {v: at for at, v in enumerate(near.order)}
    before = known.graph.predecessors
    # The baseline may break a dependency, since users can pass any sequence.
    if all(step[u] < step[v] for v in step for u in before[v]):
        yield from found_orders(known, "baseline", near.order)


def orders_near(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Find the order of least peak among those that move at most the allowed number of ops."""
    near = known.question.near
    if near is None or near.max_moved is None or known.order_done():
        return
    from optsched.ordering.improve.few_moves import lower_peak
    from optsched.ordering.moves import least_peak_within

    # Local search first: it is fast, and its order shortens the exact search.
    part = clock.share(NEAR.back_share)
    for _, order in known.best_orders(1):
        lower = lower_peak(known.graph, near.order, order.tolist(), near.max_moved, part)
        yield from found_orders(known, _SOURCE, lower)
    best = [order.tolist() for _, order in known.best_orders(1)]
    found = least_peak_within(
        known.graph,
        near.order,
        near.max_moved,
        clock=clock,
        bound=known.peak_bound,
        known=best[0] if best else None,
    )
    if found.feasible is False:
        raise GraphError(
            f"{known.graph.name}: no order moves at most {near.max_moved} ops of the baseline, "
            f"each moves at least {found.moved_bound}"
        )
    yield Finding(_SOURCE, bounds=peak_bound(found.bound))
    if found.order is not None:
        yield from found_orders(known, _SOURCE, found.order)
        yield from pack_quickly(known, found.order, _SOURCE)


def fewest_moves(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Move ops of the best plan back to the baseline while it stays as good; bound their number."""
    near, plan = known.question.near, known.plan
    if near is None or plan is None:
        return
    from optsched.ordering import moves
    from optsched.ordering.improve.few_moves import move_back

    is_peak = known.question.objective is Objective.PEAK
    # A slab holds no order of a larger peak.
    peak = known.measured.peak if is_peak else known.slab_wanted
    back_clock = clock.share(NEAR.back_share)
    # The first order is that of the plan itself, so that there always is one.
    back = [plan.order, *move_back(known.graph, near.order, plan.order, peak, back_clock)]
    # Fewest moves first: the first one with a plan as good as the best is enough. Before the exact
    # search, whose time may end without a better order.
    for order in back[:0:-1]:
        if not (yield from _pack_if_fewer(known, resume, order, clock)):
            break
    found = moves.fewest_moves(
        known.graph, near.order, peak, clock=clock, most=near.max_moved, known=back[-1]
    )
    yield _moved_bound(found.bound)
    if found.order is not None:
        yield from _pack_if_fewer(known, resume, found.order, clock)


def _pack_if_fewer(
    known: Known, resume: Resume, order: Order, clock: Clock
) -> Generator[Finding[Plan], None, bool]:
    """Pack an order that moves fewer ops; return True if it has no plan that is as good."""
    moved = known.question.moved(order)
    # Not fewer moves: nothing to gain.
    if moved >= known.measured.moved or known.done():
        return False
    yield from pack_quickly(known, order, "fewer moves")
    if known.measured.moved > moved and not clock.expired():
        yield from pack_order(known, resume, order, clock.share(NEAR.moved_share), WHOLE)
    return known.measured.moved > moved


def back_to_own_order(known: Known) -> Findings:
    """Move ops of the best plan back to where the graph lists them, while peak and slab stay.

    A plan that saves nothing then moves nothing, since the graph's own order is tried first.
    """
    plan, graph = known.plan, known.graph
    can_move = known.question.near is None and known.capacity is None and not graph.on_streams
    if plan is None or not can_move or known.interrupted or not known.size:
        return
    from optsched.ordering.improve.few_moves import move_back

    own, peak = tuple(range(known.size)), known.measured.peak
    if plan.order == own:
        return
    known.break_ties()
    # Order rules may forbid it.
    is_valid = all(u < v for v, before in enumerate(graph.predecessors) for u in before)
    if is_valid and known.orders.peak_of(np.array(own)) <= peak:
        yield from pack_quickly(known, own, _OWN)
    # A limit on work, so that equal searches end with equal plans.
    work = Clock.of(Limits(work=NEAR.tie_steps // known.size))
    if known.plan is plan and not known.clock.expired():
        for order in reversed([*move_back(graph, own, plan.order, peak, work)]):
            yield from pack_quickly(known, order, _OWN)
            if known.plan is not plan:
                return


def fewest_of_all_orders(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Enumerate the orders of a small graph that move one op more than the bound, then one more."""
    near = known.question.near
    while near is not None and known.plan is not None and not known.done():
        room = known.slab_wanted
        if known.question.objective is Objective.PEAK:
            return
        complete = _enumerate_near(known, replace(near, max_moved=known.moved_bound), room, clock)
        # A better plan or a lower slab has changed the question of this round.
        settled = known.measured.moved <= known.moved_bound or known.slab_wanted < room
        if not complete or settled:
            return
        # All orders with this number of moves are refuted.
        yield _moved_bound(known.moved_bound + 1)


def _enumerate_near(known: Known, near: Baseline, room: int, clock: Clock) -> bool:
    """Pack or refute all orders near a baseline; return True if that was done to the end."""
    from optsched.joint import enumerate_orders

    return enumerate_orders(
        known.graph,
        room,
        floor=room,
        offer=lambda plan: known.merge(Finding("all orders", plans=(plan,))),
        limits=clock,
        baseline=near,
    ).complete


def _moved_bound(value: int) -> Finding[Plan]:
    return Finding("fewest moves", bounds=(Bound(MOVED, value, Proof.SEARCH),))


FEWEST_STAGES: tuple[Stage[Known], ...] = (
    Stage(fewest_moves, share=NEAR.fewest_share),
    Stage(fewest_of_all_orders, most=JOINT.small_ops),
)
"""Stages that follow once the objective is proved, or its time is over."""
