"""Bad models, dimensions and plans: one line on the error stream, exit code 2, nothing written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")

from optsched.cli import main  # noqa: E402
from tests.frameworks.onnx.build import model, node, value, weight  # noqa: E402

OPEN = model(
    [node("Transpose", "x", "a", "t"), node("Exp", "a", "y", "e")], [value("x", ["batch", "seq"])]
)
SIZES = ["--dim", "batch=1", "--dim", "seq=4"]
COMMANDS = {
    "solve": ["solve", "{model}", "-o", "{out}"],
    "compare": ["compare", "{model}"],
    "apply": ["apply", "{model}", "{plan}", "-o", "{out}"],
    "check": ["check", "{model}", "{plan}"],
    "convert": ["convert", "{model}", "-o", "{out}"],
    "fuse": ["convert", "{model}", "--to", "onnx-fused", "-o", "{out}"],
    "measure": ["measure", "{model}", "{plan}"],
    "info": ["info", "{model}"],
}


@pytest.fixture
def said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command on a model beside a plan of `OPEN`; return the one line that it says."""
    plan, good = tmp_path / "plan.json", tmp_path / "good.onnx"
    onnx.save(OPEN, good)
    assert main(["solve", str(good), *SIZES, "-o", str(plan)]) == 0

    def run(command: str, made: Any, options: Sequence[str] = ()) -> str:
        path, out = tmp_path / "m.onnx", tmp_path / "out"
        path.write_bytes(made.SerializeToString())
        names = {"model": path, "plan": plan, "out": out}
        capsys.readouterr()
        assert main([*(text.format(**names) for text in COMMANDS[command]), *options]) == 2
        assert not out.exists()
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.count("\n") == 1
        return shown.err.removeprefix("optsched: error: ").replace(f"{tmp_path}/", "")[:-1]

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_a_model_without_a_graph(said: Any, command: str) -> None:
    empty = onnx.ModelProto(ir_version=8, opset_import=OPEN.opset_import)
    assert said(command, empty) == "m.onnx: the ONNX model has no graph; export it again"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_model_with_a_cycle(said: Any, command: str) -> None:
    made = model([node("Add", "x,y", "a", "p"), node("Exp", "a", "y", "q")])
    assert said(command, made) == (
        "m.onnx: op 'p' (Add) reads 'y', which op 'q' makes later, in a cycle: 'p' -> 'q' -> 'p'"
    )


@pytest.mark.parametrize("command", ["solve", "compare", "info", "convert"])
def test_a_dimension_given_twice_or_unknown_or_without_a_number(said: Any, command: str) -> None:
    twice = [*SIZES, "--dim", "batch=2"]
    assert said(command, OPEN, twice) == "--dim gives 'batch' twice"
    assert said(command, OPEN, [*SIZES, "--dim", "sqe=2"]).endswith(
        "unknown dimension 'sqe'; open dimensions: 'batch', 'seq'; did you mean 'seq'?"
    )
    for bad in ("batch", "batch=x", "batch=0", "=3", "batch=-1"):
        assert said(command, OPEN, ["--dim", bad]) == (
            f"--dim wants NAME=N with N of at least 1, got {bad!r}"
        )


@pytest.mark.parametrize("command", ["apply", "check", "measure"])
def test_a_plan_with_other_dimensions(said: Any, command: str) -> None:
    assert said(command, OPEN, ["--dim", "seq=5"]) == (
        "plan.json: the plan is for batch=1 seq=4, not for seq=5; "
        "leave out --dim, or plan the model with these dimensions"
    )
    assert said(command, OPEN, ["--dim", "bach=1"]) == (
        "plan.json: unknown dimension 'bach'; the plan is for batch=1 seq=4; did you mean 'batch'?"
    )


@pytest.mark.parametrize("command", ["apply", "fuse", "measure"])
def test_external_data_that_is_missing(said: Any, command: str, tmp_path: Path) -> None:
    made = model([node("MatMul", "x,w", "y", "m")], weights=[weight("w", 4, 4)])
    tensor = made.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    path, plan = tmp_path / "m.onnx", tmp_path / "plan.json"
    path.write_bytes(made.SerializeToString())
    assert main(["solve", str(path), "-o", str(plan)]) == 0
    assert json.loads(plan.read_text())["slab"] == 64
    missing = "w.bin: the model's data is not there; put the file beside it"
    assert said(command, made).removeprefix("m.onnx: ") == missing


def test_a_branch_without_the_output_of_its_op(said: Any) -> None:
    branches = [
        onnx.helper.make_graph([node("Exp", "x", name)], name, [], [value(name)][:count])
        for name, count in (("one", 1), ("other", 0))
    ]
    choice = node("If", "c", "y", "choice", then_branch=branches[0], else_branch=branches[1])
    inputs = [value("x"), value("c", (), onnx.TensorProto.BOOL)]
    made = model([choice], inputs, [value("y", None)])
    assert "op 'choice' (If): the size of its output 'y' depends on" in said("solve", made)
