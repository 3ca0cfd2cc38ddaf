"""Random models and node tests hold the planned bytes in ONNX Runtime, or it is measured why."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="the extra runtimes is not installed")

from optsched.measure.ort_names import name_nodes, show_hidden  # noqa: E402
from optsched.measure.ort_ran import scratch_between  # noqa: E402
from tests.frameworks.onnx.build import BOOL, body, model, node, sizes, value  # noqa: E402
from tests.frameworks.onnx.build import read as graph_of  # noqa: E402

ROOT = Path(__file__).parents[3]
needs_counter = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None,
    reason="the counter of heap blocks needs Linux and a C compiler",
)


@needs_counter
@pytest.mark.parametrize(
    "arguments", [("--count", "25", "--seed", "7"), ("--cases", "--only", "where")]
)
def test_planned_is_held_or_explained(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tests.fuzz", "onnx_models", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "to the byte" in done.stdout.splitlines()[-1]


def test_scratch_is_what_is_returned_between_two_marks() -> None:
    # A copy of a weight, then a kernel with scratch of 64 bytes, then one with none; both make 128.
    sizes_taken = [64, 704, 64, 128, 704, 128, 704]
    steps = [1, 2, 3, 4, -3, 5, 6, -4, 7]
    assert scratch_between(sizes_taken, steps, 704, [0, 0]) == [64, 0]


def test_results_of_ops_that_run_at_once_are_no_scratch() -> None:
    # 192 is taken and returned while the result of 128 is there; `Shape` takes 64 after it.
    sizes_taken = [704, 128, 192, 64, 704]
    steps = [1, 2, 3, -3, 4, 5]
    assert scratch_between(sizes_taken, steps, 704, [1]) == [192]


def test_names_hidden_in_bodies_are_shown() -> None:
    inside = body([node("Exp", "x", "a"), node("Neg", "a", "r")], [], [value("r")])
    nodes = [node("Sin", "x", "a"), node("Neg", "a", "b")]
    nodes.append(node("If", "c", "y", "if", then_branch=inside, else_branch=inside))
    made = model(nodes, [value("x"), value("c", [], BOOL)])
    show_hidden(made.graph)
    name_nodes(made.graph)
    onnx.checker.check_model(made)
    (first, last), _ = (list(a.g.node) for a in made.graph.node[2].attribute)
    assert first.output[0] == last.input[0] != "a"
    assert first.name == "if.0.Exp_0"


def test_scratch_of_kernels_that_follows_from_shapes() -> None:
    def workspace(*nodes: object, opset: int = 17) -> int:
        inputs = [value("x", [4, 8]), value("r", [8]), value("c", [4, 8], BOOL)]
        found = sizes(graph_of(model(nodes, inputs, [value("y", [4, 8])], opset=opset)))
        return next((found[name] for name in found if name.endswith(".workspace")), 0)

    whole = 4 * 8 * 4
    # Each side is widened to the condition.
    assert workspace(node("Where", "c,x,r", "y")) == 2 * whole
    # A row and a row are joined first, in a block of 64 bytes.
    assert workspace(node("Sum", "r,r,x", "y")) == 64
    assert workspace(node("Max", "x,r,r,r", "y")) == whole
    assert workspace(node("Sum", "x,r", "y")) == 0
    assert workspace(node("Softmax", "x", "y", axis=0)) == 2 * whole
    assert workspace(node("Softmax", "x", "y", axis=1)) == 0
    assert workspace(node("Softmax", "x", "y", axis=0), opset=11) == 0
