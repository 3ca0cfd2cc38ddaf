"""Spilling: the stage that follows all others if a question gives pools with capacities.

First the other stages plan the graph with every buffer in its own pool. If the best plan keeps the
capacities, nothing is spilled. Otherwise the best orders found are packed in pools, each with the
in-place pairs that spare most at its fullest step, and the order that spills the fewest bytes is
kept. Its spilled bytes are minimum for the order if they meet the bound for the order, and minimum
over all orders if they meet the bound over all orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from heuristics import OWN_ORDERINGS
from heuristics.portfolio import candidate_orders
from optsched.errors import GraphError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.inplace_choice import Pairs, heads, pair_choices
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan, placed_plan
from optsched.model.pools import pins_clash, pool_graph
from optsched.model.selection import select
from optsched.model.steps import Order
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Proof, StopReason
from optsched.solver.driver import Stage, run_stages
from optsched.solver.effort import SPILL
from optsched.solver.features import Feature
from optsched.solver.finding import SPILLED, Bound, Finding
from optsched.solver.known import Known
from optsched.solver.packing_result import PackedPool, PackingResult, with_sums
from optsched.solver.resume import Resume
from optsched.solver.spill.bounds import (
    OwnBounds,
    OwnPools,
    find_shortage,
    own_shortage,
    spilled_bound,
)
from optsched.solver.spill.pack import pack_in_pools
from optsched.solver.spill.pooled import PooledProblem


def run_in_own_pools(known: Known, resume: Resume, stages: Sequence[Stage[Known]]) -> bool:
    """Run stages with every buffer in its own pool; return True if one was stopped by its share."""
    clock, cut_short = known.clock, False
    if known.capacity is not None:
        known.clock = clock.share(SPILL.fit_share)
        cut_short = run_stages(known, resume, stages)
        if not known.interrupted and not known.fits():
            # Something must be spilled, so that a low peak counts. A packing that was settled for
            # the capacity is not settled for the minimum.
            known.capacity = None
            resume.packed.clear()
    if known.capacity is None:
        known.clock = clock.share(SPILL.solve_share)
        cut_short |= run_stages(known, resume, stages)
    known.clock = clock
    return cut_short


def spill(known: Known, resume: Resume, warm_start: Plan | None) -> None:
    """Let buffers leave their own pools if no plan was found that keeps the capacities."""
    own_pools, clock = known.own_pools, known.clock
    assert own_pools is not None
    own = OwnBounds(known.peak_bound, known.slab_bound)
    refuted = find_shortage(own_pools, own)
    # If no order has room, no choice of pools does: the answer needs no packing.
    if refuted is not None:
        known.plan, known.shortage = None, refuted
        return
    if known.plan is not None and own_pools.fits(known.plan):
        known.merge(keep_places(own_pools, known.plan, known.stop_reason(), clock))
        return
    part = clock.share(SPILL.orders_share)
    # The caller's order is tried as well, as it may spill less.
    given: list[Order] = [plan.order for plan in (known.plan, warm_start) if plan is not None]
    if known.question.near is not None:
        given += [order for _, order in known.best_orders(1)]
    order = given[0] if known.plan is not None else OWN_ORDERINGS["program"](own_pools.graph, 0)
    bound = spilled_bound(own_pools, own, order, part)
    known.shortage = own_shortage(own_pools, own)
    known.features |= Feature.SPILL
    # The capacity was that of the own pool, which no longer holds everything.
    known.plan, known.capacity = None, None
    orders = [x for x in orders_to_pack(own_pools.graph, given, part) if known.question.allows(x)]
    known.merge(Finding("spilled bytes", bounds=(Bound(SPILLED, bound, Proof.BOUND),)))
    for finding in pack_orders(known, own_pools, orders, bound, clock):
        known.merge(finding)
    if known.packing is None:
        name = own_pools.graph.name
        raise GraphError(
            f"{name}: buffers are pinned onto each other in all orders tried"
            if orders
            else f"{name}: no order was found that moves at most {known.question.max_moved} ops"
        )


def keep_places(
    own_pools: OwnPools, plan: Plan, stop_reason: StopReason, clock: Clock
) -> Finding[Plan]:
    """Return a plan whose slabs keep the capacities, each buffer in the pool that it names."""
    graph = own_pools.graph
    problem, ids = packing_problem(graph, plan.order)
    offsets = np.array([plan.offsets[b] for b in ids.tolist()], np.int64)
    packed = []
    for number, pool in enumerate(own_pools.pools):
        rows = np.flatnonzero(own_pools.own_pool[ids] == number)
        slab = select(problem, rows).slab_size(offsets[rows])
        bound = peak_memory(pool_graph(graph, pool.name), plan.order)
        proof = Proof.PACKING if slab == bound else None
        given = PackingResult(offsets[rows], slab, bound, proof, StopReason.DECIDED)
        packed.append(PackedPool(pool, rows, given))
    found = PackingResult(None, None, 0, None, stop_reason, packed=tuple(packed))
    packing = with_sums(problem, found, stop_reason, clock)
    kept = replace(plan, pools=tuple(buffer.pool for buffer in graph.buffers))
    return Finding("own pools", plans=(kept,), packing=packing)


def orders_to_pack(graph: Graph, given: Sequence[Order], clock: Clock) -> list[IntArray]:
    """Return orders to be packed, each once: those given, then heuristics' of smallest peak."""
    found = dict.fromkeys(tuple(np.asarray(order).tolist()) for order in given)
    others = []
    for _, order in candidate_orders(graph, seed=clock.limits.seed):
        others.append((peak_memory(graph, order), tuple(np.asarray(order).tolist())))
        if clock.expired():
            break
    found |= dict.fromkeys(steps for _, steps in sorted(others))
    return [np.array(order, np.int64) for order in list(found)[: SPILL.orders]]


def pack_orders(
    known: Known, own_pools: OwnPools, orders: Sequence[IntArray], bound: int, clock: Clock
) -> Iterator[Finding[Plan]]:
    """Pack orders until one spills no more than the bound; those in which pins clash are left."""
    for number, order in enumerate(orders):
        last = number + 1 == len(orders)
        share = clock.share(1.0 if last else SPILL.pack_share)
        found = _pack_order(known, own_pools, order, bound, share)
        if found is None or found.packing is None:
            continue
        yield found
        if found.packing.stop_reason is StopReason.INTERRUPTED:
            known.interrupted = True
        fewest = bool(found.plans) and found.packing.spilled_bytes <= bound
        if known.interrupted or fewest or clock.expired():
            return


def _pack_order(
    known: Known, own_pools: OwnPools, order: IntArray, bound: int, clock: Clock
) -> Finding[Plan] | None:
    """Pack an order, with the in-place pairs that spare most; None if pinned buffers clash."""
    graph = own_pools.graph
    choices = [
        (*packing_problem(graph, order, chosen), chosen)
        for chosen in pair_choices(graph, order, tries=0)
    ]
    # Pins may clash with one choice of pairs and not with another.
    able = [choice for choice in choices if not pins_clash(graph, *choice[:2])]
    if not able:
        return None
    problem, ids, chosen = min(able, key=lambda choice: choice[0].slab_bound)
    names = [own_pools.pools[number].name for number in own_pools.own_pool[ids].tolist()]
    asked = PooledProblem.of(problem, names, own_pools.pools)
    packing = pack_in_pools(asked, clock, known.on_event)
    if packing.slab is None:
        return Finding("spilling", packing=packing)
    plan = _plan(graph, order, ids, chosen, packing)
    if chosen:
        # An output written in place lies in another buffer, but counts separately.
        spilled = spilled_bytes(graph, plan)
        packing = replace(packing, spilled_bytes=spilled, spilled_bound=bound)
    return Finding("spilling", plans=(plan,), packing=packing)


def _plan(
    graph: Graph, order: IntArray, ids: IntArray, chosen: Pairs, packing: PackingResult
) -> Plan:
    """Return the plan of a packing."""
    names, offsets = packing.places(len(ids))
    pools = [buffer.pool for buffer in graph.buffers]
    for b, name in zip(ids.tolist(), names, strict=True):
        pools[b] = name
    for output, head in heads(chosen).items():
        # An output written in place lies where its input does.
        pools[output] = pools[head]
    made = placed_plan(graph, order, ids, offsets, chosen)
    return replace(made, pools=tuple(pools[root] for root in graph.roots))


def spilled_bytes(graph: Graph, plan: Plan) -> int:
    """Return the bytes of the buffers that lie in another pool than their own."""
    place = {b: group[0] for group in graph.must_share for b in group}
    spilled: dict[int, int] = {}
    for b, buffer in enumerate(graph.buffers):
        is_root = graph.roots[b] == b and plan.offsets[b] is not None
        if is_root and plan.pools[b] != buffer.pool:
            first = place.get(b, b)
            # A group counts once, by its largest member.
            spilled[first] = max(spilled.get(first, 0), buffer.size)
    return sum(spilled.values())
