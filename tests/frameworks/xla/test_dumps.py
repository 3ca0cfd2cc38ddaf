"""Modules that the installed jax compiles now: their live ranges and offsets are XLA's own."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="the extra jax is not installed")

from optsched import check_plan, peak_memory, read_graph
from optsched.formats import read_plan
from optsched.formats.hlo.allocation.assignment import Assignment
from optsched.formats.hlo.allocation.values import ModuleValues
from optsched.formats.hlo.text import parse_module
from tests.support.xla_dumps import dump
from tests.support.xla_live_ranges import both_live_ranges
from tests.support.xla_models import LOOP_FREE

NAMES = [*(model.__name__ for model in LOOP_FREE), *(f"random_graph{seed}" for seed in range(6))]


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dumps")
    calls = [f"{name}()" for name in NAMES if not name.startswith("random")]
    dump(
        [
            *calls,
            *(f"random_graph({i})" for i in range(6)),
            "scan()",
            "choice()",
            "training_step()",
        ],
        folder,
    )
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_live_ranges_are_xlas_own(dumps: Path, name: str) -> None:
    ours, theirs = both_live_ranges(
        read_graph(dumps / f"{name}-module.txt"), dumps / f"{name}-live-range.txt"
    )
    assert ours
    assert ours == theirs


@pytest.mark.parametrize("name", NAMES)
def test_xlas_offsets_are_a_plan(dumps: Path, name: str) -> None:
    graph = read_graph(dumps / f"{name}-module.txt").with_inplace()
    check_plan(graph, read_plan(dumps / f"{name}-buffer-assignment.txt", graph))


@pytest.mark.parametrize("name", ["scan", "choice", *NAMES])
def test_the_assignment_is_xlas_own(dumps: Path, name: str) -> None:
    """The memory of temporaries, and that of all results together but for donated arguments."""
    module = parse_module((dumps / f"{name}-module.txt").read_text())
    sequence = list(module.computations[module.entry].instructions)
    assignment = Assignment(ModuleValues(module), sequence)
    text = (dumps / f"{name}-buffer-assignment.txt").read_text().partition("Total bytes")[0]
    found = re.findall(r"^allocation \d+: size (\d+), (.*)$", text, re.MULTILINE)
    temporary = sum(int(size) for size, kind in found if "preallocated-temp" in kind)
    made = [(int(size), kind) for size, kind in found if "maybe-live-out" in kind]
    results = sum(size for size, kind in made if "parameter" not in kind)
    assert assignment.temporary == temporary
    assert assignment.allocated - assignment.temporary == results


def test_a_recorded_training_step_made_again_has_the_same_ops_order_and_peak(dumps: Path) -> None:
    recorded = Path(__file__).parents[4] / "shared/instances/frameworks/xla-cpu__mlp_train.json.gz"
    if not recorded.exists():
        pytest.skip("no recorded graph of this step beside the project")
    document = json.loads(gzip.decompress(recorded.read_bytes()))
    graph = read_graph(dumps / "training_step-module.txt")
    if [op.kind for op in graph.ops] != document["extra"]["ops"]:
        pytest.skip("this jax compiles the step to other fusions than the one that was recorded")
    assert [op.name for op in graph.ops] == [node["name"] for node in document["nodes"]]
    peak = peak_memory(graph, tuple(range(len(graph.ops))))
    assert peak == document["extra"]["naive"]["peak_act"]


@pytest.mark.parametrize("name", ["scan", "choice", *NAMES])
def test_modules_are_read_before_and_after(dumps: Path, name: str) -> None:
    for part in ("unscheduled", "module"):
        graph = read_graph(dumps / f"{name}-{part}.txt")
        assert peak_memory(graph, tuple(range(len(graph.ops)))) > 0
