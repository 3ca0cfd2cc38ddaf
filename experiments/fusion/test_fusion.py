"""Fused graphs are what fusion makes of them, and the smallest ones are smallest."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.fusion.cuts import cut_table, measure
from experiments.fusion.fuse import accumulate, can_share, fuse, reductions
from experiments.fusion.smallest import (
    QUESTIONS,
    Question,
    all_graphs,
    never_lowers_without_elision,
    smallest,
)
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.solver.pipeline import solve
from tests.support import brute

EXPECTED = {
    "lowers: any pair": (2, 2, 1),
    "raises: any pair": (3, 2, 3),
    "raises: pair shares a buffer": (3, 3, 4),
    "raises: both read a buffer, none feeds the other": (4, 4, 5),
    "raises: reads accumulate, all buffers of one size": (5, 3, 4),
    "lowers: all buffers of one size, reads accumulate": (4, 4, 3),
}
"""Ops of the smallest graph, its least peak, and that of the fused graph."""


def chain() -> Graph:
    build = GraphBuilder("chain")
    build.input("x", 5)
    build.op("a", reads=["x"], writes={"a": 2})
    build.op("b", reads=["x", "a"], writes={"b": 3})
    build.op("c", reads=["a", "b"], writes={"c": 1})
    build.output("c")
    return build.build()


def test_a_buffer_that_only_the_pair_knows_is_gone() -> None:
    fused = fuse(chain(), 1, 2)
    assert fused is not None
    assert [op.name for op in fused.ops] == ["a", "b+c"]
    assert {b.name: b.size for b in fused.buffers} == {"x": 5, "a": 2, "c": 1}
    assert peak_memory(fused, [0, 1]) == 5 + 2 + 1


def test_a_buffer_that_others_read_stays() -> None:
    fused = fuse(chain(), 0, 1)
    assert fused is not None
    assert [b.name for b in fused.buffers] == ["x", "a", "b", "c"]
    assert peak_memory(fused, [0, 1]) == 5 + 2 + 3


def test_fusing_around_an_op_would_be_a_cycle() -> None:
    build = GraphBuilder()
    build.op("a", writes={"a": 1})
    build.op("b", reads=["a"], writes={"b": 1})
    build.op("c", reads=["a", "b"], writes={"c": 1})
    graph = build.build()
    assert fuse(graph, 0, 2) is None
    assert can_share(graph, 0, 2)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: str(q.text))
def test_smallest_graphs_by_another_enumeration(question: Question) -> None:
    found = smallest(question, most_ops=5)
    assert found is not None
    fused = fuse(found.graph, *found.pair)
    assert fused is not None
    least = (brute.least_peak(found.graph), brute.least_peak(fused))
    assert (len(found.graph.ops), *least) == EXPECTED[question.text]
    assert least == (found.before, found.after)
    assert (least[1] > least[0]) is question.raises


def test_no_smaller_graph_raises_at_any_size_up_to_four() -> None:
    question = Question("two ops", True, 4, lambda graph, u, v: True)
    assert smallest(question, most_ops=2) is None


def test_all_graphs_of_two_ops() -> None:
    assert len(list(all_graphs(2, 3))) == 2 * 3**2


def test_only_gone_buffers_lower_the_least_peak() -> None:
    tried, lowered = never_lowers_without_elision(most_ops=3, largest=3)
    assert tried > 100
    assert lowered == 0


@pytest.mark.parametrize(("at_once", "least"), [(1, 3), (2, 4), (4, 6), (16, 18)])
def test_accumulated_reads(at_once: int, least: int) -> None:
    graph = accumulate(16, 8, at_once)
    assert solve(graph).peak_bound == peak_memory(graph, range(len(graph.ops))) == 8 * least
    assert solve(graph.with_inplace()).peak_bound == 8 * (least - 1)


def test_reductions() -> None:
    apart, fused = (reductions(2, 100, 1, fused=x) for x in (False, True))
    assert brute.least_peak(apart) == solve(apart).peak_bound == 102
    assert brute.least_peak(fused) == solve(fused).peak_bound == 201


def test_cuts_of_a_captured_graph_have_a_row() -> None:
    path = Path(__file__).parents[2] / "tests" / "data" / "fused" / "shared.bwd.json.gz"
    row = measure(path, work=30_000)
    assert row.bound <= row.best <= row.knee_peak <= row.fused
    assert "| shared.bwd | 160 | 4.4 |" in cut_table([row])
