"""Plans of a given order: heuristic packings first, then the exact packing search.

Example: the packings of an order by heuristics need 12 and 11 bytes. The exact search asks for less
than 11; if it finds 10, that plan is returned, else the one of 11.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from heuristics.portfolio import candidate_offsets
from optsched.check.plan import check_plan
from optsched.errors import GraphError, PlanError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.inplace_choice import Pairs, pair_choices
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.plan import Plan, placed_plan
from optsched.model.pools import pins_clash, pool_rows, sum_of_slabs
from optsched.model.reductions import ByPool
from optsched.packing import solve_packing
from optsched.runtime.clock import Clock

_LOG = logging.getLogger(__name__)

HEURISTIC_SHARE = 0.3
"""Share of the time after which no further heuristic packing is tried."""


def best_plan(graph: Graph, order: Sequence[int], clock: Clock, *, target: int = 0) -> Plan | None:
    """Return a plan of an order with a small sum of slabs, or None if no packing is found.

    `graph`: the graph, on one stream. `order`: op ids by step. `clock`: limits on time or work.
    `target`: bytes of slab that are enough: a plan of at most this size ends the search.
    """
    best: Plan | None = None
    slab = 0
    choices = list(pair_choices(graph, order, target))
    for number, chosen in enumerate(choices):
        # In-place choices share the time evenly.
        part = clock.share(1 / (len(choices) - number))
        found = _pack(graph, order, chosen, part, target)
        if found is not None and _is_valid(graph, found):
            size = found.slab(graph)
            if best is None or size < slab:
                best, slab = found, size
        if best is not None and (slab <= target or clock.expired()):
            break
    return best


def _is_valid(graph: Graph, plan: Plan) -> bool:
    """Return True if the checker accepts a plan: heuristics may fail where bytes are pinned."""
    try:
        check_plan(graph, plan)
    except PlanError as error:
        _LOG.warning("a packing is wrong on %s: %s", graph.name, error)
        return False
    return True


def _pack(
    graph: Graph, order: Sequence[int], chosen: Pairs, clock: Clock, target: int
) -> Plan | None:
    problem, ids = packing_problem(graph, order, chosen)
    if pins_clash(graph, problem, ids):
        return None
    rows = pool_rows(graph, ids)
    load = sum(part.max_load for part in rows.reduce(problem))
    best: IntArray | None = None
    slab = 0
    for _, offsets in candidate_offsets(problem, rows):
        clock.spend(len(problem))
        size = sum_of_slabs(problem, rows, offsets)
        if best is None or size < slab:
            best, slab = offsets, size
        if slab <= max(target, load) or clock.spent(HEURISTIC_SHARE):
            break
    # Heuristics have met the load of the fullest step, or the time is up: no search.
    if best is None or (slab > max(target, load) and not clock.expired()):
        best = _search(problem, rows, clock, best)
    return None if best is None else placed_plan(graph, order, ids, best, chosen)


def _search(
    problem: PackingProblem, pools: ByPool, clock: Clock, known: IntArray | None
) -> IntArray | None:
    """Return offsets by the exact search, pool by pool; those known where it finds no better."""
    parts, packed = pools.reduce(problem), list[IntArray]()
    for number, part in enumerate(parts):
        try:
            outcome = solve_packing(part, limits=clock.share(1 / (len(parts) - number)))
        except GraphError:
            # Two pinned buffers overlap in this order.
            return known
        outcome.stop_reason.raise_if_interrupted()
        found, own = outcome.offsets, None if known is None else pools.split(known)[number]
        # Equal is not better, and the known packing is at hand.
        if own is not None and (found is None or part.slab_size(own) <= part.slab_size(found)):
            found = own
        if found is None:
            return None
        packed.append(found)
    return pools.lift(problem, packed)
