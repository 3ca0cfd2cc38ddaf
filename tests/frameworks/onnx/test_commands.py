"""From the command line: plan a model, put the plan back, compare with the runtime's order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")

from optsched import peak_memory, read_graph  # noqa: E402
from optsched.cli import main  # noqa: E402
from optsched.formats import read_recorded  # noqa: E402

MODELS = Path(__file__).parents[3] / "instances" / "onnx"
OPEN = {"encoder": ["--dim", "batch=2"]}


@pytest.mark.parametrize("name", ["branches", "cell", "control", "encoder", "forks", "iterations"])
def test_solve_check_apply(name: str, tmp_path: Path) -> None:
    model, plan, out = MODELS / f"{name}.onnx", tmp_path / "plan.json", tmp_path / "planned.onnx"
    options = OPEN.get(name, [])
    solve = ["solve", str(model), "--inplace", "--time-limit", "20", "-o", str(plan)]
    assert main([*solve, *options]) == 0
    assert main(["check", str(model), str(plan), "--inplace", *options]) == 0
    assert main(["apply", str(model), str(plan), "-o", str(out), *options]) == 0
    dims = {"batch": 2} if options else {}
    graph = read_graph(out, dims=dims).with_inplace()
    found = peak_memory(graph, tuple(range(len(graph.ops))))
    assert found == json.loads(plan.read_text())["peak"]
    onnx.checker.check_model(onnx.load(out), full_check=True)


def test_compare_knows_the_runtimes_own_order(capsys: pytest.CaptureFixture[str]) -> None:
    model = str(MODELS / "forks.onnx")
    arguments = ["compare", model, "--methods", "ort,optsched:20", "--inplace", "--json"]
    assert main(arguments) == 0
    (rows,) = (json.loads(capsys.readouterr().out)["rows"],)
    peaks = {row["method"]: row["peak"] for row in rows}
    assert (peaks["ort"], peaks["optsched:20"]) == (409_600, 294_912)


def test_an_open_dimension_is_said_with_how_to_give_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["solve", str(MODELS / "encoder.onnx")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "1 dimension is open: batch; try --dim batch=1" in said
    # The suggested line is accepted as it is.
    line = said.rpartition("; try ")[2].split()
    assert main(["solve", str(MODELS / "encoder.onnx"), *line]) == 0


def test_info_describes_a_model_that_cannot_be_planned_yet(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["info", str(MODELS / "encoder.onnx")]) == 0
    said = capsys.readouterr().out
    for words in (
        "x [batch, 128, 64]",
        "open           batch",
        "--dim batch=1",
        "not planned",
    ):
        assert words in said


def test_a_profile_is_refused_where_none_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    graph = next((MODELS.parent / "small").glob("*.json"))
    assert main(["info", str(graph), "--profile", "p.json"]) == 2
    assert "do not use a profile" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["branches", "cell", "control", "encoder", "forks", "iterations"])
def test_the_runtimes_default_order_is_the_one_that_it_runs(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra runtimes is not installed")
    from experiments.runtimes.onnxruntime.session import profiled, random_inputs

    model = MODELS / f"{name}.onnx"
    profile = profiled(model, "DEFAULT", random_inputs(model, {"batch": 2}), tmp_path)
    assert read_recorded(model) == read_recorded(model, profile=profile)
