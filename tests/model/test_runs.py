"""Sequences of runs: unrolling, the checker of sequences, and both against each other."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.check.plan import check_order
from optsched.check.runs import check_runs
from optsched.errors import GraphError, PlanError
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.runs import extra_cost, runs_once, unroll
from tests.support.brute_recompute import training_graph
from tests.support.generators import random_graph, random_order


def chain() -> Graph:
    build = GraphBuilder("chain", cost_unit="units")
    build.op("a", writes={"x": 5}, cost=2)
    build.op("b", reads=["x"], writes={"y": 1}, cost=3)
    build.op("c", reads=["y"], writes={"z": 4})
    build.op("d", reads=["x", "z"], writes={"out": 1})
    build.output("out")
    return build.build()


def test_a_repeat_frees_the_bytes_in_between() -> None:
    graph = chain()
    assert check_runs(graph, [0, 1, 2, 3]).peak == 10
    found = check_runs(graph, [0, 1, 2, 0, 3])
    assert (found.peak, found.extra, found.repeats) == (10, 2, 1)
    unrolled = unroll(graph, [0, 1, 2, 0, 3])
    assert [op.name for op in unrolled.graph.ops] == ["a", "b", "c", "a@2", "d"]
    assert unrolled.graph.ops[4].reads == (3, 2)
    assert unrolled.number == (0, 0, 0, 1, 0)


def test_readers_of_an_output_read_its_first_copy() -> None:
    build = GraphBuilder("kept")
    build.op("a", writes={"x": 5})
    build.op("b", reads=["x"], writes={"y": 1})
    build.output("x", "y")
    graph = build.build()
    unrolled = unroll(graph, [0, 0, 1]).graph
    assert unrolled.ops[2].reads == (0,)
    assert unrolled.buffers[1].output is None
    assert check_runs(graph, [0, 0, 1]).peak == 10 == peak_memory(unrolled, [0, 1, 2])


def random_sequence(rng: np.random.Generator, graph: Graph) -> list[int]:
    once, sequence = runs_once(graph), list[int]()
    for v in random_order(rng, graph):
        again = [u for u in sequence if u not in once and rng.random() < 0.15]
        sequence += [*again, v]
    return sequence


@pytest.mark.parametrize("seed", range(400))
def test_the_checker_measures_as_the_unrolled_graph(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = training_graph(rng) if seed % 2 else random_graph(rng, 7)
    sequence = random_sequence(rng, graph)
    unrolled = unroll(graph, sequence)
    order = tuple(range(len(sequence)))
    found = check_runs(graph, sequence)
    assert found.peak == peak_memory(unrolled.graph, order) == check_order(unrolled.graph, order)
    assert found.extra == extra_cost(graph, sequence)
    assert unrolled.reorder(order) == tuple(sequence)


@pytest.mark.parametrize(
    ("sequence", "message"),
    [
        ([0, 1, 2], "order misses op 'd'"),
        ([1, 0, 2, 3], "order runs op 'b' before 'a', which it needs"),
        ([0, 1, 2, 3, 9], "order names op number 9, but the graph has 4"),
    ],
)
def test_bad_sequences_are_refused(sequence: list[int], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        check_runs(chain(), sequence)
    with pytest.raises(PlanError, match=message):
        unroll(chain(), sequence)


def test_an_op_that_runs_once_is_not_repeated() -> None:
    build = GraphBuilder("dropout")
    build.op("draw", writes={"x": 5}, once=True)
    build.op("use", reads=["x"])
    for refuse in (check_runs, unroll):
        with pytest.raises(PlanError, match="op 'draw' runs again, but it draws random numbers"):
            refuse(build.build(), [0, 0, 1])


def test_reasons_to_run_once() -> None:
    build = GraphBuilder("effects")
    build.input("state", 4)
    build.op("peek", reads=["state"], writes={"x": 1})
    build.op("write", mutates={"state2": "state"})
    build.op("again", reads=["x"], writes={"y": 1})
    reasons = runs_once(build.build())
    assert reasons[0] == "it reads 'state', which is overwritten by 'write'"
    assert reasons[1] == "it overwrites bytes"
    assert 2 not in reasons


def test_a_negative_cost_is_named() -> None:
    build = GraphBuilder("bad")
    build.op("a", cost=-1)
    with pytest.raises(GraphError, match="op 'a': cost must be at least 0, got -1"):
        build.build()
