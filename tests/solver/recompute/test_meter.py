"""Live bytes of sequences: counted run by run, against the unrolled graph's timeline."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.errors import GraphError, PlanError, UsageError
from optsched.model.graph import Graph
from optsched.model.liveness import timeline
from optsched.solver.recompute.problem import RecomputeProblem, make_problem
from optsched.solver.recompute.runs import Nodes, Unroller
from tests.support.brute_recompute import training_graph
from tests.support.recompute_views import viewed_graph


def drawn_graph(seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    return viewed_graph(rng) if seed % 2 else training_graph(rng)


def with_random_repeats(problem: RecomputeProblem, rng: np.random.Generator, count: int) -> Nodes:
    found = [*range(len(problem.ops))]
    for _ in range(count):
        at = int(rng.integers(len(found)))
        done = [v for v in found[:at] if v in problem.again]
        if done:
            found.insert(at, done[int(rng.integers(len(done)))])
    return tuple(found)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_live_bytes_are_those_of_the_unrolled_graph(first: int) -> None:
    for seed in range(first, first + 50):
        try:
            problem = make_problem(drawn_graph(seed))
        except (GraphError, UsageError):
            # Some of the graphs with views have no valid loss.
            continue
        unroller, rng = Unroller(problem), np.random.default_rng(seed)
        for count in (0, 2, 5, 9):
            nodes = with_random_repeats(problem, rng, count)
            expected = timeline(unroller.graph(nodes), range(len(nodes))).running.tolist()
            assert list(unroller.measure(nodes).running) == expected


def test_sequences_that_cannot_run_are_refused() -> None:
    problem = make_problem(training_graph(np.random.default_rng(3)))
    unroller, nodes = Unroller(problem), tuple(range(len(problem.ops)))
    needing = next(v for v in nodes if problem.preds[v])
    (before, *_), once = problem.preds[needing], next(v for v in nodes if v not in problem.again)
    early = (*(v for v in nodes[:needing] if v != before), needing, before, *nodes[needing + 1 :])
    for wrong, reason in (
        (nodes[:-1], "misses"),
        ((*nodes, once), "runs again"),
        (early, "before"),
    ):
        with pytest.raises(PlanError, match=reason):
            unroller.measure(wrong)
