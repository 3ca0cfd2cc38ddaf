"""Commands that need a model file print the saving in their first lines, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Cli

MODELS = Path(__file__).parents[2] / "instances"
CASES = {
    "onnx": MODELS / "onnx" / "forks.onnx",
    "tflite": MODELS / "tflite" / "keyword_spotting.tflite",
}


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("command", ["check", "apply", "measure"])
def test_a_command_begins_with_the_saving(
    command: str, kind: str, tmp_path: Path, cli: Cli
) -> None:
    pytest.importorskip(kind, reason=f"the extra {kind} is not installed")
    if command == "measure":
        runtime = {"onnx": "onnxruntime", "tflite": "tflite_micro"}[kind]
        pytest.importorskip(runtime, reason="the extra runtimes is not installed")
    plan, out = str(tmp_path / "plan.json"), str(tmp_path / f"planned.{kind}")
    cli("solve", CASES[kind], "-o", plan)
    more = ["-o", out] if command == "apply" else []
    first = cli(command, CASES[kind], plan, *more).splitlines()[0]
    assert " bytes" in first
    assert "against " in first or "held " in first or "as with " in first
