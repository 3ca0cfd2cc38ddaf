"""From the command line: plan a model, put the plan back, compare with the runtime's order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import Cli

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")

from optsched import apply_plan, export_plan, peak_memory, read_graph, solve, write_plan  # noqa: E402
from optsched.cli import main  # noqa: E402
from optsched.formats import read_recorded  # noqa: E402
from tests.frameworks.onnx.build import model as net  # noqa: E402
from tests.frameworks.onnx.build import node, value  # noqa: E402

MODELS = Path(__file__).parents[3] / "instances" / "onnx"
OPEN = {"encoder": ["--dim", "batch=2"]}


@pytest.mark.parametrize("name", ["branches", "cell", "control", "encoder", "forks", "iterations"])
def test_solve_check_apply(name: str, tmp_path: Path) -> None:
    model, plan, out = MODELS / f"{name}.onnx", tmp_path / "plan.json", tmp_path / "planned.onnx"
    options = OPEN.get(name, [])
    solve = ["solve", str(model), "--time-limit", "20", "-o", str(plan)]
    assert main([*solve, *options]) == 0
    assert main(["check", str(model), str(plan)]) == 0
    assert main(["apply", str(model), str(plan), "-o", str(out)]) == 0
    graph = read_graph(out)
    found = peak_memory(graph, tuple(range(len(graph.ops))))
    assert found == json.loads(plan.read_text())["peak"]
    onnx.checker.check_model(onnx.load(out), full_check=True)


def planned(tmp_path: Path, *options: str) -> tuple[str, str]:
    """Return the encoder and a plan of it for a batch of 2."""
    model, plan = str(MODELS / "encoder.onnx"), str(tmp_path / "plan.json")
    assert main(["solve", model, "--dim", "batch=2", *options, "-o", plan]) == 0
    return model, plan


def test_a_plan_keeps_its_dimensions(tmp_path: Path, cli: Cli) -> None:
    model, plan = planned(tmp_path)
    assert json.loads(Path(plan).read_text())["dims"] == {"batch": 2}
    table = str(tmp_path / "table.csv")
    assert main(["export", plan, model, "--to", "csv", "-o", table]) == 0
    assert "size" in Path(table).read_text().splitlines()[0]
    assert main(["solve", model, "--warm-start", plan, "--time-limit", "5"]) == 0
    cli("check", model, plan, "--dim", "batch=2")
    out = tmp_path / "planned.onnx"
    for command in (["check", model, plan], ["apply", model, plan, "-o", str(out)]):
        assert cli.error(*command, "--dim", "batch=3") == (
            f"optsched: error: {plan}: the plan is for batch=2, not for batch=3; "
            "leave out --dim, or plan the model with these dimensions\n"
        )
    assert not out.exists()


def test_a_result_keeps_its_dimensions(tmp_path: Path) -> None:
    model, out = MODELS / "encoder.onnx", tmp_path / "planned.onnx"
    result = solve(read_graph(model, dims={"batch": 2}), time_limit=5)
    apply_plan(model, result, out)
    (value,) = onnx.load(out).graph.output
    assert [x.dim_value for x in value.type.tensor_type.shape.dim] == [2, 128, 64]
    write_plan(result, tmp_path / "plan.json")
    layout = export_plan(tmp_path / "plan.json", tmp_path / "p.csv", to="csv", graph=model)
    assert layout.sized


def test_a_model_with_its_plan_has_the_dimensions(tmp_path: Path, cli: Cli) -> None:
    model, plan = planned(tmp_path)
    out = str(tmp_path / "planned.onnx")
    assert "as with " in cli("apply", model, plan, "-o", out)
    assert main(["check", out, plan]) == 0
    assert cli.error("solve", out, "--dim", "batch=2").endswith(
        "unknown dimension 'batch'; the model has no open dimensions: "
        "its inputs are x [2, 128, 64]; leave out --dim\n"
    )


def test_ops_write_in_place_as_the_runtime_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    model, plan = planned(tmp_path)
    assert "\nin-place as ONNX Runtime does; kernel scratch not counted in the plan " in (
        capsys.readouterr().out
    )
    assert json.loads(Path(plan).read_text())["inplace"] is True
    slab = json.loads(Path(plan).read_text())["slab"]
    planned(tmp_path, "--no-inplace")
    assert "\nnothing in place, unlike ONNX Runtime; kernel scratch not counted in the plan " in (
        capsys.readouterr().out
    )
    document = json.loads(Path(plan).read_text())
    assert "inplace" not in document
    assert document["slab"] > slab
    # A plan in which nothing is in place is checked and applied as such.
    assert main(["check", model, plan]) == 0
    assert f"slab {document['slab']:,} bytes" in cli(
        "apply", model, plan, "-o", tmp_path / "out.onnx"
    )


def test_compare_knows_the_runtimes_own_order(cli: Cli) -> None:
    model = str(MODELS / "forks.onnx")
    arguments = ["compare", model, "--methods", "ort,optsched:20", "--inplace", "--json"]
    (rows,) = (json.loads(cli(*arguments))["rows"],)
    peaks = {row["method"]: row["peak"] for row in rows}
    assert (peaks["ort"], peaks["optsched:20"]) == (409_600, 294_912)


def test_an_open_dimension_is_said_with_how_to_give_it(
    cli: Cli,
) -> None:
    said = cli.error("solve", MODELS / "encoder.onnx")
    assert said.count("\n") == 1
    assert "1 dimension is open: batch; try --dim batch=1" in said
    # The suggested line is accepted as it is.
    line = said.rpartition("; try ")[2].split()
    assert main(["solve", str(MODELS / "encoder.onnx"), *line]) == 0


def test_info_describes_a_model_that_cannot_be_planned_yet(
    cli: Cli,
) -> None:
    said = cli("info", MODELS / "encoder.onnx")
    for words in (
        "x [batch, 128, 64]",
        "open           batch",
        "--dim batch=1",
        "not planned",
    ):
        assert words in said


def test_info_describes_a_model_whose_texts_are_damaged(tmp_path: Path, cli: Cli) -> None:
    # protobuf returns such a text as bytes, which cannot be sorted beside texts or be a JSON key.
    model = tmp_path / "damaged.onnx"
    data = (MODELS / "control.onnx").read_bytes()
    model.write_bytes(data.replace(b"ReduceSum", b"\xffeduceSum", 1))
    assert "1 \\xffeduceSum" in cli("info", model)
    assert cli.json("info", model)["ops"]["\\xffeduceSum"] == 1


def test_a_profile_is_refused_where_none_is_read(cli: Cli) -> None:
    graph = next((MODELS.parent / "small").glob("*.json"))
    assert "do not use a profile" in cli.error("info", graph, "--profile", "p.json")


@pytest.mark.parametrize("name", ["branches", "cell", "control", "encoder", "forks", "iterations"])
def test_the_runtimes_default_order_is_the_one_that_it_runs(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra runtimes is not installed")
    from tests.support.onnx_session import profiled, random_inputs

    model = MODELS / f"{name}.onnx"
    profile = profiled(model, "DEFAULT", random_inputs(model, {"batch": 2}), tmp_path)
    assert read_recorded(model) == read_recorded(model, profile=profile)


def test_headlines_prove_nothing_of_half_floats_that_run_as_floats(
    tmp_path: Path, cli: Cli
) -> None:
    half = onnx.TensorProto.FLOAT16
    path, plan, proof = (str(tmp_path / x) for x in ("half.onnx", "plan.json", "proof.json"))
    ends = [value("x", kind=half)], [value("y", kind=half)]
    words = "smallest possible among plans in half floats, where floats run (plan convert --to onnx"
    for kind, named in (("Sin", True), ("Transpose", False)):
        onnx.save(net([node(kind, "x", "a"), node(kind, "a", "y")], *ends), path)
        for command in (["solve", path], ["compare", path]):
            headline = cli(*command).replace("\n", " ")
            assert "smallest possible" in headline
            assert (words in headline) == named, headline
        cli("solve", path, "-o", plan, "--certificate", proof)
        headline = cli("check", path, plan, proof).splitlines()[0]
        assert "smallest possible" in headline
        assert (words in headline) == named, headline
