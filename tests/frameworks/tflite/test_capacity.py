"""A capacity is that of the whole arena: the planned head, and the interpreter's tail."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Cli

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


def solved(cli: Cli, *words: object, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = cli.json("solve", *words, "--time-limit", 10, code=code)
    return found


def test_a_head_that_fits_alone_does_not_fit(dense: str, cli: Cli) -> None:
    assert isinstance(tflm_report.arena(Path(dense).read_bytes(), 96), str)
    for bits in ("32", "64"):
        record = solved(cli, dense, "--capacity", "96", "--tail", bits, code=4)
        assert (record["status"], record["capacity"]) == ("infeasible", 96)
    assert "96 bytes leave 0 for the slab, after a tail of" in cli(
        "solve", dense, "--capacity", "96", code=4
    )
    solved(cli, dense, "--capacity", "96", "--tail", "none")


def test_what_preparing_may_take_is_not_said_to_fit(dense: str, cli: Cli) -> None:
    (row, _) = solved(cli, dense)["arena"]
    between = row["head"] + row["tail"] + 16
    assert between < row["bytes"]
    assert "TFLite Micro may take" in cli("solve", dense, "--capacity", between, code=5)
    assert main(["solve", dense, "--capacity", str(row["bytes"])]) == 0


@pytest.mark.parametrize("name", ["inception", "mlp", "keyword_spotting", "decoder"])
def test_the_interpreter_runs_in_the_array_that_is_printed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    model, plan, planned = MODELS / f"{name}.tflite", tmp_path / "p.json", tmp_path / "p.tflite"
    assert main(["solve", str(model), "-o", str(plan), "--time-limit", "10"]) in (0, 3)
    capsys.readouterr()
    small, large = cli.json("apply", model, plan, "-o", planned)["arena"]
    assert (small["pointer"], large["pointer"]) == (4, 8)
    data = planned.read_bytes()
    run = run_model(data, large["bytes"])
    assert (run.head, run.tail) == (large["head"], large["tail"])
    record = solved(cli, str(model), "--capacity", str(large["bytes"]), "--tail", "64")
    assert record["within"]["needed"] <= large["bytes"]  # type: ignore[index]


def test_the_header_has_the_size_of_the_array(tmp_path: Path, cli: Cli) -> None:
    model, plan, header = str(MODELS / "mlp.tflite"), tmp_path / "p.json", tmp_path / "p.h"
    _, large = cli.json("solve", model, "-o", plan)["arena"]
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


def test_a_kernel_that_is_not_modeled_is_named(tmp_path: Path, cli: Cli) -> None:
    net = TfliteNet()
    net.outputs = [net.op("SignalFramer", [net.input(1, 16)], 1, 16)]
    (tmp_path / "net.tflite").write_bytes(net.bytes())
    text = cli("solve", tmp_path / "net.tflite")
    assert "not counted in the tail: what kernels keep for 'SignalFramer'" in text


def test_the_option_is_for_models_of_tflite_micro(tmp_path: Path, cli: Cli) -> None:
    graph = tmp_path / "g.json"
    graph.write_text('{"format": "optsched-graph/1", "name": "g", "ops": [], "buffers": []}')
    assert "--tail is for models of TFLite Micro" in cli.error(
        "solve", graph, "--capacity", "9", "--tail", "32"
    )


def test_all_networks_have_a_tail_without_unknown_kernels() -> None:
    for name in NETWORKS:
        graph = read_graph(MODELS / f"{name}.tflite")
        assert graph.origin is not None
        assert [tail.unknown for tail in graph.origin.tails] == [(), ()]
