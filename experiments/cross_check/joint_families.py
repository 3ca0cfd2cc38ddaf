"""Decomposition and joint model on graphs whose slab exceeds the peak, and families left out.

Run `python -m experiments.cross_check.joint_families --work 100000`: one worker and a limit on
work, 100,000 units for each second of CP-SAT's deterministic time. The start is the program's
order, packed by our packers, and the closure bound is given. A graph is closed if the claimed bound
reaches its slab.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from experiments.tables import markdown
from heuristics.orderings.program import program
from optsched.joint.cpsat.benders import decompose
from optsched.joint.cpsat.joint_model import JointModel
from optsched.joint.cpsat.point import ModelPoint
from optsched.joint.cpsat.solver import EFFORT, SolverThread
from optsched.joint.families import ALL_PACKING, PackingFamilies
from optsched.joint.instance import graph_instance
from optsched.joint.packed import best_plan
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.ordering import closure_bound
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.support.generators import random_graph

GRAPHS = ((10, 13), (10, 215), (10, 227), (10, 251), (14, 27), (14, 39))
GRAPHS += ((14, 47), (14, 53), (18, 49), (18, 95), (24, 85), (30, 91))
"""Ops and seeds of random graphs: most of their minimum slabs are above the minimum peak."""

Answer = tuple[int, int]
"""Best slab and claimed bound in bytes."""


def make(ops: int, seed: int) -> Graph:
    """Return a random graph with alignments and several outputs per op."""
    rng = np.random.default_rng([seed, ops])
    features = {"multi", "alignment", "inputs"} if seed % 2 else {"multi", "workspace"}
    return random_graph(rng, ops, max_size=8, features=features, name=f"{ops}_{seed}")


def by_decomposition(
    graph: Graph, start: Plan, bound: int, clock: Clock, families: PackingFamilies
) -> Answer:
    """Solve by orders of CP-SAT that our packing search packs."""
    plans = [start]
    found = decompose(
        graph,
        start.slab(graph) - 1,
        floor=bound,
        offer=plans.append,
        clock=clock,
        start=start.order,
        families=families,
    )
    return plans[-1].slab(graph), max(bound, found.refuted + 1)


def by_model(
    graph: Graph, start: Plan, bound: int, clock: Clock, families: PackingFamilies
) -> Answer:
    """Solve by the model of order and offsets."""
    instance = graph_instance(graph)
    joint = JointModel(instance, families, peak_bound=bound, slab_bound=bound)
    joint.model.minimize(joint.slab)
    joint.add_hint(ModelPoint.of_plan(instance, start))
    run = SolverThread(joint, lambda p: p.slab, clock, EFFORT).run(lambda _: None)
    slab = start.slab(graph) if run.best is None else run.best.slab * instance.unit
    return slab, max(bound, (run.bound or 0) * instance.unit)


Method = Callable[[Graph, Plan, int, Clock], Answer]
VARIANTS: Mapping[str, Method] = {
    "decomposition": partial(by_decomposition, families=ALL_PACKING),
    "decomposition, no left": partial(by_decomposition, families=replace(ALL_PACKING, left=False)),
    "decomposition, no copies": partial(
        by_decomposition, families=replace(ALL_PACKING, copies=False)
    ),
    "model": partial(by_model, families=ALL_PACKING),
    "model, no rectangles": partial(by_model, families=replace(ALL_PACKING, rectangles=False)),
    "model, no pairs": partial(by_model, families=replace(ALL_PACKING, pairs=False)),
    "model, no left": partial(by_model, families=replace(ALL_PACKING, left=False)),
    "model, no copies": partial(by_model, families=replace(ALL_PACKING, copies=False)),
    "model, loads of all steps": partial(by_model, families=replace(ALL_PACKING, all_steps=True)),
    "model, resting": partial(by_model, families=replace(ALL_PACKING, resting=True)),
}


def row(name: str, graphs: list[Graph], work: int) -> list[str]:
    """Return the closed graphs of a variant, the sum of its slabs, and seconds of the processor."""
    closed = total = 0
    begun = time.process_time()
    for graph in graphs:
        order = program(graph).tolist()
        start = best_plan(graph, order, Clock.of(Limits(work=100_000)))
        assert start is not None
        bound = closure_bound(graph, [order]).value
        slab, least = VARIANTS[name](graph, start, bound, Clock.of(Limits(work=work)))
        closed += slab <= least
        total += slab
    return [name, str(closed), str(total), f"{time.process_time() - begun:.0f}"]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="experiments.cross_check.joint_families")
    parser.add_argument("--work", type=int, default=100_000)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    options = parser.parse_args()
    graphs = [make(*numbers) for numbers in GRAPHS]
    lines = []
    for name in options.variants:
        lines.append(row(name, graphs, options.work))
        print(lines[-1], file=sys.stderr, flush=True)
    head = ("model", f"closed of {len(graphs)}", "sum of slabs", "processor s")
    print(markdown(head, lines), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
