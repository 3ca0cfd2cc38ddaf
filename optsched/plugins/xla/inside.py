"""Orders inside the computations that a module calls: bodies of loops, branches, functions.

Computations are taken callees first. An order of one replaces XLA's if the computation then has a
lower peak, and XLA's buffer assignment for the full module
(:mod:`optsched.formats.hlo.allocation.assignment`) certainly needs no more bytes.

Example: a loop's body makes two large tensors and then reduces both. With each reduced before the
next is made, its peak is a tensor lower, and so are the bytes of the module whenever the loop runs
at the peak.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from heuristics import OWN_ORDERINGS
from optsched.formats.hlo.read import module_of
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.plugins.xla.orders import ModuleOrders, WeighedOrder, full_sequence
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Objective
from optsched.solver.pipeline import solve

HEURISTICS = ("xla_dfs", "lpmf_backward", "xla_post_order")
"""Heuristics that are best most often: tried first, as time may be short."""


def improve_inside(orders: ModuleOrders, best: WeighedOrder, clock: Clock) -> WeighedOrder:
    """Return the module's best order after the computations that it calls have got theirs.

    The orders found become part of `orders`, so that orders of the entry are weighed with them.

    `orders`: the module. `best`: XLA's own order of the entry. `clock`: limits the search.
    """
    module = module_of(orders.parsed)
    peaks: dict[str, int] = {}
    for name in module.computations:
        if name == module.entry:
            break
        graph = module.with_blocks(name, peaks)
        peaks[name] = peak_memory(graph, _listed(graph))
        for order in _candidates(graph, clock):
            peak = peak_memory(graph, order)
            if peak >= peaks[name]:
                continue
            inside = replace(orders.parsed, entry=name)
            found = orders.with_inside(best, name, full_sequence(inside, graph, order))
            if found is not None:
                best, peaks[name] = found, peak
    return best


def _listed(graph: Graph) -> list[int]:
    return list(range(len(graph.ops)))


def _candidates(graph: Graph, clock: Clock) -> Iterator[list[int]]:
    """Yield orders of a computation while there is time, that of least peak last."""
    if len(graph.ops) < 3:
        return
    for name in HEURISTICS:
        if clock.expired():
            return
        yield OWN_ORDERINGS[name](graph, 0).tolist()
    part = clock.share(0.5)
    if not part.expired():
        found = solve(graph.with_inplace(), objective=Objective.PEAK, limits=part)
        if found.plan is not None:
            yield list(found.plan.order)
