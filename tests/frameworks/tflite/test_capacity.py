"""A capacity is that of the whole arena: the planned head, and the interpreter's tail."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("tflite", reason="the schema package is not installed: make test-frameworks")
pytest.importorskip("tflite_micro", reason="TFLite Micro is not installed: make test-frameworks")

from optsched import fits, read_graph
from optsched.cli import main
from optsched.measure.tflm import run_model
from tests.support import tflm_report
from tests.support.tflite_builder import TfliteNet
from tests.support.tflm_models import MODELS as NETWORKS

MODELS = Path(__file__).parents[3] / "instances" / "tflite"


@pytest.fixture
def dense(tmp_path: Path) -> str:
    """A dense layer: a head of 96 bytes, and a tail of several times that."""
    net = TfliteNet()
    net.outputs = [net.dense(net.input(1, 16), 8)]
    (tmp_path / "dense.tflite").write_bytes(net.bytes())
    return str(tmp_path / "dense.tflite")


def solved(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    code = main(["solve", *words, "--json", "--time-limit", "10"])
    return code, json.loads(capsys.readouterr().out)


def test_a_head_that_fits_alone_does_not_fit(
    dense: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(tflm_report.arena(Path(dense).read_bytes(), 96), str)
    for bits in ("32", "64"):
        code, record = solved(capsys, dense, "--capacity", "96", "--tail", bits)
        assert (code, record["status"], record["capacity"]) == (4, "infeasible", 96)
    assert main(["solve", dense, "--capacity", "96"]) == 4
    assert "96 bytes leave 0 for the slab, after a tail of" in capsys.readouterr().out
    assert solved(capsys, dense, "--capacity", "96", "--tail", "none")[0] == 0


def test_what_preparing_may_take_is_not_said_to_fit(
    dense: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (row, _) = solved(capsys, dense)[1]["arena"]  # type: ignore[misc]
    between = row["head"] + row["tail"] + 16
    assert between < row["bytes"]
    assert main(["solve", dense, "--capacity", str(between)]) == 5
    assert "TFLite Micro may take" in capsys.readouterr().out
    assert main(["solve", dense, "--capacity", str(row["bytes"])]) == 0


@pytest.mark.parametrize("name", ["inception", "mlp", "keyword_spotting", "decoder"])
def test_the_interpreter_runs_in_the_array_that_is_printed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, plan, planned = MODELS / f"{name}.tflite", tmp_path / "p.json", tmp_path / "p.tflite"
    assert main(["solve", str(model), "-o", str(plan), "--time-limit", "10"]) in (0, 3)
    capsys.readouterr()
    assert main(["apply", str(model), str(plan), "-o", str(planned), "--json"]) == 0
    small, large = json.loads(capsys.readouterr().out)["arena"]
    assert (small["pointer"], large["pointer"]) == (4, 8)
    data = planned.read_bytes()
    run = run_model(data, large["bytes"])
    assert (run.head, run.tail) == (large["head"], large["tail"])
    code, record = solved(capsys, str(model), "--capacity", str(large["bytes"]), "--tail", "64")
    assert code == 0
    assert record["within"]["needed"] <= large["bytes"]  # type: ignore[index]


def test_the_header_has_the_size_of_the_array(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, plan, header = str(MODELS / "mlp.tflite"), tmp_path / "p.json", tmp_path / "p.h"
    assert main(["solve", model, "-o", str(plan), "--json"]) == 0
    _, large = json.loads(capsys.readouterr().out)["arena"]
    assert main(["export", str(plan), model, "--to", "c-header", "-o", str(header)]) == 0
    check = f"static char a[MLP_TENSOR_ARENA_BYTES == {large['bytes']} ? 1 : -1];"
    (tmp_path / "c.c").write_text(f'#include "p.h"\n{check}\nint main(void) {{ return a[0]; }}\n')
    subprocess.run(["gcc", "-std=c99", "-Wall", "-c", "c.c"], cwd=tmp_path, check=True)


def test_fits_counts_the_tail(dense: str) -> None:
    graph = read_graph(dense)
    found = fits(graph, 96)
    assert not found
    assert "and the tail 392 with pointers of 4 bytes" in str(found)
    assert fits(graph, "2KiB")


def test_a_kernel_that_is_not_modeled_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = TfliteNet()
    net.outputs = [net.op("SignalFramer", [net.input(1, 16)], 1, 16)]
    (tmp_path / "net.tflite").write_bytes(net.bytes())
    assert main(["solve", str(tmp_path / "net.tflite")]) == 0
    text = capsys.readouterr().out
    assert "not counted in the tail: what kernels keep for 'SignalFramer'" in text


def test_the_option_is_for_models_of_tflite_micro(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = tmp_path / "g.json"
    graph.write_text('{"format": "optsched-graph/1", "name": "g", "ops": [], "buffers": []}')
    assert main(["solve", str(graph), "--capacity", "9", "--tail", "32"]) == 2
    assert "--tail is for models of TFLite Micro" in capsys.readouterr().err


def test_all_networks_have_a_tail_without_unknown_kernels() -> None:
    for name in NETWORKS:
        graph = read_graph(MODELS / f"{name}.tflite")
        assert graph.origin is not None
        assert [tail.unknown for tail in graph.origin.tails] == [(), ()]
