"""Kernels that go through sequences, and plans by eviction, against the graphs of unrolled runs."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from optsched.errors import GraphError, UsageError
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory, timeline
from optsched.model.runs import unroll
from optsched.solver.recompute.evict import FIRST_TURNS, Evictions
from optsched.solver.recompute.problem import make_problem
from optsched.solver.recompute.runs import Unroller, repeats
from tests.solver.recompute.test_solve import layers
from tests.support.brute_recompute import training_graph
from tests.support.recompute_views import viewed_graph


def unroller(graph: Graph) -> Unroller:
    return Unroller(make_problem(graph))


def draws(seed: int) -> list[Unroller]:
    """Return a graph without views, and one with views, if it is not refused."""
    found = [unroller(training_graph(np.random.default_rng(seed)))]
    with suppress(GraphError, UsageError):
        found.append(unroller(viewed_graph(np.random.default_rng(seed))))
    return found


def with_random_repeats(runs: Unroller, rng: np.random.Generator) -> list[int]:
    nodes: list[int] = []
    for v in range(len(runs.problem.ops)):
        able = [u for u in runs.problem.again if u in nodes]
        nodes += [int(rng.choice(able)) for _ in range(rng.integers(4)) if able]
        nodes.append(v)
    return nodes


@pytest.mark.parametrize("seed", range(60))
def test_live_bytes_are_those_of_the_unrolled_graph(seed: int) -> None:
    for runs in draws(seed):
        nodes = with_random_repeats(runs, np.random.default_rng(seed))
        graph, found = unroll(runs.base, nodes).graph, runs.measure(nodes)
        assert found.peak == peak_memory(graph, range(len(nodes)))
        assert list(found.running) == timeline(graph, range(len(nodes))).running.tolist()


@pytest.mark.parametrize("seed", range(60))
def test_a_repeat_is_dropped_if_and_only_if_no_run_reads_it(seed: int) -> None:
    for runs in draws(seed):
        nodes = with_random_repeats(runs, np.random.default_rng(seed))
        clean = list(runs.clean(nodes))
        made = unroll(runs.base, clean)
        used = {made.graph.producers[b] for op in made.graph.ops for b in (*op.reads, *op.uses)}
        assert all(i in used for i, number in enumerate(made.number) if number)
        assert set(clean) == set(nodes)
        assert runs.measure(clean).peak <= runs.measure(nodes).peak


@pytest.mark.parametrize("seed", range(60))
def test_no_repeat_of_a_shortest_sequence_can_be_dropped(seed: int) -> None:
    for runs in draws(seed):
        nodes = with_random_repeats(runs, np.random.default_rng(seed))
        peak = runs.measure(runs.clean(nodes)).peak
        short = runs.shortest(nodes, peak)
        assert short.peak <= peak
        repeats = [i for i, v in enumerate(short.nodes) if v in short.nodes[:i]]
        for i in repeats:
            assert runs.measure(short.nodes[:i] + short.nodes[i + 1 :]).peak > peak


def test_a_replaced_repeat_leaves_a_valid_cheaper_sequence() -> None:
    count = 0
    for runs in (runs for seed in range(150) for runs in draws(seed)):
        start = runs.measure(range(len(runs.problem.ops)))
        tries = Evictions(runs, start.nodes, start.peak - 1)
        tries.next()
        best = tries.best
        assert best is not None
        barrier = runs.barrier(best.nodes)
        for i in (i for i in repeats(best.nodes) if i > barrier):
            found = runs.replaced(best, i, best.peak)
            if found is not None:
                made = unroll(runs.base, found.nodes).graph
                assert peak_memory(made, range(len(made.ops))) == found.peak <= best.peak
                assert runs.price(found) < runs.price(best)
                assert all(j > barrier for j in repeats(found.nodes))
                count += 1
    assert count > 2


def test_evictions_give_valid_sequences() -> None:
    found = 0
    for runs in (runs for seed in range(60) for runs in draws(seed)):
        base = runs.measure(range(len(runs.problem.ops)))
        tries = Evictions(runs, base.nodes, base.peak - 1)
        for _ in range(FIRST_TURNS + 3):
            tries.next()
        assert tries.best is not None
        made = unroll(runs.base, tries.best.nodes).graph
        assert peak_memory(made, range(len(made.ops))) == tries.best.peak
        found += tries.best.peak < base.peak
    # Many of these graphs need no repeats at their best order, or nothing can run again.
    assert found > 10


def test_evictions_fit_deep_layers_and_the_best_only_improves() -> None:
    runs = unroller(layers(12))
    tries = Evictions(runs, tuple(range(len(runs.problem.ops))), 51)
    costs = []
    for _ in range(20):
        tries.next()
        assert tries.best is not None
        assert tries.best.peak <= 51
        costs.append(tries.best.cost)
    assert costs == sorted(costs, reverse=True)
    # Without repeats twelve layers need 131 bytes.
    assert 0 < costs[-1] < 12 * 12 * 3
