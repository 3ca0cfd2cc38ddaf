"""optsched compare, as one types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from optsched.cli import main
from optsched.formats import write_graph
from optsched.model.builder import GraphBuilder
from tests.support.commands import Cli
from tests.support.families.small import chain, diamond
from tests.support.hard_graph import hard_graph

ROW_KEYS = {
    *("graph", "method", "kind", "peak", "slab", "peak_excess", "slab_excess", "runtime"),
    *("status", "against_optimum", "proof", "stop_reason", "fragmentation", "excess", "before"),
    *("saved", "trouble", "reason"),
}


def test_compare_json_rows(graph: str, cli: Cli) -> None:
    record = cli.json("compare", graph)
    assert {row["kind"] for row in record["rows"]} == {"order", "packing", "plan"}
    assert all(set(row) == ROW_KEYS for row in record["rows"])
    assert record["graphs"][0]["peak_bound"] == 18
    assert record["graphs"][0]["peak_proof"] == "L3"


def test_compare_writes_a_report_without_network(graph: str, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    assert main(["compare", graph, "--report", str(report)]) == 0
    text = report.read_text()
    assert "<svg" in text
    assert "http:" not in text.replace("http://www.w3.org", "")
    assert "https:" not in text


def test_compare_takes_folders_and_methods(graph: str, tmp_path: Path, cli: Cli) -> None:
    write_graph(chain(), tmp_path / "chain.json.gz")
    rows = cli.json("compare", tmp_path, "--methods", "lpmf,naive")["rows"]
    assert {(r["graph"], r["method"]) for r in rows} == {
        (i, m) for i in ("chain", "diamond") for m in ("lpmf", "naive", "optsched")
    }


def test_compare_writes_csv_and_markdown(graph: str, tmp_path: Path) -> None:
    table, text = tmp_path / "rows.csv", tmp_path / "rows.md"
    argv = ["compare", graph, "--methods", "lpmf+skyline,recorded", "--csv", str(table)]
    assert main([*argv, "--markdown", str(text)]) == 0
    assert [line.split(",")[7] for line in table.read_text().splitlines()] == [
        "method",
        "lpmf+skyline",
        "recorded",
        "optsched",
    ]
    assert "## Performance profile" in text.read_text()


@pytest.mark.parametrize("command", [["compare"], ["tune", "--work=9", "--store=plans.store"]])
def test_a_folder_without_a_graph_is_bad_input(
    command: list[str], graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    plan = tmp_path / "plans" / "plan.json"
    plan.parent.mkdir()
    assert main(["solve", graph, "-o", str(plan)]) == 0
    options = [option.replace("plans.store", str(tmp_path / "store")) for option in command]
    capsys.readouterr()
    printed = cli.both(*options, plan.parent, code=2)
    said = " ".join((printed.out + printed.err).split())
    assert said.count(f"{plan}: expected a graph, got a plan") == 1
    assert said.count(str(plan)) == 1


def test_compare_goes_on_past_bad_files(
    graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    cli("solve", graph, "-o", tmp_path / "plan.json")
    argv = ["compare", str(tmp_path), "--methods", "lpmf", "--json"]
    # A plan beside graphs is skipped; a broken file is an error, and so is a plan given by name.
    printed = cli.both(*argv)
    assert "passed over: " in printed.err
    assert [s["bad"] for s in json.loads(printed.out)["skipped"]] == [False]
    (tmp_path / "broken.json").write_text('{"format": "optsched-graph/1", "ops": 3}')
    printed = cli.both(*argv, code=2)
    assert "error: " in printed.err
    assert {row["graph"] for row in json.loads(printed.out)["rows"]} == {"diamond"}
    page = ["--report", str(tmp_path / "page.html"), "--csv", str(tmp_path / "rows.csv")]
    assert main(["compare", str(tmp_path / "plan.json"), *page]) == 2
    # A page of no graphs is not written, and not said to be.
    assert "report: " not in capsys.readouterr().out
    assert not (tmp_path / "page.html").exists()
    assert f"error: {graph}: order rules name op 'nothing'" in cli.error(
        "compare", graph, "--methods", "lpmf", "--first", "nothing"
    )


def test_compare_refuses_a_plan_that_breaks_a_rule(graph: str, tmp_path: Path, cli: Cli) -> None:
    plan = tmp_path / "plans" / "diamond.json"
    plan.parent.mkdir()
    cli("solve", graph, "-o", plan)
    argv = ["compare", graph, "--plan", f"mine={plan.parent}", "--json"]
    rows = json.loads(cli(*argv))["rows"]
    figures = [("mine", 18), ("program", 20), ("optsched", 18)]
    assert [(r["method"], r["slab"]) for r in rows] == figures
    record = json.loads(plan.read_text())
    record["offsets"]["a"] = record["offsets"]["b"]
    plan.write_text(json.dumps(record))
    rows = json.loads(cli(*argv, code=1))["rows"]
    assert {r["method"]: r["trouble"] for r in rows}["mine"] == "refused"


def test_compare_says_so_where_our_own_method_fails(tmp_path: Path, cli: Cli) -> None:
    build = GraphBuilder("pairs")
    for i in range(4):
        build.op(f"op{i}", writes={f"x{i}": 1 + i % 3})
    path = tmp_path / "pairs.json"
    write_graph(build.build(), path)
    # The MILP takes no graphs on several streams.
    argv = ["compare", str(path), "--streams", "2", "--engine", "milp", "--methods", "program"]
    out = cli(*argv, code=5)
    assert "optsched failed on 1 graph, first pairs: " in out
    assert "no figures on any graph: optsched" in out


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal to a child process")
def test_an_interrupted_comparison_is_taken_up_again(tmp_path: Path) -> None:
    graphs, journal = tmp_path / "graphs", tmp_path / "journal"
    graphs.mkdir()
    write_graph(diamond(), graphs / "a.json")
    write_graph(hard_graph(), graphs / "b.json")
    argv = ["compare", str(graphs), "--methods", "lpmf,cpsat:600", "--time-limit", "1"]
    command = [sys.executable, "-m", "optsched", *argv, "--resume", str(journal), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until = time.monotonic() + 300
        # All of the first graph, our own method and LPMF on the second; then CP-SAT runs for long.
        while not journal.exists() or journal.read_bytes().count(b"\n") < 6:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    record = json.loads(out)
    assert record["interrupted"]
    assert b"repeat the command to resume" in err
    rows = {(r["graph"], r["method"]): r for r in record["rows"]}
    assert len(rows) == 6
    last = rows["random", "cpsat:600"]
    assert "interrupted" in (last["stop_reason"], last["trouble"])
    argv[-3] = "lpmf"
    again = subprocess.run([*command[:3], *argv, *command[-3:]], capture_output=True)
    assert again.returncode == 0, again.stderr
    assert b"4 rows there before" in again.stderr
