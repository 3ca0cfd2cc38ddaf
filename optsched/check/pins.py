"""Whether pinned buffers leave any packing at all."""

from __future__ import annotations

import numpy as np

from optsched.check.plan import check_packing
from optsched.errors import PlanError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem, select
from optsched.model.pools import pool_rows


def pins_clash(graph: Graph, problem: PackingProblem, ids: IntArray) -> bool:
    """Whether pinned buffers of a pool share bytes while both are live: no packing is valid."""
    pinned = np.flatnonzero(problem.pin >= 0)
    for row in pool_rows(graph, ids[pinned]):
        part = select(problem, pinned[row])
        try:
            check_packing(part, part.pin.tolist())
        except PlanError:
            return True
    return False
