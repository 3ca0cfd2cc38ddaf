"""Certificates by cases of precedences, made without the writer of such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optsched.certificate import CertificateEffort, certify_peak
from optsched.check.certificate import Certificate, Step
from optsched.check.steps import SupposeStep
from optsched.errors import GraphError
from optsched.model.graph import Graph
from optsched.ordering import solve_order
from tests.ordering.test_inplace import some_graph
from tests.support.generators import random_graph


def with_order(graph: Graph, first: int, second: int) -> Graph:
    """The graph with one more control edge; GraphError if that makes a cycle."""
    op = graph.ops[second]
    ops = list(graph.ops)
    ops[second] = replace(op, control=(*op.control, first))
    return replace(graph, ops=tuple(ops))


def steps_by_cases(graph: Graph, peak: int, pairs: Sequence[tuple[int, int]]) -> list[Step]:
    """Suppose one order of the first pair, then its contrary; and so on in each branch."""
    for number, (first, second) in enumerate(pairs):
        rest = pairs[number + 1 :]
        try:
            branches = with_order(graph, first, second), with_order(graph, second, first)
        except GraphError:
            continue
        steps: list[Step] = [SupposeStep(first, second)]
        for branch in branches:
            steps += steps_by_cases(branch, peak, rest)
        return steps
    order = solve_order(graph).order
    effort = CertificateEffort(most_states=10_000 * (peak % 3))
    return list(certify_peak(graph, order, peak, effort=effort).certificate.steps)


def by_cases(graph: Graph, peak: int, rng: np.random.Generator) -> Certificate:
    """A certificate of the least peak of a graph by a few cases of precedences."""
    n = len(graph.ops)
    pairs = [
        tuple(rng.choice(n, 2, replace=False).tolist()) for _ in range(int(rng.integers(1, 4)))
    ]
    return Certificate(graph.name, peak, tuple(steps_by_cases(graph, peak, pairs)))


def some_graphs(seed: int, count: int) -> list[Graph]:
    """Graphs of three ops and more, every other one in the in-place model."""
    rng = np.random.default_rng(seed)
    found: list[Graph] = []
    while len(found) < count:
        graph = (
            some_graph(rng, 9) if len(found) % 2 else random_graph(rng, int(rng.integers(3, 10)))
        )
        if len(graph.ops) > 2:
            found.append(replace(graph, name=f"random{len(found)}"))
    return found
