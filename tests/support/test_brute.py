from __future__ import annotations

import numpy as np
import pytest

from optsched.check.plan import check_order
from optsched.model.builder import GraphBuilder
from optsched.model.packing_problem import Gap, PackingProblem
from tests.support.brute import (
    least_joint,
    least_joint_inplace,
    least_peak,
    least_slab,
    least_slab_by_offsets,
    least_slab_by_permutation,
    orders,
)
from tests.support.generators import FEATURES, PLANNABLE, random_graph


def packing(rows: list[tuple[int, int, int, int, int]], **more: object) -> PackingProblem:
    columns = np.array(rows, np.int64).reshape(-1, 5).T
    return PackingProblem(tuple(f"b{i}" for i in range(len(rows))), *columns, **more)


def test_least_peak_by_hand() -> None:
    build = GraphBuilder()
    build.input("x", 2)
    build.op("a", reads=["x"], writes={"p": 10})
    build.op("b", reads=["p"], writes={"q": 1})
    build.op("c", reads=["x"], writes={"r": 10})
    build.op("d", reads=["r", "q"], writes={"y": 1})
    build.output("y")
    assert least_peak(build.build()) == 13


@pytest.mark.parametrize("seed", range(40))
def test_least_peak_is_the_least_replayed_peak(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed), 6)
    assert least_peak(graph) == min(check_order(graph, order) for order in orders(graph))


@pytest.mark.parametrize("seed", range(60))
def test_two_packing_oracles_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(5):
        start = int(rng.integers(5))
        step = int(rng.choice([1, 1, 2, 3]))
        pin = step * int(rng.integers(3)) if rng.random() < 0.15 else -1
        rows.append((start, start + int(rng.integers(1, 4)), int(rng.integers(1, 5)), step, pin))
    problem = packing(rows)
    assert least_slab_by_permutation(problem) == least_slab_by_offsets(problem)


def test_a_window_leaves_room_for_another_buffer() -> None:
    rows = [(0, 4, 4, 1, -1), (1, 2, 3, 1, -1)]
    assert least_slab(packing(rows)) == 7
    assert least_slab(packing(rows, gaps=((Gap(1, 2, (0, 1)),), ()))) == 4
    assert least_slab(packing(rows, gaps=((Gap(1, 2, (1, 2)),), ()))) == 5


def test_contradicting_pins_have_no_packing() -> None:
    assert least_slab(packing([(0, 2, 3, 1, 0), (1, 3, 3, 1, 2)])) is None


def test_what_is_written_in_place_leaves_the_rest_of_its_input_free() -> None:
    build = GraphBuilder()
    build.input("x", 4)
    build.op("a", reads=["x"], writes={"p": 2})
    build.op("b", reads=["p"], writes={"q": 2})
    build.output("p", "q")
    build.inplace("a", "p", "x")
    assert least_joint_inplace(build.build().with_inplace()) == 4


@pytest.mark.parametrize("features", [PLANNABLE, FEATURES])
def test_joint_optimum_respects_the_order_bound(features: frozenset[str]) -> None:
    for seed in range(15):
        graph = random_graph(np.random.default_rng(seed), 4, max_size=6, features=features)
        best = least_joint(graph)
        assert best is None or best[1] >= least_peak(graph)
