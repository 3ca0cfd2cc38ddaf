"""Further orders of least peak, each packed for a short while: ties decide what packs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from optsched.errors import GraphError
from optsched.joint.walk import Walk
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan, make_plan
from optsched.ordering import solve_order
from optsched.packing import solve_packing
from optsched.runtime.limits import Limits, StopReason

FEW_BUFFERS = 20
"""Up to this many a packing is decided at once, so that no clock needs to be asked."""
PACK_SECONDS, SEARCH_SECONDS = 0.5, 2.0
"""What a packing, and the search for an order of least peak, may take at most."""
SEARCH_EVERY = 12
"""One order of so many comes from a search with other names, the rest from exchanges."""
EXCHANGES = (2, 8, 32)
"""Exchanges tried between two packings, times the number of ops over eight."""
STALE = 8
"""Packings without progress after which the walk begins at another order of least peak."""


def other_plans(
    graph: Graph,
    orders: Sequence[IntArray],
    budget: int,
    *,
    bound: int,
    limits: Limits,
    tries: int,
    room: int | None = None,
) -> Iterator[Plan]:
    """Yield plans of other orders, each time one that packs as well as those before or better.

    Parameters
    ----------
    graph
        The graph; not in-place.
    orders
        Known orders within the room; one at least.
    budget
        Bytes that the slab should have: a plan that fits ends the search.
    bound
        Known least peak, so that a search for another such order ends when it has one.
    limits
        Time and seed.
    tries
        Orders to be packed at most.
    room
        Live bytes that orders may have; the budget if None. An order above the least peak may pack
        into less than all orders of least peak.
    """
    room = budget if room is None else room
    end = None if limits.seconds is None else time.perf_counter() + limits.seconds
    rng = np.random.default_rng(limits.seed)
    seen: set[bytes] = set()
    starts = [order.tolist() for order in orders]
    best, slab, stale = starts[0], None, 0
    for attempt in range(tries):
        left = None if end is None else end - time.perf_counter()
        if left is not None and left <= 0:
            return
        if attempt < len(starts):
            order = starts[attempt]
        elif attempt % SEARCH_EVERY == 0 or stale >= STALE:
            order, stale = search_again(graph, room, bound, rng, left) or best, 0
            best, slab = order, None
        else:
            walk = Walk(graph, best, room, rng)
            walk.wander(EXCHANGES[attempt % len(EXCHANGES)] * len(best) // 8 + 1)
            order = walk.order
        problem, _ = packing_problem(graph, order)
        key = problem.start.tobytes() + problem.end.tobytes()
        if key in seen:
            stale += 1
            continue
        seen.add(key)
        offsets = pack_within(graph, order, budget, limits.seed + attempt, left)
        if offsets is None:
            continue
        plan = make_plan(graph, order, offsets)
        found = plan.slab(graph)
        stale = 0 if slab is None or found < slab else stale + 1
        if slab is None or found <= slab:
            best, slab = order, found
            yield plan
        if found <= budget:
            return


def pack_within(
    graph: Graph, order: Sequence[int], capacity: int, seed: int, left: float | None
) -> IntArray | None:
    """Pack an order for a short while; the offsets may exceed the capacity."""
    problem, _ = packing_problem(graph, order)
    seconds = PACK_SECONDS if left is None else min(PACK_SECONDS, left)
    if left is None and len(problem) <= FEW_BUFFERS:
        limits = Limits(seed=seed)
    else:
        limits = Limits(seconds=seconds, seed=seed)
    try:
        outcome = solve_packing(problem, limits=limits, capacity=capacity)
    except GraphError:
        # Two pins clash in this order.
        return None
    if outcome.stop_reason is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    return outcome.offsets


def search_again(
    graph: Graph, budget: int, bound: int, rng: np.random.Generator, left: float | None
) -> list[int] | None:
    """Search for an order within a budget under other names, from a random order."""
    names = rng.permutation(len(graph.ops))
    renamed = rename_ops(graph, names.tolist())
    seconds = SEARCH_SECONDS if left is None else min(SEARCH_SECONDS, left)
    outcome = solve_order(
        renamed,
        limits=Limits(seconds=seconds, seed=int(rng.integers(2**31))),
        warm_start=random_order(renamed, rng),
        bound=bound,
    )
    if outcome.stop_reason is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    order = [int(names[v]) for v in outcome.order]
    return order if peak_memory(graph, order) <= budget else None


def random_order(graph: Graph, rng: np.random.Generator) -> list[int]:
    """Return a valid order; each next op is any that may run."""
    missing = [len(before) for before in graph.predecessors]
    ready = [v for v, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        order.append(ready.pop(int(rng.integers(len(ready)))))
        for v in graph.arrays.succ.row(order[-1]).tolist():
            missing[v] -= 1
            if not missing[v]:
                ready.append(v)
    return order


def rename_ops(graph: Graph, old: Sequence[int]) -> Graph:
    """Return the graph with its ops in another sequence: op `i` is what was op `old[i]`."""
    new = {v: i for i, v in enumerate(old)}
    ops = tuple(
        replace(graph.ops[v], control=tuple(new[u] for u in graph.ops[v].control)) for v in old
    )
    buffers = tuple(
        buffer if buffer.birth is None else replace(buffer, birth=new[buffer.birth])
        for buffer in graph.buffers
    )
    candidates, permitted = (
        tuple((new[v], output, source) for v, output, source in pairs)
        for pairs in (graph.inplace_candidates, graph.inplace)
    )
    return replace(
        graph, ops=ops, buffers=buffers, inplace_candidates=candidates, inplace=permitted
    )
