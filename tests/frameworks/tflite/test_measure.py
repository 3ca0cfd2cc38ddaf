"""The command measure runs models in TFLite Micro: its arena's head is the planned slab."""

from __future__ import annotations

import json
from importlib import util
from pathlib import Path

import pytest

from tests.support.commands import Cli

pytest.importorskip("tflite", reason="the schema package is not installed: make test-frameworks")
pytest.importorskip("tflite_micro", reason="TFLite Micro is not installed: make test-frameworks")

from optsched.cli import main
from tests.support.tflite_builder import TfliteNet

MODELS = Path(__file__).parents[3] / "instances" / "tflite"


@pytest.mark.parametrize("name", ["inception", "int8_branches", "mlp"])
def test_the_planned_bytes_are_held(name: str, tmp_path: Path, cli: Cli) -> None:
    model, plan = str(MODELS / f"{name}.tflite"), str(tmp_path / "plan.json")
    cli("solve", model, "--time-limit", "20", "-o", plan)
    record = cli.json("measure", model, plan)
    for when in ("before", "after"):
        assert record[when]["held"] == record[when]["planned"]
    assert record["same_outputs"] is True
    assert record["after"]["held"] == json.loads(Path(plan).read_text())["slab"]


def test_an_op_without_a_kernel_is_named(tmp_path: Path, cli: Cli) -> None:
    net = TfliteNet()
    net.op("OwnProduct", [net.input(2, 2)], 2)
    model = tmp_path / "product.tflite"
    model.write_bytes(net.bytes())
    (line,) = cli.error("measure", model).splitlines()
    assert line.endswith("product.tflite: TFLite Micro does not run it: no kernel for CUSTOM")


def test_a_missing_runtime_is_one_line(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.setattr(
        "optsched.measure.tflm.find_spec",
        lambda name: None if name == "tflite_micro" else util.find_spec(name),
    )
    (line,) = cli.error("measure", MODELS / "mlp.tflite").splitlines()
    assert line.startswith("optsched: error: tflite-micro is not installed; run: pip install ")


def test_a_file_with_a_plan_is_measured_against_the_model(tmp_path: Path, cli: Cli) -> None:
    model, plan, planned = (str(tmp_path / name) for name in ("m.tflite", "p.json", "p.tflite"))
    Path(model).write_bytes((MODELS / "inception.tflite").read_bytes())
    assert main(["solve", model, "--time-limit", "20", "-o", plan]) == 0
    cli("apply", model, plan, "-o", planned)
    text = cli("measure", model, planned)
    assert "after   planned 45,056, held 45,056 bytes (exactly)" in text
    assert "arena   head 45,056 + tail 7,648 = 52,704 bytes after" in text
    assert "ms of the processor per inference" in text
    other = str(MODELS / "mlp.tflite")
    assert "inputs or outputs are not those of" in cli.error("measure", model, other)
