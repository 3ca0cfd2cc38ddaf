"""TorchScript's planners (PyTorch pull request 64347) against naive transcriptions of them."""

from __future__ import annotations

import numpy as np

from heuristics import PACKINGS
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.selection import select
from tests.heuristics import reference_torchscript as reference
from tests.heuristics.test_packings import random_problem
from tests.support.generators import random_graph

INSTANCES = 600


def values_of(problem: PackingProblem) -> list[reference.Value]:
    rows = zip(problem.start.tolist(), problem.end.tolist(), problem.size.tolist(), strict=True)
    return [
        reference.Value(start, end - 1, i, size)
        for i, (start, end, size) in enumerate(rows)
        if size and end > start
    ]


def solid_offsets(name: str, problem: PackingProblem) -> dict[int, int]:
    offsets = PACKINGS[name](problem).tolist()
    return {value.name: offsets[value.name] for value in values_of(problem)}


def uses_of(graph: Graph, order: list[int], ids: list[int]) -> list[list[int]]:
    """For each step, which packed buffers its op reads or writes under any of their names."""
    position = {b: i for i, b in enumerate(ids)}
    rows = []
    for v in order:
        op = graph.ops[v]
        names = {graph.roots[b] for b in (*op.reads, *op.uses, *op.writes)}
        rows.append([position[b] for b in sorted(names) if b in position])
    return rows


def test_the_documents_linear_scan_needs_16_bytes_where_first_fit_needs_26(form: str) -> None:
    problem = PackingProblem(
        size=np.array([10, 1, 4, 1, 4, 10]),
        start=np.array([0, 0, 0, 0, 2, 2]),
        end=np.array([2, 9, 2, 9, 5, 5]),
    )
    assert problem.slab_size(PACKINGS["linear_scan"](problem)) == 16
    assert problem.slab_size(PACKINGS["first_fit_arrival"](problem)) == 26


def test_linear_scan_never_extends_a_region_at_the_end(form: str) -> None:
    """The last 4 bytes are free, but too few: 6 new bytes are taken after them."""
    problem = PackingProblem(size=[3, 4, 6], start=[0, 0, 1], end=[9, 1, 2])
    assert PACKINGS["linear_scan"](problem).tolist()[2] == 7
    assert PACKINGS["first_fit_arrival"](problem).tolist()[2] == 3


def test_linear_scan_merges_regions_that_touch(form: str) -> None:
    problem = PackingProblem(size=[3, 4, 7, 1], start=[0, 0, 1, 0], end=[1, 1, 2, 2])
    assert PACKINGS["linear_scan"](problem).tolist() == [0, 3, 0, 7]


def test_naive_and_linear_scan_and_longest(form: str) -> None:
    for seed in range(INSTANCES):
        problem = random_problem(np.random.default_rng([7, seed]), seed % 30, (3, 20, 60)[seed % 3])
        values = values_of(problem)
        # Buffers that are never live have bytes of their own too: no byte serves twice.
        every = [reference.Value(0, 0, i, size) for i, size in enumerate(problem.size.tolist())]
        assert dict(enumerate(PACKINGS["naive"](problem).tolist())) == reference.naive(every)
        assert solid_offsets("linear_scan", problem) == reference.linear_scan(values), seed
        wanted = reference.by_longest_and_size(values)
        assert solid_offsets("greedy_by_longest_and_size", problem) == wanted


def test_breadth_is_the_bytes_of_the_ops_own_inputs_and_outputs(form: str) -> None:
    differs = 0
    for seed in range(INSTANCES):
        graph = random_graph(np.random.default_rng([8, seed]), seed % 14, features={"views"})
        order = list(range(len(graph.ops)))
        problem, ids = packing_problem(graph, order)
        wanted = reference.by_breadth(values_of(problem), uses_of(graph, order, ids.tolist()))
        assert solid_offsets("greedy_by_breadth", problem) == wanted, seed
        differs += wanted != solid_offsets("greedy_by_profile_breadth", problem)
    assert differs > 30


def test_without_a_graph_a_buffer_is_used_at_both_ends_of_its_range(form: str) -> None:
    """At step 1 three buffers are live, but its op touches the two small ones only."""
    problem = PackingProblem(size=[9, 2, 3, 5], start=[0, 1, 1, 2], end=[4, 3, 2, 3])
    ops = [[0], [1, 2], [1, 3], [0]]
    wanted = reference.by_breadth(values_of(problem), ops)
    assert solid_offsets("greedy_by_breadth", problem) == wanted


def test_uses_follow_a_selection_of_buffers() -> None:
    graph = random_graph(np.random.default_rng(3), 12)
    problem, _ = packing_problem(graph, range(len(graph.ops)))
    assert problem.uses is not None
    kept = np.arange(len(problem))[::2]
    part = select(problem, kept)
    assert part.uses is not None
    for i, b in enumerate(kept.tolist()):
        assert part.uses.row(i).tolist() == problem.uses.row(b).tolist()
        assert all(problem.start[b] <= step < problem.end[b] for step in part.uses.row(i))
