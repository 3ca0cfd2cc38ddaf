"""The command tile: one question, a file or a plan, a certificate, and clear refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.commands import Cli, Codes

pytest.importorskip("tflite", reason="the schema package is not installed: make test-frameworks")
pytest.importorskip("flatbuffers", reason="test models need it: make test-frameworks")

import optsched
from optsched import read_graph
from optsched.errors import OptschedError, PlanError, UsageError
from optsched.formats.answers import Asked, open_answer
from optsched.formats.tflite.graph import read_tflite
from optsched.formats.tflite.model import read_model
from optsched.formats.tflite.tail import arena_tail
from tests.support.microcontroller_networks import mobilenet2
from tests.support.tflite_builder import INT8, TfliteNet


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tile") / "net.tflite"
    path.write_bytes(mobilenet2(96).bytes())
    return path


def run(cli: Cli, *line: object, code: Codes = 0) -> pytest.CaptureResult[str]:
    return cli.both(*line, *(("--time-limit", 20) if line[0] == "tile" else ()), code=code)


def record(cli: Cli, *line: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(cli, *line, "--json", code=None).out)
    return found


def test_a_capacity_is_kept_by_the_cheapest_plan(model: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "tiled.tflite"
    found = record(cli, "tile", model, "--capacity", "110KB", "-o", str(out))
    assert found["status"] == "optimal"
    assert found["arena"] == found["head"] + found["tail"] <= 110_000 < found["arena_before"]
    assert 0 < found["extra"] < 0.05
    stage = found["stages"][0]
    assert stage["bands"] > 1
    assert stage["live"] < stage["live_untiled"]
    # The head that the file's own offsets give, and the tail of its operators and tensors.
    assert read_tflite(out.read_bytes(), "net").graph.ops
    assert arena_tail(read_model(out.read_bytes()), 4).tail <= found["tail"]
    err = run(cli, "tile", out, code=2).err
    assert "the file is tiled already: plan it as it is, or tile its original" in err


def test_a_plan_and_its_certificate_are_checked(model: Path, tmp_path: Path, cli: Cli) -> None:
    plan, proof = str(tmp_path / "plan.json"), str(tmp_path / "proof.json")
    line = ("tile", str(model), "--extra", "3%", "-o", plan, "--certificate", proof)
    out = run(cli, *line).out
    assert out.startswith("arena ")
    assert "more multiplications against TFLite Micro's own planner; no tiling in rows, " in out
    out = run(cli, "check", model, plan, proof).out
    assert "every row made of the rows that it needs" in out
    assert "proved: no head below" in out
    document = json.loads(Path(plan).read_text())
    document["tiling"]["stages"][0]["bands"] += 1
    Path(plan).write_text(json.dumps(document))
    run(cli, "check", model, plan, code=1)
    certificate = json.loads(Path(proof).read_text())
    Path(proof).write_text(json.dumps({**certificate, "bound": certificate["bound"] + 16}))
    run(cli, *line[:6])
    err = run(cli, "check", model, plan, proof, code=1).err
    assert "bytes" in err


def test_a_front_has_plans_that_do_not_beat_each_other(
    model: Path, tmp_path: Path, cli: Cli
) -> None:
    page = tmp_path / "front.html"
    found = record(cli, "tile", model, "--points", "5", "--page", str(page))
    sizes = [point["arena"] for point in found["front"]]
    extras = [point["extra"] for point in found["front"]]
    assert sizes == sorted(sizes, reverse=True)
    assert extras == sorted(extras)
    assert "The slab after" in page.read_text()


def test_a_capacity_that_no_tiling_meets_is_refuted(model: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "tiled.tflite"
    line = ("tile", str(model), "--capacity", "10KB", "--objective", "head", "-o", str(out))
    shown = run(cli, *line, code=4).out
    assert "stands in the way" in shown
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bands", "1"], "--bands: a stage has at least 2 bands, got 1"),
        (["--capacity", "1KB", "--extra", "5%"], "give --capacity or --extra, not both"),
        (["--extra", "-5%"], "--extra: expected a share such as 5% or 0.05, got '-5%'"),
        (["--keep-whole", "CONV_2D_999"], "op 'CONV_2D_999' is not in graph 'net'"),
        (["--align-rows", "12"], "alignment of rows must be a power of two, got 12"),
        (["--points", "1"], "a front has at least 2 points, got 1"),
        (["--output", "net.onnx"], "a tiled model is written to a file that ends in .tflite"),
    ],
)
def test_questions_that_cannot_be_asked(
    model: Path, options: list[str], message: str, cli: Cli
) -> None:
    options = [f"{options[0]}={options[1]}", *options[2:]]
    err = run(cli, "tile", model, *options, code=2).err
    assert message in err


def test_other_commands_point_to_tiling_where_no_order_needs_less(
    model: Path, tmp_path: Path, cli: Cli
) -> None:
    shown = run(cli, "explain", model, code=None).out
    found = record(cli, "tile", model, "--extra", "5%")
    share = found["arena"] / found["arena_before"]
    assert f"no order needs less; optsched tile: {share:.2f} of the arena at" in shown
    shown = run(cli, "solve", model, "--capacity", "110KB", code=4).out
    assert "optsched tile: 0.5" in shown
    assert "of the arena, which fits 110,000 bytes, at " in shown
    shown = run(cli, "solve", model, "--capacity", "40KB", code=None).out
    assert "48 bands fits either, proved" in shown
    # Nothing is said where the model fits, and where bands save nothing.
    shown = run(cli, "solve", model, "--capacity", "1MB", code=None).out
    assert "optsched tile" not in shown
    net = TfliteNet(1, INT8)
    net.outputs = [net.dense(net.input(1, 64, name="x"), 32)]
    dense = tmp_path / "dense.tflite"
    dense.write_bytes(net.bytes())
    shown = run(cli, "explain", dense, code=None).out
    assert "an order with this peak was found" in shown
    assert "optsched tile" not in shown


def test_files_that_cannot_be_tiled(tmp_path: Path, cli: Cli) -> None:
    from tests.support.families.small import diamond

    graph = tmp_path / "graph.json"
    optsched.write_graph(diamond(), graph)
    err = run(cli, "tile", graph, code=2).err
    assert "cannot be tiled: only TFLite Micro takes offsets of rows" in err
    net = TfliteNet(1, INT8)
    x = net.input(2, 8, 4, 2, name="x")
    net.outputs = [net.conv(x, 3)]
    batch = tmp_path / "batch.tflite"
    batch.write_bytes(net.bytes())
    err = run(cli, "tile", batch, code=2).err
    assert "no op is row-local, so nothing runs in bands" in err
    assert len(err.strip().splitlines()) == 1


def net_of(**fields: Any) -> TfliteNet:
    """Return three convolutions; the second one has a large input and a small result."""
    net = TfliteNet(1, INT8)
    x = net.input(1, 48, 48, 4, name="x", **fields)
    net.outputs = [net.conv(net.conv(net.conv(x, 32), 32, stride=2), 4)]
    return net


def other_subgraph() -> TfliteNet:
    net = net_of()
    # The interpreter gives it bytes, though nothing runs it.
    net.more_subgraphs = [net_of()]
    return net


def called_subgraph() -> TfliteNet:
    net, branch = net_of(), TfliteNet(2, INT8)
    branch.outputs = [branch.conv(branch.input(1, 24, 24, 4), 4)]
    net.more_subgraphs = [branch]
    flag, result = net.input(1, type=6, scale=()), net.outputs[0]
    net.outputs = [net.op("IF", [flag, result], 1, 24, 24, 4, then=1, otherwise=1)]
    return net


def stateful() -> TfliteNet:
    net = TfliteNet(1, INT8)
    state = net.tensor(1, 16, 8, 4, variable=True, name="state")
    net.outputs = [net.add(net.input(1, 16, 8, 4, name="x"), state)]
    return net


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (other_subgraph, "gives offsets of tensors to those of other subgraphs as well"),
        (called_subgraph, "operators run other subgraphs"),
        (stateful, "so nothing runs in bands: variable 'state' keeps its bytes from run to run"),
        (
            lambda: net_of(signature=(1, -1, -1, 4)),
            "input 'x' has open sizes (1, -1, -1, 4): give it a shape",
        ),
    ],
)
def test_models_that_cannot_be_tiled_are_refused_and_nothing_is_written(
    net: Callable[[], TfliteNet], message: str, tmp_path: Path, cli: Cli
) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(net().bytes())
    files = [tmp_path / name for name in ("out.tflite", "proof.json", "page.html")]
    options = zip(("-o", "--certificate", "--page"), map(str, files), strict=True)
    out, err = run(cli, "tile", model, *[x for pair in options for x in pair], code=2)
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert not any(file.exists() for file in files)
    with pytest.raises(OptschedError, match=re.escape(message)):
        optsched.tile(model, time_limit=5)


def test_an_open_batch_is_that_in_the_file(tmp_path: Path, cli: Cli) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="make test-frameworks")
    model, tiled = tmp_path / "net.tflite", tmp_path / "tiled.tflite"
    model.write_bytes(net_of(signature=(-1, 48, 48, 4)).bytes())
    found = record(cli, "tile", model, "--objective", "head", "-o", str(tiled))
    assert found["stages"]
    x = np.random.default_rng(1).integers(-128, 128, (3, 48, 48, 4)).astype(np.int8)

    def outputs(file: Path, batch: int) -> bytes:
        made = litert.Interpreter(str(file))
        (at,) = made.get_input_details()
        made.resize_tensor_input(at["index"], (batch, 48, 48, 4))
        made.allocate_tensors()
        made.set_tensor(at["index"], x[:batch])
        made.invoke()
        found: bytes = made.get_tensor(made.get_output_details()[0]["index"]).tobytes()
        return found

    assert outputs(tiled, 1) == outputs(model, 1)
    assert len(outputs(model, 3)) == 3 * 24 * 24 * 4
    with pytest.raises(RuntimeError, match="SLICE"):
        outputs(tiled, 3)


def test_numbers_of_bands_above_the_rows_of_all_results_ask_nothing_more(model: Path) -> None:
    most, more = (
        optsched.tile(model, bands=bands, extra=0.02, objective="head", time_limit=30)
        for bands in (96, 10**21)
    )
    assert most.status is more.status is optsched.Status.OPTIMAL
    assert most.best is not None
    assert more.best is not None
    assert (most.best.head, most.bound) == (more.best.head, more.bound)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"model": 3}, "tile(): model must be str | Path | Rows, got 3"),
        ({"points": 2.5}, "a front has at least 2 points, got 2.5"),
        ({"keep_whole": "CONV_2D_999"}, "op 'CONV_2D_999' is not in graph 'net'"),
    ],
)
def test_wrong_arguments_of_the_function(model: Path, wrong: Any, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        optsched.tile(**{"model": model, "time_limit": 5, **wrong})


def test_the_function_answers_as_the_command(model: Path) -> None:
    result = optsched.tile(model, capacity="110KB", time_limit=20)
    assert result.status is optsched.Status.OPTIMAL
    assert result.best is not None
    assert result.best.arena <= 110_000
    assert result.best.proved


def test_a_plan_in_row_bands_is_shown_with_its_model(model: Path, tmp_path: Path, cli: Cli) -> None:
    plan, page = str(tmp_path / "plan.json"), str(tmp_path / "page.html")
    stated = record(cli, "tile", model, "--extra", "3%", "--objective", "head", "-o", plan)
    shown = record(cli, "report", model, plan, "-o", page, "--time-limit", "5")
    assert shown["plans"][0]["slab"] <= stated["head"] < shown["plans"][0]["slab"] + 16
    assert shown["among"] == shown["saving"]["among"] == "orders with this tiling"
    assert shown["slab_bound"] <= stated["head"] < shown["saving"]["before"]
    assert "among orders with this tiling" in Path(page).read_text()
    for option, why in (
        (["--best"], "no --best for it; optsched tile finds others"),
        (["--methods", "lpmf"], "no --methods for it; optsched tile finds others"),
        (["--align", "64"], "no --align for it; --align is about the reading of graphs"),
        ([plan], "a plan in row bands has a graph of its own: show it alone"),
    ):
        out, err = run(cli, "report", model, plan, *option, "-o", page, code=2)
        assert (out, err.count("\n")) == ("", 1)
        assert "a plan in row bands" in err
        assert why in err
    # Where a graph is given, no row maps are there to check it.
    lines = ["compare", str(model), "--plan", f"mine={plan}", "--methods", "lpmf"]
    out = run(cli, *lines, code=None).out
    words = " ".join(out.split())
    assert "a plan in row bands needs the untiled model's file (.tflite), got graph 'net'" in words
    with pytest.raises(UsageError, match=r"got graph 'net'; optsched check takes both files"):
        open_answer(plan, Asked(read_graph(model)))
    with pytest.raises(UsageError, match="in row bands; give the untiled model's file as well"):
        optsched.export_plan(plan, tmp_path / "plan.csv", to="csv")
    with pytest.raises(PlanError, match=r"in row bands: give it to check with the model's file"):
        optsched.read_plan(plan, read_graph(model))
