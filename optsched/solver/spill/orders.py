"""Orders packed in pools: of a few orders, the one that spills the fewest bytes.

Each order is packed with the in-place pairs that spare most at its fullest step. An order that is
given comes first, then those of the heuristics by their peak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

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
from optsched.runtime.clock import Clock
from optsched.runtime.limits import OnEvent, Proof, StopReason
from optsched.solver.effort import SPILL
from optsched.solver.packing_result import PackedPool, PackingResult, with_sums
from optsched.solver.spill.bounds import OwnPools
from optsched.solver.spill.pack import pack_in_pools
from optsched.solver.spill.pooled import PooledProblem


@dataclass(frozen=True)
class PackedOrder:
    """The packing of an order's live ranges in pools, and its plan if all have a place."""

    plan: Plan | None
    packing: PackingResult

    @property
    def key(self) -> tuple[int, ...]:
        """First that everything has a place, then few spilled bytes, then a small slab."""
        missing = int(self.packing.shortage is not None) + len(self.packing.unplaced)
        return missing, self.packing.spilled_bytes, self.packing.slab or 0


def keep_places(
    own_pools: OwnPools, plan: Plan, stop_reason: StopReason, clock: Clock
) -> PackedOrder:
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
    return PackedOrder(kept, packing)


def orders_to_pack(graph: Graph, given: Sequence[Sequence[int]], clock: Clock) -> list[IntArray]:
    """Return orders to be packed, each once: those given, then heuristics' of smallest peak."""
    found = dict.fromkeys(tuple(order) for order in given)
    others = []
    for _, order in candidate_orders(graph, seed=clock.limits.seed):
        others.append((peak_memory(graph, order), tuple(np.asarray(order).tolist())))
        if clock.expired():
            break
    found |= dict.fromkeys(steps for _, steps in sorted(others))
    return [np.array(order, np.int64) for order in list(found)[: SPILL.orders]]


def pack_orders(
    own_pools: OwnPools,
    orders: Sequence[IntArray],
    bound: int,
    clock: Clock,
    on_event: OnEvent | None,
) -> PackedOrder:
    """Pack orders until one spills no more than the bound, and return the best one.

    Raises
    ------
    GraphError
        If pinned buffers clash in all of them.
    """
    best: PackedOrder | None = None
    for number, order in enumerate(orders):
        last = number + 1 == len(orders)
        share = clock.share(1.0 if last else SPILL.pack_share)
        found = _pack_order(own_pools, order, bound, share, on_event)
        if found is None:
            continue
        if best is None or found.key < best.key:
            best = found
        stopped = found.packing.stop_reason is StopReason.INTERRUPTED
        fewest = found.plan is not None and found.packing.spilled_bytes <= bound
        if stopped or fewest or clock.expired():
            break
    if best is None:
        name = own_pools.graph.name
        raise GraphError(f"{name}: buffers are pinned onto each other in all orders tried")
    return best


def _pack_order(
    own_pools: OwnPools, order: IntArray, bound: int, clock: Clock, on_event: OnEvent | None
) -> PackedOrder | None:
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
    packing = pack_in_pools(asked, clock, on_event)
    if packing.slab is None:
        return PackedOrder(None, packing)
    plan = _plan(graph, order, ids, chosen, packing)
    if chosen:
        # An output written in place lies in another buffer, but counts separately.
        spilled = spilled_bytes(graph, plan)
        packing = replace(packing, spilled_bytes=spilled, spilled_bound=bound)
    return PackedOrder(plan, packing)


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
