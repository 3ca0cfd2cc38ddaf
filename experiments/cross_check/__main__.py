"""Reach of the joint CP-SAT model: `python -m experiments.cross_check`.

It solves graphs of 30 ops and about 60 buffers jointly, without warm start or bounds, and exits
with 1 unless all are closed within the time. That the models agree with brute force is shown by
`python -m tests.fuzz models`.
"""

from __future__ import annotations

import argparse
import sys
import time

from experiments.cross_check.floor_graphs import FAMILIES
from optsched.joint.cpsat import solve_joint
from optsched.model.graph import Graph
from optsched.runtime.limits import Limits


def measure_floor(seeds: int, seconds: float, workers: int) -> int:
    """Solve the graphs, print a line for each, and return how many stay open."""
    still_open = 0
    limits = Limits(seconds, workers)
    print("graph                    ops bufs       slab      bound        s")
    for make in FAMILIES.values():
        for seed in range(seeds):
            graph = make(seed)
            started = time.perf_counter()
            outcome = solve_joint(graph, limits=limits)
            still_open += not outcome.optimal
            print(
                f"{graph.name:24} {len(graph.ops):3} {_counted(graph):4} {outcome.value:10} "
                f"{outcome.bound:10} {time.perf_counter() - started:8.1f}",
                flush=True,
            )
    return still_open


def _counted(graph: Graph) -> int:
    return int((graph.arrays.size > 0).sum())


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="experiments.cross_check", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="graphs of each family")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of each graph")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    return int(measure_floor(options.seeds, options.seconds, options.workers) > 0)


if __name__ == "__main__":
    sys.exit(main())
