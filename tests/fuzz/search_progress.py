"""Searches in slices against brute force.

Each slice resumes the state of the one before, read back from JSON. No bound is ever above the
least slab, no plan below it, and neither ever gets worse.
"""

from __future__ import annotations

import json

import numpy as np

from optsched.check.plan import check_plan
from optsched.model.graph import Graph
from optsched.solver.pipeline import solve
from optsched.solver.result import Result
from optsched.solver.resume import Resume
from tests.support.brute import least_joint
from tests.support.generators import PLANNABLE, random_graph

SLICES, GROWTH = 8, 4


def solve_in_slices(graph: Graph, first: int) -> Result:
    """Search in slices of growing work, as long as there is a state to resume."""
    result = solve(graph, work=first)
    for number in range(1, SLICES):
        if result.resume is None:
            break
        progress = Resume.from_dict(json.loads(json.dumps(result.resume.to_dict())), len(graph.ops))
        more = solve(
            graph,
            warm_start=result.plan,
            progress=progress,
            work=first * GROWTH**number,
            seed=number,
        )
        assert more.slab_bound >= result.slab_bound
        assert result.slab is None or (more.slab is not None and more.slab <= result.slab)
        result = more
    return result


def check(graph: Graph, first: int) -> bool:
    """Compare one graph with brute force; return whether slices proved it."""
    least = least_joint(graph)
    if least is None:
        return False
    result = solve_in_slices(graph, first)
    assert result.plan is not None, graph
    assert result.slab is not None, graph
    check_plan(graph, result.plan, peak=result.peak, slab=result.slab)
    assert result.slab_bound <= least[0] <= result.slab, (graph, least, result)
    return result.slab == result.slab_bound


def main(count: int = 2_000, seed: int = 0) -> int:
    """Go through random graphs."""
    rng = np.random.default_rng(seed)
    proved = 0
    for number in range(count):
        graph = random_graph(rng, int(rng.integers(3, 7)), features=PLANNABLE)
        proved += check(graph, first=int(rng.integers(1, 200)))
        if number % 500 == 499:
            print(f"{number + 1} graphs, {proved} proved in slices", flush=True)
    return 0
