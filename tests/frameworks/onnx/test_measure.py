"""The command measure runs models in ONNX Runtime: held is planned, or the rest has a cause."""

from __future__ import annotations

import html
import io
import json
import shutil
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Cli

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
onnxruntime = pytest.importorskip(
    "onnxruntime", reason="ONNX Runtime is not installed: make test-frameworks"
)

from optsched import compare_methods, fits, read_graph, solve  # noqa: E402
from optsched.cli import main  # noqa: E402
from optsched.formats.onnx import session  # noqa: E402
from optsched.formats.onnx.session import request  # noqa: E402
from optsched.measure.onnxruntime import run_all  # noqa: E402
from optsched.measure.ort_settings import SessionSettings  # noqa: E402
from optsched.model.saving import change  # noqa: E402
from tests.frameworks.onnx.build import model as net  # noqa: E402
from tests.frameworks.onnx.build import node, value, weight  # noqa: E402

MODELS = Path(__file__).parents[3] / "instances" / "onnx"


def measured(model: Path, folder: Path, cli: Cli, *options: str) -> dict[str, Any]:
    """Plan and measure a model; return the record of the measurement."""
    plan = folder / "plan.json"
    cli("solve", model, "--time-limit", 20, "-o", plan, *options)
    record: dict[str, Any] = cli.json("measure", model, plan)
    return record


@pytest.mark.parametrize("name", ["branches", "cell", "control", "encoder", "forks", "iterations"])
def test_the_planned_bytes_are_held(name: str, tmp_path: Path, cli: Cli) -> None:
    options = ["--dim", "batch=2"] if name == "encoder" else []
    record = measured(MODELS / f"{name}.onnx", tmp_path, cli, *options)
    assert record["same_outputs"] is True
    assert record["after"]["close"]
    assert record["after"]["held"] <= record["before"]["held"]


def test_the_default_settings_keep_freed_buffers(tmp_path: Path, cli: Cli) -> None:
    record = measured(MODELS / "forks.onnx", tmp_path, cli)
    assert (record["before"]["held"], record["after"]["held"]) == (573_440, 294_912)
    assert record["before"]["causes"] == {"freed buffers kept for reuse": 163_840}
    assert record["after"]["causes"] == {}


def test_scratch_is_named(tmp_path: Path, cli: Cli) -> None:
    made = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        windows (float[1, 2, 33, 33] x, float[4, 2, 3, 3] w) => (float[1, 4, 31, 31] y) {
            a = Sin(x)
            y = Conv(a, w)
        }"""
    )
    model = tmp_path / "windows.onnx"
    onnx.save(made, model)
    plan = str(tmp_path / "plan.json")
    cli("solve", model, "-o", plan)
    out = cli("measure", model, plan)
    assert "  after   planned " in out
    assert "kernel scratch, measured, +" in out
    assert "outputs equal bit for bit" in out


def test_an_order_that_the_basic_level_loses_is_kept_without_optimizations(
    tmp_path: Path, cli: Cli
) -> None:
    """A Gemm in the place of MatMul and Add runs after all other ops: all `h` would be live."""
    parts = range(3)
    ops = [
        f"h{i} = MatMul(x, w{i}) s{i} = MatMul(h{i}, v{i}) t{i} = Add(s{i}, b{i})" for i in parts
    ]
    weights = [f"float[16, 1024] w{i}, float[1024, 4] v{i}, float[4] b{i}" for i in parts]
    made = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        split (float[2, 16] x, {", ".join(weights)}) => (float[2, 12] y) {{
            {" ".join(ops)}
            y = Concat<axis = 1>(t0, t1, t2)
        }}"""
    )
    model = tmp_path / "split.onnx"
    onnx.save(made, model)
    record = measured(model, tmp_path, cli)
    assert record["after"]["close"]
    assert record["after"]["held"] < record["fused"]
    assert record["same_outputs"] is True
    assert any(note.startswith("after is without optimizations") for note in record["notes"])
    plan, applied = str(tmp_path / "plan.json"), str(tmp_path / "planned.onnx")
    found = cli.json("apply", model, plan, "-o", applied)["held"]
    assert found["held"] <= record["after"]["held"]


def test_a_model_alone(cli: Cli) -> None:
    assert cli("measure", MODELS / "forks.onnx").splitlines()[:2] == [
        f"forks: held 573,440 bytes in ONNX Runtime {onnxruntime.__version__}",
        "  before  planned 409,600, held 573,440 bytes (+40 %): "
        "freed buffers kept for reuse +163,840",
    ]


def test_a_fused_model_is_planned_as_it_runs(tmp_path: Path, cli: Cli) -> None:
    fused = tmp_path / "fused.onnx"
    assert main(["convert", str(MODELS / "cell.onnx"), "--to", "onnx-fused", "-o", str(fused)]) == 0
    record = measured(fused, tmp_path, cli)
    assert record["fused"] is None
    # Changes of layout are left to the session, and are measured.
    before = record["before"]
    assert sum(before["causes"].values()) == before["difference"]
    assert record["after"]["close"]


def test_a_missing_runtime_is_one_line(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.setattr(
        "optsched.measure.onnxruntime.find_spec",
        lambda name: None if name == "onnxruntime" else util.find_spec(name),
    )
    (line,) = cli.error("measure", MODELS / "forks.onnx").splitlines()
    assert line.startswith("optsched: error: onnxruntime is not installed; run: pip install ")


def test_a_model_that_does_not_run_is_one_line(tmp_path: Path, cli: Cli) -> None:
    made = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        odd (float[4] x, float[3] z) => (float[4] y) { y = Add(x, z) }"""
    )
    model = tmp_path / "odd.onnx"
    onnx.save(made, model)
    (line,) = cli.error("measure", model).splitlines()
    assert line.startswith("optsched: error: ")


@pytest.mark.parametrize("kind", ["HardSwish", "Mish"])
def test_ops_that_run_as_a_product_hold_its_second_factor(
    kind: str, tmp_path: Path, cli: Cli
) -> None:
    nodes = [node("Exp", "x", "a"), node(kind, "a", "b"), node(kind, "b", "c")]
    nodes.append(node("ReduceSum", "c", "y", keepdims=0))
    made = net(nodes, [value("x", [64, 64])], [value("y", [])], opset=18)
    onnx.save(made, tmp_path / "net.onnx")
    record = measured(tmp_path / "net.onnx", tmp_path, cli)
    assert record["after"]["planned"] == record["after"]["held"] == 3 * 64 * 64 * 4


@pytest.mark.parametrize("name", ["branches", "cell", "control", "encoder", "forks", "iterations"])
def test_the_settings_that_apply_names_hold_no_more_than_the_default(
    name: str, tmp_path: Path, cli: Cli
) -> None:
    model, plan, out = str(MODELS / f"{name}.onnx"), str(tmp_path / "p"), str(tmp_path / "o.onnx")
    dims = ["--dim", "batch=2"] if name == "encoder" else []
    cli("solve", model, *dims, "--time-limit", "10", "-o", plan)
    found = cli.json("apply", model, plan, "-o", out)
    assert found["held"]["held"] <= found["held"]["default"]
    for setting in found["held"]["settings"]:
        assert f"options.{setting} = " in found["load"] or found["load"].startswith(
            "Keep your file"
        )


def test_a_file_is_kept_where_a_plan_gains_too_little(tmp_path: Path, cli: Cli) -> None:
    """Of a plan that gains, the settings are a program to paste."""
    plan, out = str(tmp_path / "plan.json"), str(tmp_path / "planned.onnx")
    for name, gains in (("iterations", False), ("forks", True)):
        model = str(MODELS / f"{name}.onnx")
        assert "against a default session" in cli("solve", model, "-o", plan) or not gains
        text = cli("apply", model, plan, "-o", out)
        assert ("Keep your file: it needs" in text) is not gains
    program = text.partition("Load with:\n")[2]
    values: dict[str, Any] = {}
    exec(program, values)
    assert [x.name for x in values["session"].get_outputs()] == ["y"]
    assert "Keep your file: it needs 573,440 bytes, and 294,912 with" in cli(
        "apply", model, plan, "-o", out, "--min-gain", "60"
    )


def test_every_command_has_the_before_of_a_default_session(tmp_path: Path, cli: Cli) -> None:
    model, plan, store = (str(tmp_path / x) for x in ("forks.onnx", "plan.json", "plans.db"))
    shutil.copy(MODELS / "forks.onnx", model)
    # One session for all of them; before, compare, check, report, tune and Python estimated.
    commands = (
        ["solve", model, "-o", plan],
        ["solve", model, "--objective", "peak"],
        ["info", model],
        ["check", model, plan],
        ["apply", model, plan, "-o", str(tmp_path / "planned.onnx")],
        ["explain", model],
        ["report", model, plan, "--trace", str(tmp_path / "page.json")],
        ["convert", model, "-o", str(tmp_path / "graph.json")],
        ["compare", model, "--methods", "lpmf,optsched"],
        ["compare", model, "--methods", "ort+best_fit_start,optsched"],
        ["tune", model, "--store", store, "--budget", "20s"],
        ["store", "ls", store],
    )
    for command in commands:
        first = cli(*command).splitlines()[0]
        assert first.startswith("arena 573,440 "), (command, first)
        assert " a default session of ONNX Runtime, measured" in first, (command, first)
    assert "held 573,440 -> 294,912 bytes" in cli("measure", model, plan)
    graph = read_graph(model)
    for found in (solve(graph), compare_methods(graph, methods=["lpmf", "optsched"])):
        first = "arena 573,440 -> 294,912 bytes (-49 %) against a default session of ONNX Runtime"
        assert found.summary().startswith(first)


def test_a_session_is_run_once_for_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[list[str]] = []
    popen = session.subprocess.Popen

    def counted(command: list[str], **options: Any) -> Any:
        started.append(command)
        return popen(command, **options)

    monkeypatch.setattr(session.subprocess, "Popen", counted)
    model, plan = str(tmp_path / "forks.onnx"), str(tmp_path / "plan.json")
    shutil.copy(MODELS / "forks.onnx", model)
    for command in (["solve", model, "-o", plan], ["check", model, plan], ["info", model]):
        assert main(command) == 0
    # A compiler makes the counter.
    assert sum(session.CHILD in command for command in started) == 1
    assert capsys.readouterr().out.count(" session of ONNX Runtime, measured") == 3


def test_before_is_estimated_where_no_session_runs(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, plan = str(tmp_path / "forks.onnx"), str(tmp_path / "plan.json")
    shutil.copy(MODELS / "forks.onnx", model)
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    for command in (["solve", model, "-o", plan], ["check", model, plan], ["info", model]):
        first = cli(*command).splitlines()[0]
        assert ", estimated (onnxruntime is not installed)" in first, command


def test_workers_say_why_they_estimate(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, store = str(tmp_path / "forks.onnx"), str(tmp_path / "plans.db")
    shutil.copy(MODELS / "forks.onnx", model)
    # Without a C compiler, in the processes of workers as well.
    monkeypatch.setenv("PATH", str(tmp_path))
    for command in (
        ["compare", model, "--methods", "lpmf,optsched"],
        ["tune", model, "--store", store, "--budget", "20s"],
        ["store", "ls", store],
    ):
        first = cli(*command).splitlines()[0]
        assert ", estimated (no C compiler (cc) to count blocks)" in first, command


def test_a_model_that_no_session_runs_is_planned(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "net.onnx")
    # A fraction has no remainder in this version of the operator.
    text = """<ir_version: 8, opset_import: ["" : 17, "other" : 1]>
    net (float[64] x) => (float[64] y) { h = Tanh(x) y = Mod(h, x) }"""
    onnx.save(onnx.parser.parse_model(text), path)
    assert ", estimated (ONNX Runtime does not run it: " in cli("solve", path)
    data = Path(path).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert ", estimated (the model has no file)" in cli("solve", "-")
    slow = tmp_path / "slow.onnx"
    shutil.copy(MODELS / "forks.onnx", slow)
    assert isinstance(found := session.session_of(read_graph(slow)).held(0.0), str)
    assert found == "a session took more than 0.0 s"


def test_no_first_line_promises_what_kernels_hold_beside_a_plan(tmp_path: Path, cli: Cli) -> None:
    """Scratch of the convolution is in no plan: only what sessions hold is compared."""
    model, plan, store = (str(tmp_path / x) for x in ("conv.onnx", "plan.json", "plans.db"))
    nodes = [node("Conv", "x,w", "h", pads=[1, 1, 1, 1]), node("Tanh", "h", "y")]
    inputs, outputs = [value("x", [1, 5, 33, 33])], [value("y", [1, 5, 33, 33])]
    onnx.save(net(nodes, inputs, outputs, [weight("w", 5, 5, 3, 3)]), model)
    graph = read_graph(model)
    ran = session.session_of(graph)
    before, after = ran.held(), ran.planned([op.name for op in graph.ops])
    assert isinstance(before, int)
    assert isinstance(after, int)
    words = f"arena {before:,} -> {after:,} bytes ({change(before, after)}) against a default"
    commands = (
        ["solve", model, "-o", plan],
        ["check", model, plan],
        ["apply", model, plan, "-o", str(tmp_path / "planned.onnx")],
        ["report", model, plan, "-o", str(tmp_path / "page.html")],
        ["compare", model, "--methods", "lpmf,optsched"],
        ["tune", model, "--store", store, "--budget", "20s"],
        ["store", "ls", store],
    )
    for command in commands:
        text = cli(*command, "--json")
        found = json.loads(text)
        found = found.get("saving", found.get("total", found.get("savings")))
        found = found.get("total", found)
        assert (found["before"], found["after"]) == (before, after), (command, found)
        assert found["planned"] < after, (command, found)
        first = cli(*command).splitlines()[0]
        assert words in first, (command, first)
    assert words in html.unescape((tmp_path / "page.html").read_text())
    assert words in solve(graph).summary()
    # A capacity between the two figures: the plan has room, but a session holds more.
    assert fits(graph, before).fits is fits(graph, after).fits is True
    answer = fits(graph, after - 64)
    assert answer.fits is None
    assert f"was measured to hold {after:,}" in answer.reason


def test_without_the_bytes_of_a_plan_no_saving_is_said(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, plan = str(tmp_path / "forks.onnx"), str(tmp_path / "plan.json")
    shutil.copy(MODELS / "forks.onnx", model)
    monkeypatch.setattr(session.Session, "planned", lambda *_: "a session took more than 0.1 s")
    first = cli("solve", model, "-o", plan).splitlines()[0]
    assert first.startswith(
        "arena 573,440 bytes with a default session of ONNX Runtime, measured; with the plan not "
        "measured (a session took more than 0.1 s); planned 294,912 bytes, smallest possible"
    )
    assert "%)" not in cli("compare", model, "--methods", "lpmf,optsched").splitlines()[0]


def test_a_process_serves_runs_after_another_model_and_after_its_end(tmp_path: Path) -> None:
    graphs = []
    for name in ("forks", "branches"):
        shutil.copy(MODELS / f"{name}.onnx", tmp_path / f"{name}.onnx")
        graphs.append(read_graph(tmp_path / f"{name}.onnx"))
    first = session.session_of(graphs[0])
    order = [op.name for op in graphs[0].ops]
    assert first.held() == 573_440
    assert isinstance(session.session_of(graphs[1]).held(), int)
    assert isinstance(held := first.planned(order), int)
    assert held <= 573_440
    assert first.planned(order[1:]) == "its ops are not those of the file"


def test_a_session_below_the_bound_fuses_ops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.Session, "held", lambda *_: 200_000)
    model, plan, proof = (str(tmp_path / x) for x in ("forks.onnx", "plan.json", "proof.json"))
    shutil.copy(MODELS / "forks.onnx", model)
    assert main(["solve", model, "-o", plan, "--certificate", proof]) == 0
    words = "smallest possible among plans of the file's ops, not fused (plan convert --to onnx-fu"
    assert words in capsys.readouterr().out
    assert words in cli("check", model, plan, proof)


def test_the_settings_in_words() -> None:
    worse = SessionSettings({"enable_mem_reuse": False}, 12, 10)
    assert str(worse) == (
        "measured: holds 12 bytes at best, the default session of the original model 10"
    )
    assert SessionSettings({}, 10, 10).load.startswith("Load with the default settings")


def test_integers_are_zero_where_one_is_no_index(tmp_path: Path, cli: Cli) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    rows (float[1, 64] x, int64[2] i) => (float[2, 64] y) { h = Gather(x, i) y = Tanh(h) }"""
    model = tmp_path / "rows.onnx"
    onnx.save(onnx.parser.parse_model(text), model)
    assert "integer inputs are 0, as ONNX Runtime does not run" in cli("measure", model)


def test_what_onnx_runtime_prints_is_no_result(tmp_path: Path) -> None:
    """A session that fails prints to standard output that it tries once more."""
    path = tmp_path / "net.onnx"
    data = net([node("Exp", "x", "y", "ab_of_no_text")]).SerializeToString()
    path.write_bytes(data.replace(b"Exp", b"E\xedp"))
    (found,) = run_all([request(str(path), [])], str(tmp_path))
    assert found["error"]
