"""XLA's default: the best of its three schedulers."""

from __future__ import annotations

from heuristics.orderings.instructions import as_instructions
from heuristics.orderings.xla_dfs import xla_dfs
from heuristics.orderings.xla_list import xla_list
from heuristics.orderings.xla_post_order import xla_post_order
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory


def xla_default(graph: Graph, seed: int = 0) -> IntArray:
    """Return the order of least peak among list, DFS and post-order; ties go to the first named.

    References
    ----------
    xla/service/hlo_memory_scheduler.cc, `DefaultMemoryScheduler`.
    """
    code = as_instructions(graph)
    orders = [order(graph, seed, code=code) for order in (xla_list, xla_dfs, xla_post_order)]
    return min(orders, key=lambda order: peak_memory(graph, order))
