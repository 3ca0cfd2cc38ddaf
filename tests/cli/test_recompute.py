"""The command `recompute`: plans, fronts, certificates, exit codes and refused input."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from optsched import GraphBuilder, pack, read_graph, recompute, write_graph
from optsched.cli import main
from optsched.formats.runs import runs_document
from optsched.model.graph import Graph
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import make_plan
from optsched.model.runs import unroll
from optsched.solver.recompute.problem import RecomputeProblem, make_problem
from tests.support.commands import Cli, Codes


@pytest.fixture
def step(tmp_path: Path) -> str:
    build = GraphBuilder("step", cost_unit="ms")
    build.input("tangents_1", 0, "excluded")
    last: list[str] = []
    for i in range(5):
        build.op(f"f{i}", reads=last, writes={f"x{i}": 10}, cost=3 + i)
        last = [f"x{i}"]
    build.op("loss", reads=last, writes={"loss": 1}, cost=1, once=True)
    build.output("loss")
    last = ["tangents_1"]
    for i in reversed(range(5)):
        build.op(f"b{i}", reads=[*last, f"x{i}"], writes={f"g{i}": 10})
        last = [f"g{i}"]
    build.output("g0")
    path = tmp_path / "step.json"
    write_graph(build.build(), path)
    return str(path)


def run(cli: Cli, *given: object, code: Codes = 0) -> pytest.CaptureResult[str]:
    return cli.both("recompute", *given, "--time-limit", 20, code=code)


def test_a_plan_and_its_certificate_are_checked(
    step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    plan, proof = str(tmp_path / "plan.json"), str(tmp_path / "proof.json")
    out = run(cli, step, "--peak", "51", "-o", plan, "--certificate", proof).out
    assert "proved least" in out
    assert "the plan is optimal" in cli("check", step, plan, proof)
    document = json.loads(Path(plan).read_text())
    assert len(document["order"]) > len(set(document["order"]))
    for where in ("-", str(tmp_path / "plan.csv")):
        assert main(["export", plan, step, "--to", "csv", "-o", where]) == 0
    capsys.readouterr()
    assert "plan runs ops again (recompute): check, report and" in cli.error(
        "solve", step, "--warm-start", plan
    )
    assert "give it to `optsched check` with the graph and its plan" in cli.error("info", proof)
    document["recompute"]["extra"] += 1
    Path(plan).write_text(json.dumps(document))
    assert "plan claims an extra cost of" in cli.error("check", step, plan, code=1)


def test_a_repeat_of_an_op_that_runs_once_is_refused(step: str, tmp_path: Path, cli: Cli) -> None:
    plan = str(tmp_path / "plan.json")
    run(cli, step, "--peak", "51", "-o", plan)
    document = json.loads(Path(plan).read_text())
    document["order"].append("loss")
    Path(plan).write_text(json.dumps(document))
    assert "op 'loss' runs again, but it draws random numbers" in cli.error(
        "check", step, plan, code=1
    )


def test_a_plan_with_repeats_is_shown_alone(
    step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    plan, page = str(tmp_path / "plan.json"), tmp_path / "page.html"
    run(cli, step, "--peak", "51", "-o", plan)
    assert main(["report", step, plan, "-o", str(page), "--time-limit", "5"]) == 0
    assert "@2" in page.read_text()
    capsys.readouterr()
    assert "a plan with repeats has a graph of its own: show it alone" in cli.error(
        "report", step, plan, "sorted", "-o", page
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--peak=-5"], "'-5' is not a number of bytes"),
        (["--peak", "lots"], "'lots' is not a number of bytes"),
        (["--points", "0"], "expected a number of at least 1, got 0"),
        (["--peak", "51", "--cost", "given", "--costs", "x.json"], "not both"),
        (["--peak", "51", "--peak", "52", "-o", "x.json"], "give a single --peak"),
    ],
)
def test_bad_options_are_refused(options: list[str], message: str, step: str, cli: Cli) -> None:
    err = run(cli, step, *options, code=2).err
    assert message in err
    assert err.count("\n") == 1


def test_a_certificate_of_other_costs_or_another_peak_is_refused(
    step: str, tmp_path: Path, cli: Cli
) -> None:
    plan, proof = str(tmp_path / "plan.json"), str(tmp_path / "proof.json")
    run(cli, step, "--peak", "51", "-o", plan)
    run(cli, step, "--peak", "41", "--certificate", proof)
    assert "is about a peak of 41 bytes" in cli.error("check", step, plan, proof, code=1)
    run(cli, step, "--peak", "51", "--cost", "bytes", "--certificate", proof)
    assert "certificate is about costs in 'bytes read and written'" in cli.error(
        "check", step, plan, proof, code=1
    )


def test_a_certificate_says_nothing_about_repeats_of_gradient_ops(tmp_path: Path, cli: Cli) -> None:
    # `wide` is live while `hog` runs, unless `back`, a gradient op, runs again.
    build = GraphBuilder("step", cost_unit="us")
    build.input("tangents_1", 0, "excluded")
    build.op("loss", writes={"l": 1}, cost=1)
    build.output("l")
    build.op("back", reads=["tangents_1"], writes={"wide": 8}, cost=1)
    build.op("narrow", reads=["wide"], writes={"small": 1})
    build.op("hog", reads=["small"], writes={"big": 9})
    build.op("shrink", reads=["big"], writes={"few": 1})
    build.op("end", reads=["few", "wide"], writes={"g": 1})
    build.output("g")
    graph, (step, plan, proof) = build.build(), (tmp_path / x for x in ("step", "plan", "proof"))
    write_graph(graph, step)
    out = run(cli, step, "--peak", "18", "--certificate", str(proof), code=4).out
    assert "is impossible, however often forward ops run again, proved: op " in out
    names = ("loss", "back", "narrow", "hog", "shrink", "back", "end")
    unrolled = unroll(graph, [graph.op_ids[name] for name in names])
    offsets = pack(packing_problem(unrolled.graph, range(7))[0]).offsets
    assert offsets is not None
    claims = {"peak": 18, "extra": 1, "bound": None, "cost_unit": "us", "loss": ["loss"]}
    made = make_plan(unrolled.graph, range(7), offsets)
    plan.write_text(json.dumps(runs_document(graph, unrolled, made, claims)))
    assert "valid: peak 11 bytes" in cli("check", step, plan)
    assert "proves that no plan fits where only forward ops run" in cli.error(
        "check", step, plan, proof, code=1
    )


def test_an_impossible_peak_names_the_op(step: str, cli: Cli) -> None:
    out = run(cli, step, "--peak", "25", "--json", code=4).out
    record = json.loads(out)
    assert record["status"] == "infeasible"
    assert "op 'b3' alone reads and writes 30 bytes" in record["why_impossible"]


def test_a_front_is_monotone(step: str, tmp_path: Path, cli: Cli) -> None:
    page = tmp_path / "front.html"
    out = run(cli, step, "--points", "5", "--json", "--page", str(page), code=(0, 3)).out
    rows = json.loads(out)["front"]
    extras = [row["extra"] for row in rows if row["extra"] is not None]
    assert len(rows) == 5
    assert extras == sorted(extras)
    assert "<svg" in page.read_text()
    out = run(cli, step, "--peak", "51", "--peak", "61", code=None).out
    assert "budget" in out


def test_a_front_makes_its_problem_once(
    step: str, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    made: list[Graph] = []

    def make(graph: Graph, loss: Sequence[str]) -> RecomputeProblem:
        made.append(graph)
        return make_problem(graph, loss)

    monkeypatch.setattr("optsched.solver.recompute.solve.make_problem", make)
    out = run(cli, step, "--points", "3", "--json", code=(0, 3)).out
    assert len(json.loads(out)["front"]) == 3
    assert len(made) == 1


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({"f0": 1}, "costs miss op 'f1' of graph 'step'"),
        ({"other": 1}, "costs name op 'other', which is not in graph 'step'"),
        ({"f0": -1}, "f0 must be at least 0, got -1"),
    ],
)
def test_costs_of_another_graph_are_refused(
    costs: dict[str, int],
    message: str,
    step: str,
    tmp_path: Path,
    cli: Cli,
) -> None:
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({"format": "optsched-costs/1", "unit": "us", "costs": costs}))
    err = run(cli, step, "--peak", "51", "--costs", str(path), code=2).err
    assert message in err


def test_usage_is_refused_in_one_line(step: str, tmp_path: Path, cli: Cli) -> None:
    assert "give --peak BYTES" in run(cli, step, code=2).err
    assert "which is not in graph" in run(cli, step, "--peak", "51", "--loss", "nope", code=2).err
    build = GraphBuilder("no loss")
    build.op("a", writes={"x": 1})
    write_graph(build.build(), tmp_path / "other.json")
    refused = run(cli, str(tmp_path / "other.json"), "--peak", "51", code=2).err
    assert "has no backward pass" in refused
    assert "capture a training step (capture_step)" in refused
    assert "states 'ms'" in run(cli, step, "--peak", "51", "--cost", "kernel", code=2).err


def test_costs_are_read_as_safely_as_other_files(step: str, tmp_path: Path, cli: Cli) -> None:
    costs, names = tmp_path / "costs.json.gz", read_graph(step).op_ids
    given = {"format": "optsched-costs/1", "unit": "us", "costs": dict.fromkeys(names, 1)}
    for text, message in (
        ("[" * 100_000, "nested too deeply"),
        (json.dumps(given).replace('"f1": 1', '"f1": 1, "f1": 2'), "duplicate key 'f1'"),
        (json.dumps(given | {"graph": "other"}), "costs are of graph 'other', this is 'step'"),
    ):
        costs.write_text(text)
        out, err = run(cli, step, "--peak", "51", "--costs", str(costs), code=2)
        assert out == ""
        assert str(costs) in err
        assert message in err
    # Plain or compressed, as all files.
    costs.write_bytes(gzip.compress(json.dumps(given).encode()))
    run(cli, step, "--peak", "51", "--costs", str(costs))


def test_files_on_standard_output_are_alone_there(step: str, tmp_path: Path, cli: Cli) -> None:
    out, err = run(cli, step, "--peak", "51", "--certificate", "-")
    assert json.loads(out)["peak"] == 51
    assert "proved least" in err
    assert run(cli, step, "--peak", "51", "--page", "-").out.startswith("<!doctype html>")
    out, err = run(cli, step, "--peak", "51", "-o", "-", "--json", code=2)
    assert out == ""
    assert "--json prints on standard output: give --output a file's name" in err
    packed = tmp_path / "proof.json.gz"
    run(cli, step, "--peak", "51", "--certificate", str(packed))
    assert json.loads(gzip.decompress(packed.read_bytes()))["peak"] == 51


def test_explain_tells_what_the_next_bytes_cost(step: str, cli: Cli) -> None:
    assert "5 bytes less cost" in cli("explain", step, "--peak", "51", "--time-limit", "20")
    assert "impossible" in cli("explain", step, "--peak", "25", "--time-limit", "20", code=4)
    assert "'nobody'" in cli.error("explain", step, "--peak", "51", "--loss", "nobody")


def test_costs_without_repeats_are_refused(
    step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    """They were passed over in silence, and so was a file of costs that does not exist."""
    plan = str(tmp_path / "plan.json")
    assert main(["solve", step, "-o", plan]) == 0
    for command, what in ((["explain", step], "give --peak, too"), (["check", step, plan], plan)):
        for options in (["--cost", "flops"], ["--costs", "none.json"]):
            capsys.readouterr()
            error = cli.error(*command, *options)
            assert f"{options[0]} is about repeats of ops" in error
            assert what in error


def test_from_python(step: str) -> None:
    graph = read_graph(step)
    first, second = recompute(graph, ["51B", 61], time_limit=20)
    assert first.status == "optimal"
    assert first.extra >= second.extra
    assert recompute(graph, 51, costs={op.name: 1 for op in graph.ops}, time_limit=20).extra == 1
