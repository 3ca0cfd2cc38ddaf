"""Inductor's choice among its four orders, as recorded and by its tie rule."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from heuristics import ORDERINGS
from heuristics.orderings.inductor import inductor
from optsched.formats import read_graph
from optsched.model.liveness import peak_memory
from tests.support.generators import random_graph

FILES = sorted((Path(__file__).parents[2] / "instances" / "inductor").glob("*.json.gz"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_choice_has_the_recorded_peak(path: Path) -> None:
    with gzip.open(path) as file:
        extra = json.load(file)["extra"]
    graph = read_graph(path)
    peak = peak_memory(graph, ORDERINGS["inductor"](graph, 0))
    assert peak == extra["peaks"][extra["chosen"]] == min(extra["peaks"].values())


def test_ties_go_to_program_then_lpmf_bfs_dfs() -> None:
    rng = np.random.default_rng(2)
    for _ in range(100):
        graph = random_graph(rng, ops=int(rng.integers(1, 12)))
        orders = [ORDERINGS[name](graph, 0) for name in ("program", "lpmf", "bfs", "dfs")]
        peaks = [peak_memory(graph, order) for order in orders]
        wanted = orders[peaks.index(min(peaks))]
        assert (ORDERINGS["inductor"](graph, 0) == wanted).all()


def test_of_a_chosen_subset_the_first_best_is_taken_and_the_program_stays_first() -> None:
    rng = np.random.default_rng(3)
    chosen = ("eager_free", "dfs")
    for _ in range(100):
        graph = random_graph(rng, ops=int(rng.integers(1, 12)))
        orders = [ORDERINGS[name](graph, 0) for name in ("program", *chosen)]
        peaks = [peak_memory(graph, order) for order in orders]
        found = inductor(graph, methods=[ORDERINGS[name] for name in chosen])
        assert (found == orders[peaks.index(min(peaks))]).all()
