"""The portfolio: every method once, valid answers, the same each time, nothing made in advance."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from heuristics import ORDERINGS, OWN_ORDERINGS, OWN_PACKINGS, PACKINGS, portfolio
from heuristics.portfolio import (
    candidate_offsets,
    candidate_orders,
    packing_turn,
    packings_left_out,
)
from optsched.check.packing import check_packing
from optsched.check.plan import check_order
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import packing_problem
from optsched.model.pools import pool_rows
from optsched.model.selection import select
from tests.support.generators import FEATURES, random_graph


def test_orders_are_valid_and_cover_every_ordering() -> None:
    rng = np.random.default_rng(1)
    for seed in range(25):
        graph = random_graph(rng, seed, features=FEATURES - {"pins", "pools"})
        found = dict(candidate_orders(graph, seed=seed))
        for order in found.values():
            assert check_order(graph, order.tolist()) == peak_memory(graph, order)
        single = set(OWN_ORDERINGS) - set(portfolio.COMPOSITE_ORDERINGS)
        assert {name.split(":")[0] for name in found} == single
        assert len(found) == len(single) - 2 + portfolio.RANDOM_RUNS


def test_composites_bring_nothing_new() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        graph = random_graph(rng, 12)
        peaks = [peak_memory(graph, order) for _, order in candidate_orders(graph, random_runs=0)]
        for name in portfolio.COMPOSITE_ORDERINGS:
            assert peak_memory(graph, ORDERINGS[name](graph, 0)) >= min(peaks)


def test_offsets_are_valid() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        graph = random_graph(rng, 20)
        problem, _ = packing_problem(graph, ORDERINGS["lpmf"](graph, 0))
        found = dict(candidate_offsets(problem))
        assert set(found) <= set(PACKINGS)
        for offsets in found.values():
            assert check_packing(problem, offsets.tolist()) >= problem.max_load


def test_same_seed_same_orders() -> None:
    graph = random_graph(np.random.default_rng(3), 25)
    first, second = (list(candidate_orders(graph, seed=7, random_runs=4)) for _ in range(2))
    for (name, order), (again, same) in zip(first, second, strict=True):
        assert name == again
        assert (order == same).all()


def test_nothing_is_made_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(graph: Graph, seed: int) -> None:
        raise AssertionError("made too early")

    later = dict.fromkeys(portfolio.PROMISING_ORDERINGS[1:], refuse)
    monkeypatch.setattr(portfolio, "OWN_ORDERINGS", {**ORDERINGS, **later})
    graph = random_graph(np.random.default_rng(3), 5)
    assert next(candidate_orders(graph))[0] == portfolio.PROMISING_ORDERINGS[0]


def test_empty_graph() -> None:
    assert all(len(order) == 0 for _, order in candidate_orders(Graph("empty")))


def test_small_graphs_need_no_compiler() -> None:
    code = (
        "import sys\n"
        "from heuristics.portfolio import candidate_offsets, candidate_orders\n"
        "from optsched.model.builder import GraphBuilder\n"
        "from optsched.model.packing_problem import packing_problem\n"
        "build = GraphBuilder()\n"
        "for i in range(40):\n"
        "    build.op(f'op{i}', reads=[f'b{i - 1}'] if i else [], writes={f'b{i}': 8})\n"
        "graph = build.build()\n"
        "for _, order in candidate_orders(graph):\n"
        "    list(candidate_offsets(packing_problem(graph, order)[0]))\n"
        "assert 'numba' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_many_buffers_leave_the_slow_and_the_dominated_out_and_say_why() -> None:
    few, many = packing_turn(100), packing_turn(portfolio.MANY_BUFFERS)
    assert sorted(few) == sorted(OWN_PACKINGS)
    assert few[0] == many[0] == "skyline"
    assert packings_left_out(100) == {}
    left_out = packings_left_out(portfolio.MANY_BUFFERS)
    assert set(many) | set(left_out) == set(OWN_PACKINGS)
    assert not set(many) & set(left_out)
    assert all(left_out.values())


def test_each_pool_keeps_its_best_packing() -> None:
    rng = np.random.default_rng(6)
    for _ in range(20):
        graph = random_graph(rng, 14, features=FEATURES - {"pins"})
        order = next(iter(candidate_orders(graph)))[1]
        problem, ids = packing_problem(graph, order)
        rows = pool_rows(graph, ids)
        sums = []
        for _, offsets in candidate_offsets(problem, rows):
            parts = [select(problem, row) for row in rows]
            sums.append(
                sum(
                    check_packing(part, offsets[row].tolist())
                    for part, row in zip(parts, rows, strict=True)
                )
            )
        assert len(rows) < 2 or sums == sorted(sums, reverse=True)
