"""ONNX Runtime follows the plan: order, bytes held, outputs; kernels as in our tables."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="the extra runtimes is not installed")

ROOT = Path(__file__).parents[3]
MODELS = ("branches", "cell", "control", "encoder", "forks", "iterations")


def experiment(*arguments: str) -> str:
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("the counter of heap blocks wants Linux and a C compiler")
    command = [sys.executable, "-m", "experiments.runtimes.onnxruntime", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def runs() -> dict[tuple[str, str], dict[str, Any]]:
    rows = json.loads(experiment("trip", "--json"))
    return {(row["model"], row["order"]): row for row in rows}


@pytest.mark.parametrize("model", MODELS)
def test_planned_is_held_within_two_percent(runs: Any, model: str) -> None:
    for order in ("DEFAULT", "file", "ours"):
        row = runs[model, order]
        assert row["planned"] <= row["held"] <= 1.02 * row["planned"]


@pytest.mark.parametrize("model", MODELS)
def test_our_order_is_kept_and_changes_no_output(runs: Any, model: str) -> None:
    row = runs[model, "ours"]
    assert row["kept_order"]
    assert row["same_outputs"]


@pytest.mark.parametrize("model", MODELS)
def test_ours_holds_no_more_than_the_default_order(runs: Any, model: str) -> None:
    ours = runs[model, "ours"]
    assert ours["held"] <= runs[model, "DEFAULT"]["held"]
    assert ours["held"] <= runs[model, "given"]["held"] <= runs[model, "given"]["reuse"]
    assert ours["planned"] == ours["bound"]


def test_forks_are_a_quarter_lower(runs: Any) -> None:
    assert runs["forks", "ours"]["held"] <= 0.73 * runs["forks", "given"]["held"]


def test_the_table_of_kernels_that_write_in_place_is_what_is_measured() -> None:
    assert experiment("inplace").startswith("in place (")


def test_random_models_hold_what_was_planned() -> None:
    assert experiment("random", "--count", "60").startswith("60 random models hold")


def test_the_projects_models_are_what_its_script_writes(tmp_path: Path) -> None:
    from tests.support.onnx_models import MODELS as MAKERS

    for make in MAKERS:
        path = make(tmp_path)
        assert path.read_bytes() == (ROOT / "instances" / "onnx" / path.name).read_bytes()
