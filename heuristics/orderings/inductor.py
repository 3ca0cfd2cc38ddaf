"""Inductor's choice: the best of the program order and its three sorters."""

from __future__ import annotations

from collections.abc import Sequence

from heuristics.orderings.bfs import bfs
from heuristics.orderings.common import Ordering
from heuristics.orderings.dfs import dfs
from heuristics.orderings.lpmf import lpmf
from heuristics.orderings.program import program
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory


def inductor(
    graph: Graph, seed: int = 0, *, methods: Sequence[Ordering] = (lpmf, bfs, dfs)
) -> IntArray:
    """Return the order of least peak among program, LPMF, BFS, DFS; ties go to the first named.

    Inductor knows nothing of in-place: it sorts and measures as if no output shared its bytes.

    Parameters
    ----------
    graph, seed
        What is ordered, and the seed that each method gets.
    methods
        What is weighed beside the order as listed, which `reorder_for_peak_memory` keeps on ties
        whatever methods it is called with.

    References
    ----------
    torch/_inductor/memory.py, `reorder_for_peak_memory`.
    """
    graph = graph.without_inplace()
    orders = [order(graph, seed) for order in dict.fromkeys((program, *methods))]
    return min(orders, key=lambda order: peak_memory(graph, order))
