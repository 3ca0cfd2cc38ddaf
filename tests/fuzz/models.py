"""Brute force, CP-SAT and the MILP agree.

Random problems: orders; orders and packings together; the same by the decomposition alone, and by
the joint model with a random choice of constraint families. Values, claimed bounds and
replayed plans must all be equal; the command prints counts and exits with 1 on any mismatch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import fields, replace

import numpy as np

from heuristics.orderings.program import program
from optsched.check.plan import check_order, check_plan
from optsched.joint.cpsat import solve_joint
from optsched.joint.cpsat.benders import decompose
from optsched.joint.cpsat.joint_model import JointModel
from optsched.joint.cpsat.solver import EFFORT, SolverThread
from optsched.joint.families import ALL_PACKING, PackingFamilies
from optsched.joint.instance import graph_instance
from optsched.joint.milp import solve_order_milp
from optsched.model.graph import Graph
from optsched.model.memory_model import plannable
from optsched.model.plan import Plan
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits, Objective
from tests.support.brute import least_joint, least_peak, least_peak_inplace, least_slab_of
from tests.support.generators import FEATURES, PLANNABLE, random_graph, with_limits, with_sharing

LIMITS = Limits(3600.0)
"""Never reached by graphs this small, also if the command gets little of the processor."""
ROOM = 10**6
"""Bytes that are enough for every graph."""
BUFFERS = 7
"""Buffers with bytes that the brute force takes."""


def check_orders(rng: np.random.Generator) -> list[object]:
    """Minimum peak of one graph: brute force, CP-SAT and the MILP, each also independent."""
    # Pins may refuse every packing of an order of minimum peak.
    # A tenth of the graphs have sizes of many digits.
    largest = 2**40 if rng.random() < 0.1 else 16
    graph = _mixed(rng, int(rng.integers(1, 10)), largest, FEATURES - {"pins"})
    answers: list[object] = [least_peak_inplace(graph) if graph.in_place else least_peak(graph)]
    for independent in (False, True):
        joint = solve_joint(graph, objective=Objective.PEAK, limits=LIMITS, independent=independent)
        answers += [joint.refuted or answers[0]]
        if joint.plan is not None:
            answers += [joint.value, joint.bound, check_order(graph, joint.plan.order)]
        # Large sizes take several digits.
        start = None if rng.random() < 0.5 else program(graph).tolist()
        milp = solve_order_milp(graph, limits=LIMITS, start=start, independent=independent)
        answers += [milp.value, milp.bound, milp.refuted or answers[0]]
    return answers


def check_joint(rng: np.random.Generator) -> list[object]:
    """Minimum slab of one graph over all orders and offsets: brute force and the joint model."""
    # Brute force tries every offset, so that sizes are small.
    graph = _mixed(rng, int(rng.integers(1, 6)), 6, FEATURES)
    answers: list[object] = [least_slab_of(graph)]
    outcome = solve_joint(graph, limits=LIMITS, independent=bool(rng.random() < 0.5))
    answers += [outcome.value, outcome.refuted or answers[0]]
    if outcome.plan is not None:
        answers += [outcome.bound, check_plan(graph, outcome.plan).slab]
    return answers


def check_decomposition(rng: np.random.Generator) -> list[object]:
    """Minimum slab of one graph: brute force, and orders by CP-SAT with packings by our search."""
    graph = decomposable(rng)
    expected = least_joint(graph)
    answers: list[object] = [None if expected is None else expected[0]]
    for families in (ALL_PACKING, replace(ALL_PACKING, left=False, copies=False)):
        plans: list[Plan] = []
        found = decompose(
            graph,
            ROOM,
            floor=0,
            offer=plans.append,
            clock=Clock.of(LIMITS),
            families=families,
        )
        answers.append(check_plan(graph, plans[-1]).slab if plans else None)
        answers.append(found.refuted + 1 if plans else found.refuted - ROOM or None)
    return answers


def check_families(rng: np.random.Generator) -> list[object]:
    """Minimum slab of one graph by the joint model, with a random choice of families."""
    graph = _mixed(rng, int(rng.integers(1, 6)), 6, FEATURES)
    chosen = {family.name: bool(rng.random() < 0.5) for family in fields(PackingFamilies)}
    instance = graph_instance(graph)
    joint = JointModel(instance, PackingFamilies(**chosen))
    joint.model.minimize(joint.slab)
    run = SolverThread(joint, lambda p: p.slab, Clock.of(LIMITS), EFFORT).run(lambda _: None)
    answers: list[object] = [least_slab_of(graph)]
    answers.append(None if run.best is None else run.best.slab * instance.unit)
    return answers if run.finished else [*answers, "open"]


def decomposable(rng: np.random.Generator) -> Graph:
    """Return a small graph that can be decomposed: with a single pool, and nothing in place."""
    while True:
        features = PLANNABLE | {"shuffled"} | ({"pins"} if rng.random() < 0.3 else set())
        graph = random_graph(rng, int(rng.integers(1, 7)), max_size=8, features=features)
        if np.count_nonzero(graph.arrays.size) <= BUFFERS:
            shared = with_sharing(rng, graph) if rng.random() < 0.3 else graph
            limited = with_limits(rng, shared) if rng.random() < 0.3 else shared
            return replace(limited, must_share=())


def _mixed(rng: np.random.Generator, ops: int, max_size: int, features: Collection[str]) -> Graph:
    """Return a graph with features in combination."""
    if rng.random() < 0.5:
        features = PLANNABLE
    graph = random_graph(rng, ops, max_size=max_size, features=features)
    writes, limits = rng.random() < 0.4, rng.random() < 0.2
    if not writes and rng.random() < 0.3:
        graph = with_sharing(rng, graph)
    graph = with_limits(rng, graph) if limits else graph
    return plannable(graph, True, None) if writes else graph


def compare(
    what: str, check: Callable[[np.random.Generator], list[object]], count: int, seed: int
) -> int:
    """Run one kind of check on `count` problems; return the number of mismatches."""
    started, wrong = time.perf_counter(), 0
    for number in range(count):
        answers = check(np.random.default_rng([seed, number]))
        if len(set(answers)) != 1:
            wrong += 1
            print(f"MISMATCH {what} seed {seed} number {number}: {answers}")
    seconds = time.perf_counter() - started
    print(f"{what:13} {count - wrong} of {count} agree ({seconds:.0f} s)", flush=True)
    return wrong


KINDS = {
    "orders": check_orders,
    "joint": check_joint,
    "decomposition": check_decomposition,
    "families": check_families,
}
"""Comparisons by kind of problem."""


def main(count: int = 300, seed: int = 0) -> int:
    """Run what the command line asks for."""
    return int(sum(compare(k, c, count, seed) for k, c in KINDS.items()) > 0)
