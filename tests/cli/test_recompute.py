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


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(["recompute", *args, "--time-limit", "20"])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_plan_and_its_certificate_are_checked(
    step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, proof = str(tmp_path / "plan.json"), str(tmp_path / "proof.json")
    code, out, _ = run(capsys, step, "--peak", "51", "-o", plan, "--certificate", proof)
    assert code == 0
    assert "proved least" in out
    assert main(["check", step, plan, proof]) == 0
    assert "the plan is optimal" in capsys.readouterr().out
    document = json.loads(Path(plan).read_text())
    assert len(document["order"]) > len(set(document["order"]))
    for where in ("-", str(tmp_path / "plan.csv")):
        assert main(["export", plan, step, "--to", "csv", "-o", where]) == 0
    capsys.readouterr()
    assert main(["solve", step, "--warm-start", plan]) == 2
    assert "plan runs ops again (recompute): check, report and" in capsys.readouterr().err
    assert main(["info", proof]) == 2
    assert "give it to `optsched check` with the graph and its plan" in capsys.readouterr().err
    document["recompute"]["extra"] += 1
    Path(plan).write_text(json.dumps(document))
    assert main(["check", step, plan]) == 1
    assert "plan claims an extra cost of" in capsys.readouterr().err


def test_a_repeat_of_an_op_that_runs_once_is_refused(
    step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = str(tmp_path / "plan.json")
    run(capsys, step, "--peak", "51", "-o", plan)
    document = json.loads(Path(plan).read_text())
    document["order"].append("loss")
    Path(plan).write_text(json.dumps(document))
    assert main(["check", step, plan]) == 1
    assert "op 'loss' runs again, but it draws random numbers" in capsys.readouterr().err


def test_a_plan_with_repeats_is_shown_alone(
    step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, page = str(tmp_path / "plan.json"), tmp_path / "page.html"
    run(capsys, step, "--peak", "51", "-o", plan)
    assert main(["report", step, plan, "-o", str(page), "--time-limit", "5"]) == 0
    assert "@2" in page.read_text()
    capsys.readouterr()
    assert main(["report", step, plan, "sorted", "-o", str(page)]) == 2
    assert "a plan with repeats has a graph of its own: show it alone" in capsys.readouterr().err


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
def test_bad_options_are_refused(
    options: list[str], message: str, step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, step, *options)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_a_certificate_of_other_costs_or_another_peak_is_refused(
    step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, proof = str(tmp_path / "plan.json"), str(tmp_path / "proof.json")
    run(capsys, step, "--peak", "51", "-o", plan)
    run(capsys, step, "--peak", "41", "--certificate", proof)
    assert main(["check", step, plan, proof]) == 1
    assert "is about a peak of 41 bytes" in capsys.readouterr().err
    run(capsys, step, "--peak", "51", "--cost", "bytes", "--certificate", proof)
    assert main(["check", step, plan, proof]) == 1
    assert "certificate is about costs in 'bytes read and written'" in capsys.readouterr().err


def test_a_certificate_says_nothing_about_repeats_of_gradient_ops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    code, out, _ = run(capsys, str(step), "--peak", "18", "--certificate", str(proof))
    assert code == 4
    assert "is impossible, however often forward ops run again, proved: op " in out
    names = ("loss", "back", "narrow", "hog", "shrink", "back", "end")
    unrolled = unroll(graph, [graph.op_ids[name] for name in names])
    offsets = pack(packing_problem(unrolled.graph, range(7))[0]).offsets
    assert offsets is not None
    claims = {"peak": 18, "extra": 1, "bound": None, "cost_unit": "us", "loss": ["loss"]}
    made = make_plan(unrolled.graph, range(7), offsets)
    plan.write_text(json.dumps(runs_document(graph, unrolled, made, claims)))
    assert main(["check", str(step), str(plan)]) == 0
    assert "valid: peak 11 bytes" in capsys.readouterr().out
    assert main(["check", str(step), str(plan), str(proof)]) == 1
    assert "proves that no plan fits where only forward ops run" in capsys.readouterr().err


def test_an_impossible_peak_names_the_op(step: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, step, "--peak", "25", "--json")
    assert code == 4
    record = json.loads(out)
    assert record["status"] == "infeasible"
    assert "op 'b3' alone reads and writes 30 bytes" in record["why_impossible"]


def test_a_front_is_monotone(step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "front.html"
    code, out, _ = run(capsys, step, "--points", "5", "--json", "--page", str(page))
    assert code in (0, 3)
    rows = json.loads(out)["front"]
    extras = [row["extra"] for row in rows if row["extra"] is not None]
    assert len(rows) == 5
    assert extras == sorted(extras)
    assert "<svg" in page.read_text()
    _, out, _ = run(capsys, step, "--peak", "51", "--peak", "61")
    assert "budget" in out


def test_a_front_makes_its_problem_once(
    step: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Graph] = []

    def make(graph: Graph, loss: Sequence[str]) -> RecomputeProblem:
        made.append(graph)
        return make_problem(graph, loss)

    monkeypatch.setattr("optsched.solver.recompute.solve.make_problem", make)
    code, out, _ = run(capsys, step, "--points", "3", "--json")
    assert code in (0, 3)
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
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({"format": "optsched-costs/1", "unit": "us", "costs": costs}))
    code, _, err = run(capsys, step, "--peak", "51", "--costs", str(path))
    assert code == 2
    assert message in err


def test_usage_is_refused_in_one_line(
    step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "give --peak BYTES" in run(capsys, step)[2]
    assert "which is not in graph" in run(capsys, step, "--peak", "51", "--loss", "nope")[2]
    build = GraphBuilder("no loss")
    build.op("a", writes={"x": 1})
    write_graph(build.build(), tmp_path / "other.json")
    refused = run(capsys, str(tmp_path / "other.json"), "--peak", "51")[2]
    assert "has no backward pass" in refused
    assert "capture a training step (capture_step)" in refused
    assert "states 'ms'" in run(capsys, step, "--peak", "51", "--cost", "kernel")[2]


def test_costs_are_read_as_safely_as_other_files(
    step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    costs, names = tmp_path / "costs.json.gz", read_graph(step).op_ids
    given = {"format": "optsched-costs/1", "unit": "us", "costs": dict.fromkeys(names, 1)}
    for text, message in (
        ("[" * 100_000, "nested too deeply"),
        (json.dumps(given).replace('"f1": 1', '"f1": 1, "f1": 2'), "duplicate key 'f1'"),
        (json.dumps(given | {"graph": "other"}), "costs are of graph 'other', this is 'step'"),
    ):
        costs.write_text(text)
        code, out, err = run(capsys, step, "--peak", "51", "--costs", str(costs))
        assert (code, out) == (2, "")
        assert str(costs) in err
        assert message in err
    # Plain or compressed, as all files.
    costs.write_bytes(gzip.compress(json.dumps(given).encode()))
    assert run(capsys, step, "--peak", "51", "--costs", str(costs))[0] == 0


def test_files_on_standard_output_are_alone_there(
    step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, step, "--peak", "51", "--certificate", "-")
    assert (code, json.loads(out)["peak"]) == (0, 51)
    assert "proved least" in err
    assert run(capsys, step, "--peak", "51", "--page", "-")[1].startswith("<!doctype html>")
    code, out, err = run(capsys, step, "--peak", "51", "-o", "-", "--json")
    assert (code, out) == (2, "")
    assert "--json prints on standard output: give --output a file's name" in err
    packed = tmp_path / "proof.json.gz"
    assert run(capsys, step, "--peak", "51", "--certificate", str(packed))[0] == 0
    assert json.loads(gzip.decompress(packed.read_bytes()))["peak"] == 51


def test_explain_tells_what_the_next_bytes_cost(
    step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", step, "--peak", "51", "--time-limit", "20"]) == 0
    assert "5 bytes less cost" in capsys.readouterr().out
    assert main(["explain", step, "--peak", "25", "--time-limit", "20"]) == 4
    assert "impossible" in capsys.readouterr().out
    assert main(["explain", step, "--peak", "51", "--loss", "nobody"]) == 2
    assert "'nobody'" in capsys.readouterr().err


def test_costs_without_repeats_are_refused(
    step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were passed over in silence, and so was a file of costs that does not exist."""
    plan = str(tmp_path / "plan.json")
    assert main(["solve", step, "-o", plan]) == 0
    for command, what in ((["explain", step], "give --peak, too"), (["check", step, plan], plan)):
        for options in (["--cost", "flops"], ["--costs", "none.json"]):
            capsys.readouterr()
            assert main([*command, *options]) == 2
            error = capsys.readouterr().err
            assert f"{options[0]} is about repeats of ops" in error
            assert what in error


def test_from_python(step: str) -> None:
    graph = read_graph(step)
    first, second = recompute(graph, ["51B", 61], time_limit=20)
    assert first.status == "optimal"
    assert first.extra >= second.extra
    assert recompute(graph, 51, costs={op.name: 1 for op in graph.ops}, time_limit=20).extra == 1
