"""A graph in several slabs with capacities: an order, and for each buffer a pool and an offset.

First :func:`optsched.solver.pipeline.solve` plans the graph with every buffer in its own pool. If
that plan keeps the capacities, nothing is spilled. Otherwise
:func:`optsched.solver.spill.orders.pack_orders` packs the best orders found, and the order that
spills the fewest bytes is kept. Its spilled bytes are minimum for the order if they meet the bound
for the order, and minimum over all orders if they meet the bound over all orders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from optsched.check.plan import check_plan
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.model.question import Question
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Objective, OnEvent, Proof, StopReason
from optsched.solver.effort import SPILL
from optsched.solver.known import written_plan
from optsched.solver.result import Result
from optsched.solver.spill.bounds import OwnPools, find_own_pools, find_shortage, spilled_bound
from optsched.solver.spill.orders import PackedOrder, keep_places, orders_to_pack, pack_orders
from optsched.solver.status import Status


def answer_in_pools(
    question: Question,
    answer: Callable[..., Result],
    clock: Clock,
    plan: Plan | None = None,
    on_event: OnEvent | None = None,
) -> Result:
    """Answer a question about several pools, into which buffers may spill.

    Parameters
    ----------
    question, clock, on_event
        As for :func:`optsched.solver.pipeline.answer`.
    answer
        :func:`optsched.answer` with its engine and callback, for the question with every buffer in
        its own pool.
    plan
        A plan to start from. Only its order is used if it says in which pools buffers lie.

    Raises
    ------
    UsageError
        If a buffer names no given pool, or a pool is given twice.
    """
    question.graph.refuse_streams("pools that spill into each other")
    own_pools = find_own_pools(question.planned, question.pools)
    start = None if plan is None or plan.pools else plan
    before = _in_own_pools(own_pools, question.objective, answer, clock, start)
    assert before.question is not None
    asked = replace(question, graph=own_pools.graph, objective=before.question.objective)
    # If no order has room, no choice of pools does: the answer needs no packing.
    refuted = find_shortage(own_pools, before)
    if refuted is not None:
        none = replace(before, plan=None, peak=None, slab=None, peak_proof=None, slab_proof=None)
        none = replace(none, question=asked, stop_reason=StopReason.DECIDED)
        return replace(none, before=before, refuted=refuted)
    if before.plan is not None and own_pools.fits(before.plan):
        bound, packed = 0, keep_places(own_pools, before.plan, before.stop_reason, clock)
        result = replace(before, plan=packed.plan)
    else:
        # The caller's order is tried as well, as it may spill less.
        given = [known.order for known in (before.plan, plan) if known is not None]
        part = clock.share(SPILL.orders_share)
        bound = spilled_bound(own_pools, before, part)
        orders = orders_to_pack(own_pools.graph, given, part)
        packed = pack_orders(own_pools, orders, bound, clock, on_event)
        result = _with_figures(own_pools.graph, before, packed)
    _check(own_pools, result)
    found = replace(
        result,
        question=asked,
        log=replace(result.log, seconds=clock.seconds()),
        spilled_bytes=packed.packing.spilled_bytes,
        spilled_bound=bound,
        packing=packed.packing,
        before=before,
    )
    return replace(found, stop_reason=_stop_reason(found, result, clock))


def _in_own_pools(
    own_pools: OwnPools,
    objective: Objective,
    answer: Callable[..., Result],
    clock: Clock,
    start: Plan | None,
) -> Result:
    """Plan the graph with every buffer in its own pool."""
    graph, capacity, refuted = own_pools.graph, own_pools.capacity(), 0
    if capacity is not None:
        fitting = answer(
            Question(graph, capacity=capacity),
            limits=clock.share(SPILL.fit_share),
            warm_start=start,
        )
        if fitting.stop_reason is StopReason.INTERRUPTED or (
            fitting.plan is not None and own_pools.fits(fitting.plan)
        ):
            return fitting
        start, refuted = fitting.plan, fitting.slab_bound
    # Once something must be spilled a low peak counts, not that the capacity is refuted.
    asked = Question(graph, objective=objective)
    best = answer(
        asked,
        limits=clock.share(SPILL.solve_share),
        warm_start=start,
    )
    # The refuted capacity is a bound on the slab too, perhaps a better one.
    if refuted > best.slab_bound:
        best = replace(best, slab_bound=refuted, slab_proof=None)
    return replace(best, question=replace(asked, capacity=capacity))


def _with_figures(graph: Graph, before: Result, packed: PackedOrder) -> Result:
    """Return peak and slab of a plan that spills, with their bounds and proofs."""
    peak = None if packed.plan is None else packed.plan.peak(graph)
    slab = packed.packing.slab
    # By slabs: holds if all buffers lie in their own pools. By live bytes: always.
    return replace(
        before,
        plan=packed.plan,
        peak=peak,
        slab=slab,
        slab_bound=before.peak_bound,
        peak_proof=before.peak_proof if peak == before.peak_bound else None,
        slab_proof=Proof.JOINT if slab == before.peak_bound else None,
        stop_reason=packed.packing.stop_reason,
        claimed_bound=None,
    )


def _check(own_pools: OwnPools, result: Result) -> None:
    """Check a plan as it is written to a file."""
    if result.plan is not None:
        rooms = {pool.name: pool.capacity for pool in own_pools.pools if pool.capacity is not None}
        written = written_plan(own_pools.given, result.plan)
        check_plan(own_pools.given, written, peak=result.peak, slab=result.slab, capacities=rooms)


def _stop_reason(found: Result, result: Result, clock: Clock) -> StopReason:
    """Return the stop reason of a plan in pools, after that of its order."""
    reason = result.stop_reason
    if reason in (StopReason.DECIDED, StopReason.INTERRUPTED):
        return reason
    if found.status is Status.OPTIMAL:
        # Fitting the capacities decides the question, but proves no minimum.
        minimum = bool(found.spilled_bytes) or result.status is Status.OPTIMAL
        return StopReason.PROVED if minimum else StopReason.DECIDED
    if reason is StopReason.PROVED:
        # Proved for this order, not for all.
        return clock.limit_reason() if clock.expired() else StopReason.EXHAUSTED
    return reason
