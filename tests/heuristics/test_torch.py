"""Orderings against the functions of the installed torch, live."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from heuristics import ORDERINGS
from heuristics.orderings.lpmf import lpmf
from optsched.formats.inductor import read_inductor
from optsched.model.liveness import peak_memory
from tests.support.generators import FEATURES, random_graph

torch = pytest.importorskip("torch", reason="torch is not installed")

ANY = FEATURES - {"pins", "pools"}
NAMED_DEPENDENCIES = ANY - {"births", "mutation", "uses", "views"}
"""Without ops that wait for something they do not name, which Inductor's DFS would not see."""


def test_sorters_equal_torchs_functions() -> None:
    from tests.support.inductor_nodes import as_inductor_graph

    for seed in range(250):
        rng = np.random.default_rng(seed)
        size = (2, 8, 2**30)[seed % 3]
        ops = seed % 30
        graph = random_graph(rng, ops, max_size=size, max_reads=4, features=ANY)
        theirs = as_inductor_graph(graph)
        assert ORDERINGS["lpmf"](graph, 0).tolist() == theirs.lpmf(), seed
        assert lpmf(graph, size_threshold=2).tolist() == theirs.lpmf(size_threshold=2), seed
        assert ORDERINGS["bfs"](graph, 0).tolist() == theirs.bfs(), seed
        graph = random_graph(rng, ops, max_size=size, max_reads=4, features=NAMED_DEPENDENCIES)
        assert ORDERINGS["dfs"](graph, 0).tolist() == as_inductor_graph(graph).dfs(), seed


def perceptron() -> Any:
    layers = [torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)]
    layers += [torch.nn.Linear(64, 32), torch.nn.Softmax(-1)]
    return torch.nn.Sequential(*layers), (torch.randn(8, 32),), {}


def attention() -> Any:
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return layer, (torch.randn(2, 16, 32),), {}


def normalized_convolution() -> Any:
    """Batch norm overwrites its running statistics: mutations in the graph."""
    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()]
    layers += [torch.nn.MaxPool2d(2), torch.nn.Conv2d(8, 8, 3), torch.nn.BatchNorm2d(8)]
    return torch.nn.Sequential(*layers), (torch.randn(2, 3, 16, 16),), {}


@pytest.mark.parametrize(
    ("build", "budget"), [(perceptron, None), (normalized_convolution, None), (attention, 0.3)]
)
def test_captured_graphs(build: Callable[[], Any], budget: float | None) -> None:
    from optsched.plugins.inductor.capture import capture

    for captured in capture(build, phase="train", activation_memory_budget=budget):
        graph, extra = read_inductor(captured.document), captured.document["extra"]
        for name in ("lpmf", "bfs", "dfs"):
            order = ORDERINGS[name](graph, 0)
            assert order.tolist() == extra["orders"][name], (captured.file_name, name)
            assert peak_memory(graph, order) == extra["peaks"][name], captured.file_name


def test_captured_graphs_with_a_threshold() -> None:
    from torch._inductor import config

    from optsched.plugins.inductor.capture import capture

    threshold = 600
    with config.patch(size_threshold_for_succ_based_strategy=threshold):
        graphs = capture(attention, phase="train")
    for captured in graphs:
        graph = read_inductor(captured.document)
        order = lpmf(graph, size_threshold=threshold)
        assert order.tolist() == captured.document["extra"]["orders"]["lpmf"]
