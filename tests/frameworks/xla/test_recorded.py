"""Modules that others recorded of full-size functions, compiled again: the same ops and peaks."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax", reason="the extra jax is not installed")

from optsched import Graph, peak_memory, read_graph
from tests.support.xla_dumps import dump

RECORDED = Path(__file__).parents[4] / "shared/instances/frameworks"
MEMORY = "--xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"


def compiled(call: str, name: str, folder: Path, options: str = "") -> tuple[Graph, dict[str, Any]]:
    """Return the graph of a module compiled now, and the recorded one."""
    recorded = RECORDED / f"xla-cpu__{name}.json.gz"
    if not recorded.exists():
        pytest.skip("no recorded graph of this function beside the project")
    document: dict[str, Any] = json.loads(gzip.decompress(recorded.read_bytes()))
    dump([call], folder, options)
    graph = read_graph(next(folder.glob("*-module.txt")))
    if sorted(op.kind for op in graph.ops) != sorted(document["extra"]["ops"]):
        pytest.skip("this jax compiles the function to other ops than those that were recorded")
    return graph, document["extra"]


@pytest.mark.parametrize(
    ("call", "name", "options"),
    [
        ("nas_cell()", "nas_cell", ""),
        ("nas_cell()", "nas_cell_memsched", MEMORY),
        ("resnet18()", "resnet18_infer", ""),
        ("gpt(False)", "gpt4_train", ""),
        ("gpt(False)", "gpt4_train_memsched", MEMORY),
        ("gpt(True)", "gpt4_train_remat", ""),
    ],
)
def test_the_peak_of_xlas_order_is_the_recorded_one(
    call: str, name: str, options: str, tmp_path: Path
) -> None:
    graph, extra = compiled(call, name, tmp_path, options)
    peak = peak_memory(graph, range(len(graph.ops)))
    assert peak == extra["naive"]["peak_act"]
