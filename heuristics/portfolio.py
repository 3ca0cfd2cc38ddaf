"""The best plan that the heuristics find together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heuristics import ORDERINGS, PACKINGS
from heuristics.orderings.lpmf_random import lpmf_backward_random, lpmf_random
from optsched.arrays import IntArray
from optsched.graph import Graph
from optsched.liveness import Order, peak_memory
from optsched.plan import Plan, make_plan
from optsched.problem import PackingProblem, packing_problem

OnPlan = Callable[[Plan, str], None]
"""Takes a plan that is better than all before it, and the names of its ordering and packing."""

PACKED_ORDERS = 3
"""Orders that are packed: those of least peak; on graphs of many buffers only the best."""
MANY_BUFFERS = 20_000
"""Beyond this packing, whose time is quadratic, takes longer than all orderings."""
RANDOM_WORK = 200_000
"""Ops that all random runs together may schedule, unless their number is given."""


@dataclass(frozen=True, slots=True)
class Portfolio:
    """What the heuristics found.

    Parameters
    ----------
    best_slab, best_peak
        The plans of least `(slab, peak)` and least `(peak, slab)`.
    orders, peaks
        By ordering; random runs carry their seed in the name.
    slabs
        By ordering and packing, of the orders that were packed.
    """

    best_slab: Plan
    best_peak: Plan
    orders: dict[str, IntArray]
    peaks: dict[str, int]
    slabs: dict[tuple[str, str], int]


def best_plan(
    graph: Graph,
    *,
    seed: int = 0,
    random_runs: int | None = None,
    on_plan: OnPlan | None = None,
) -> Portfolio:
    """Run every ordering, pack the orders of least peak with every packing, keep the best.

    Parameters
    ----------
    graph
        The graph.
    seed
        Of the random runs.
    random_runs
        Randomised LPMF runs, half of them backwards; by default up to 20, fewer on large graphs.
    on_plan
        Called for every plan that is the best so far by `(slab, peak)` or by `(peak, slab)`.
    """
    orders = {name: ordering(graph, seed) for name, ordering in ORDERINGS.items()}
    peaks = {name: peak_memory(graph, order) for name, order in orders.items()}
    if random_runs is None:
        random_runs = min(20, RANDOM_WORK // max(1, len(graph.ops)))
    for run in range(random_runs):
        name, order = _random_order(graph, seed, run, min(peaks.values()))
        orders[name], peaks[name] = order, peak_memory(graph, order)

    plans: dict[str, tuple[tuple[int, int], Plan]] = {}
    slabs: dict[tuple[str, str], int] = {}
    packed = PACKED_ORDERS if len(graph.buffers) <= MANY_BUFFERS else 1
    for name in _best_distinct(orders, peaks)[:packed]:
        problem, _ = packing_problem(graph, orders[name])
        for packing, offsets in _pack(problem).items():
            slab, peak = problem.slab_size(offsets), peaks[name]
            slabs[name, packing] = slab
            keys = {"slab": (slab, peak), "peak": (peak, slab)}
            better = [kind for kind in keys if kind not in plans or keys[kind] < plans[kind][0]]
            if better:
                plan = make_plan(graph, orders[name], offsets)
                plans.update({kind: (keys[kind], plan) for kind in better})
                if on_plan is not None:
                    on_plan(plan, f"{name} + {packing}")
    return Portfolio(plans["slab"][1], plans["peak"][1], orders, peaks, slabs)


def pack_order(graph: Graph, order: Order) -> IntArray:
    """Return the offsets of least slab that a heuristic packing finds for an order."""
    problem, _ = packing_problem(graph, order)
    return min(_pack(problem).values(), key=problem.slab_size)


def _random_order(graph: Graph, seed: int, run: int, best: int) -> tuple[str, IntArray]:
    """Return the order of a random run, and its name; half of the runs aim below `best`."""
    ordering = (lpmf_backward_random, lpmf_random)[run % 2]
    own_seed = seed + run // 2 + 1
    bound = max(0, best - 1) if own_seed % 2 else 0
    return f"{ordering.__name__}:{own_seed}", ordering(graph, own_seed, bound=bound)


def _best_distinct(orders: dict[str, IntArray], peaks: dict[str, int]) -> list[str]:
    """Names of the orders by ascending peak, equal orders once."""
    seen: set[bytes] = set()
    names = []
    for name in sorted(orders, key=peaks.__getitem__):
        fingerprint = np.ascontiguousarray(orders[name], np.int64).tobytes()
        if fingerprint not in seen:
            seen.add(fingerprint)
            names.append(name)
    return names


def _pack(problem: PackingProblem) -> dict[str, IntArray]:
    return {name: packing(problem) for name, packing in PACKINGS.items()}
