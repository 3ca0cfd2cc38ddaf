"""Inductor's breadth-first order."""

from __future__ import annotations

from heuristics.kernels.breadth import run_breadth_first
from heuristics.orderings.common import work_of
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph


def bfs(graph: Graph, seed: int = 0) -> IntArray:
    """Return the order of Inductor's `topological_sort_bfs`, tie-breaks included.

    The ready op whose predecessors ran earliest runs next: their steps, ascending, are compared
    as words in a dictionary; ties go to the op listed first. O((n + edges) log n) comparisons.

    References
    ----------
    torch/_inductor/memory.py.
    """
    arrays = graph.arrays
    run = run_breadth_first.for_work(work_of(arrays))
    return run(arrays.pred.ptr, arrays.succ.ptr, arrays.succ.idx)
