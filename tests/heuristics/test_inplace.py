"""The sorters in the in-place model: LPMF against a plain simulation, all others as they were."""

from __future__ import annotations

import numpy as np
import pytest

from heuristics import ORDERINGS
from heuristics.kernels.lpmf import run_backward, run_forward
from optsched.check.plan import check_order
from optsched.model.graph import Graph
from tests.model.test_inplace import more_candidates
from tests.support.brute import inplace_pairs, live_bytes, most_saved, storage_of
from tests.support.generators import PLANNABLE, random_graph


def some_graphs(count: int, features: frozenset[str]) -> list[Graph]:
    rng = np.random.default_rng(3)
    return [
        more_candidates(
            rng, random_graph(rng, int(rng.integers(1, 12)), features=features)
        ).with_inplace()
        for _ in range(count)
    ]


ONE_OUTPUT = PLANNABLE - {"multi"}


def simulate(graph: Graph, *, forward: bool) -> list[int]:
    """LPMF by looking at every op that may go next, at every step."""
    storage, pairs, n = storage_of(graph), inplace_pairs(graph), len(graph.ops)
    full = (1 << n) - 1
    done, order = 0 if forward else full, list[int]()
    most = max(live_bytes(storage, 0, 0), live_bytes(storage, full, full))
    while len(order) < n:
        rows = []
        for v in range(n):
            before = done if forward else done & ~(1 << v)
            needs = sum(1 << u for u in graph.predecessors[v])
            others = [u for u in range(n) if done >> u & 1 and v in graph.predecessors[u]]
            if forward and (done >> v & 1 or needs & ~done):
                continue
            if not forward and (not done >> v & 1 or others):
                continue
            after = before | 1 << v
            running = live_bytes(storage, after, before) - most_saved(graph, pairs, v, before)
            far = after if forward else before
            rows.append((running, live_bytes(storage, far, far), v if forward else -v, far))
        limit = max(most, min(row[0] for row in rows))
        running, _, tie, done = min(
            (row for row in rows if row[0] <= limit), key=lambda row: row[1:3]
        )
        most = max(most, running)
        order.append(abs(tie))
    return order if forward else order[::-1]


@pytest.mark.parametrize("forward", [True, False])
def test_lpmf_does_what_the_simulation_does(forward: bool) -> None:
    name = "lpmf" if forward else "lpmf_backward"
    differ = 0
    for graph in some_graphs(150, ONE_OUTPUT):
        assert all(
            len({b for v, b, _ in inplace_pairs(graph) if v == u}) <= 1
            for u in range(len(graph.ops))
        )
        order = ORDERINGS[name](graph, 0).tolist()
        assert order == simulate(graph, forward=forward)
        differ += order != ORDERINGS[name](graph.without_inplace(), 0).tolist()
    assert differ > 5


@pytest.mark.parametrize("name", ["lpmf_random", "lpmf_backward_random"])
def test_compiled_sorters_do_what_the_twins_do(name: str) -> None:
    kernel = run_forward if name == "lpmf_random" else run_backward
    graphs = some_graphs(30, PLANNABLE)
    twins = [ORDERINGS[name](graph, 1).tolist() for graph in graphs]
    for graph, twin in zip(graphs, twins, strict=True):
        check_order(graph, twin)
    assert kernel.compiled is not None
    for graph, twin in zip(graphs, twins, strict=True):
        assert ORDERINGS[name](graph, 1).tolist() == twin


def test_inductors_choice_knows_nothing_of_it() -> None:
    for graph in some_graphs(40, PLANNABLE):
        plain = graph.without_inplace()
        assert ORDERINGS["inductor"](graph, 0).tolist() == ORDERINGS["inductor"](plain, 0).tolist()
