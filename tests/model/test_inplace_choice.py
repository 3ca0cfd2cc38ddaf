"""In-place pairs in plans: every choice packs, and is at most as good as the checker allows."""

from __future__ import annotations

from contextlib import suppress
from itertools import product

import numpy as np

from heuristics import PACKINGS
from optsched.check.packing import check_packing
from optsched.check.plan import check_plan
from optsched.errors import PlanError
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.inplace_choice import pair_choices
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import Gap, packing_problem
from optsched.model.plan import Plan, make_plan
from tests.model.test_inplace import some_graphs
from tests.support.brute import inplace_choices, least_slab
from tests.support.generators import random_order


def shrinking() -> Graph:
    """x(8) -> a(8) -> b(6) -> c(2, output); d(2) lives beside b and c only."""
    build = GraphBuilder("shrinking")
    build.input("x", 8)
    build.op("f", reads=["x"], writes={"a": 8})
    build.op("g", reads=["a"], writes={"b": 6})
    build.op("k", control=["g"], writes={"d": 2})
    build.op("h", reads=["b", "d"], writes={"c": 2})
    build.output("c")
    for op, output, source in (("f", "a", "x"), ("g", "b", "a"), ("h", "c", "b")):
        build.inplace(op, output, source)
    return build.build().with_inplace()


def test_a_chain_is_one_buffer_with_windows() -> None:
    graph = shrinking()
    order = (0, 1, 2, 3)
    assert peak_memory(graph, order) == 8
    ids = graph.buffer_ids
    taken = tuple((ids[b], ids[r]) for b, r in (("a", "x"), ("b", "a"), ("c", "b")))
    problem, rows = packing_problem(graph, order, taken)
    assert [graph.buffers[b].name for b in rows] == ["x", "d"]
    assert problem.gaps == ((Gap(2, 4, (0, 6)),), ())
    assert problem.max_load == 8
    plan = make_plan(graph, order, np.array([0, 6]), taken)
    assert check_plan(graph, plan).slab == 8
    assert [plan.offsets[ids[b]] for b in "xabcd"] == [0, 0, 0, 0, 6]


def test_without_the_model_nothing_is_taken() -> None:
    graph = shrinking().without_inplace()
    assert list(pair_choices(graph, (0, 1, 2, 3))) == [()]


def test_every_choice_gives_valid_plans() -> None:
    rng = np.random.default_rng(7)
    windows = 0
    for graph in some_graphs(150, seed=4, ops=9):
        order = random_order(rng, graph)
        peak = peak_memory(graph, order)
        choices = list(pair_choices(graph, order))
        assert len(set(choices)) == len(choices)
        for taken in choices:
            problem, _ = packing_problem(graph, order, taken)
            windows += any(problem.gaps)
            assert problem.max_load >= peak
            for packing in ("greedy_by_size", "first_fit_size"):
                offsets = PACKINGS[packing](problem)
                check_packing(problem, offsets.tolist())
                checked = check_plan(graph, make_plan(graph, order, offsets, taken), peak=peak)
                assert checked.slab >= peak
        assert min(packing_problem(graph, order, t)[0].max_load for t in choices) == peak
    assert windows > 10


def test_least_slab_over_choices_is_the_least_that_the_checker_allows() -> None:
    rng = np.random.default_rng(8)
    tried = 0
    for graph in some_graphs(500, seed=6, ops=4, max_size=3):
        order = random_order(rng, graph)
        _, live = packing_problem(graph, order)
        total = int(graph.arrays.size[live].sum())
        if not 2 <= len(live) <= 5 or total > 9 or not any(inplace_choices(graph, order)):
            continue
        tried += 1
        best = None
        for choice in inplace_choices(graph, order):
            taken = tuple((output, root) for _, output, root in choice)
            problem, _ = packing_problem(graph, order, taken)
            slab = least_slab(problem)
            assert slab is not None
            best = slab if best is None else min(best, slab)
        assert best == least_by_checker(graph, order, live.tolist(), total)
    assert tried > 25


def least_by_checker(graph: Graph, order: tuple[int, ...], live: list[int], most: int) -> int:
    """Ask the checker for all offsets of the live buffers, in ever larger slabs."""
    sizes = [graph.buffers[b].size for b in live]
    for slab in range(max(sizes), most):
        for places in product(*(range(slab - size + 1) for size in sizes)):
            at = dict(zip(live, places, strict=True))
            offsets = tuple(at.get(root) for root in graph.roots)
            with suppress(PlanError):
                return check_plan(graph, Plan(tuple(order), offsets)).slab
    return most
