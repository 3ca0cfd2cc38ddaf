"""Graphs of kernels: which nodes are joined, and what a sequence of kernels is in ops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optsched import Graph, GraphBuilder
from optsched.check.runs import check_runs
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.kernels import Contracted, contracted, join_kernels
from optsched.solver.recompute.problem import make_problem
from optsched.solver.recompute.solve import Planner
from tests.support.brute_recompute import training_graph

FUSED, ALONE = "aten.add.Tensor", "aten.mm.default"


def softmax(*later: str) -> Graph:
    """Return a step with a softmax, some of whose buffers the backward part reads."""
    build = GraphBuilder("step", cost_unit="us")
    build.input("x", 8, "excluded")
    build.input("tangents_1", 0, "excluded")
    build.op("mm", reads=["x"], writes={"s": 8}, cost=9, kind=ALONE)
    build.op("exp", reads=["s"], writes={"e": 8}, cost=1, kind=FUSED)
    build.op("sum", reads=["e"], writes={"t": 1}, cost=1, kind=FUSED)
    build.op("div", reads=["e", "t"], writes={"p": 8}, cost=1, kind=FUSED)
    build.op("loss", reads=["p"], writes={"l": 4}, cost=5, kind=ALONE)
    build.output("l")
    build.op("back", reads=["p", *later, "tangents_1"], writes={"g": 8}, cost=2, kind=FUSED)
    build.output("g")
    return build.build()


def names(found: Contracted) -> list[list[str]]:
    return [[found.problem.name(v) for v in nodes] for nodes in found.members]


def test_ops_of_one_kernel_are_joined_and_need_no_bytes_between_them() -> None:
    joined = join_kernels(make_problem(softmax()))
    assert names(joined) == [["mm"], ["exp", "sum", "div"], ["loss"], ["back"]]
    graph = joined.graph()
    assert [buffer.name for buffer in graph.buffers] == ["s", "p", "l", "g"]
    assert [op.cost for op in graph.ops] == [9, 3, 5, 2]
    assert joined.loss == ["loss"]


def test_what_the_backward_part_reads_is_made_by_a_kernel_of_its_own() -> None:
    assert names(join_kernels(make_problem(softmax("e"))))[1:3] == [["exp"], ["sum", "div"]]
    assert names(join_kernels(make_problem(softmax("t"))))[1:4] == [["exp"], ["sum"], ["div"]]


def random_kinds(seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    graph = training_graph(rng)
    kinds = rng.choice([FUSED, ALONE], len(graph.ops), p=[0.7, 0.3])
    ops = zip(graph.ops, kinds, strict=True)
    return replace(graph, ops=tuple(replace(op, kind=str(kind)) for op, kind in ops))


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_random_kernels_are_parts_of_one_phase_that_only_their_last_node_leaves(first: int) -> None:
    joined_nodes = 0
    for seed in range(first, first + 25):
        problem = make_problem(random_kinds(seed))
        found = join_kernels(problem)
        graph, last = found.graph(), {nodes[-1] for nodes in found.members}
        joined_nodes += len(problem.ops) - len(graph.ops)
        assert sorted(v for nodes in found.members for v in nodes) == [*range(len(problem.ops))]
        for v, h in enumerate(found.head):
            assert (v in problem.forward) == (h in problem.forward)
            assert (v in problem.again) == (h in problem.again)
            readers = {w for w, before in enumerate(problem.preds) if v in before}
            if v not in last:
                assert {found.head[w] for w in readers} == {h}
        held = {buffer.name for buffer in graph.buffers}
        for storage in problem.storages:
            heads = {found.head[v] for v in (*storage.readers, max(0, storage.maker))}
            inside = storage.maker >= 0 and storage.readers and len(heads) == 1
            name = problem.graph.buffers[storage.buffer].name
            assert (name not in held) == bool(inside and not storage.kept)
        assert sum(op.cost for op in graph.ops) == problem.total
    assert joined_nodes


def test_plans_of_kernels_are_valid_sequences_of_ops() -> None:
    repeats = 0
    for seed in range(30):
        problem = make_problem(random_kinds(seed))
        for made in (join_kernels(problem), contracted(problem)):
            planner = Planner(made.graph(), made.loss)
            assert [problem.name(nodes[-1]) for nodes in made.members] == [
                op.name for op in planner.problem.graph.ops
            ]
            base = planner.find_base(Clock.of(Limits(seconds=5))).peak
            result = planner.plan(base * 4 // 5, Clock.of(Limits(seconds=5)))
            if result.sequence is None:
                continue
            ids = problem.graph.op_ids
            ops = [ids[name] for kernel in result.sequence for name in made.names(kernel)]
            nodes = [problem.ops.index(v) for v in ops]
            checked = check_runs(problem.graph, problem.sequence(nodes))
            assert checked.extra == result.extra
            assert made.sequence(ops) == list(result.sequence)
            repeats += checked.repeats
            if len(made.members) == len(problem.ops):
                assert checked.peak == result.peak
    assert repeats
