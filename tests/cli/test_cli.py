"""The command line: keys, exit codes, one-line errors, nothing overwritten."""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from optsched import GraphBuilder
from optsched.cli import main
from optsched.cli.commands import COMMANDS, make_parser
from optsched.cli.examples import EXAMPLES
from optsched.cli.options import GROUPS
from optsched.formats import write_graph
from tests.support.commands import Cli
from tests.support.families.small import aligned, diamond
from tests.support.hard_graph import hard_graph

SOLVE_KEYS = {
    *("graph", "ops", "buffers", "status", "stop_reason", "objective", "peak", "peak_bound"),
    *("peak_proof", "slab", "slab_bound", "slab_proof", "runtime", "order", "offsets"),
    *("order_search", "memory_model", "versions"),
}
PACK_KEYS = SOLVE_KEYS - {"ops", "peak", "peak_bound", "peak_proof", "order", "order_search"}
CSV = "id,lower,upper,size\na,0,4,8\nb,2,6,4\n"


@pytest.fixture
def inplace_graph(tmp_path: Path) -> str:
    made = diamond()
    pair = (made.op_ids["left"], made.buffer_ids["a"], made.buffer_ids["x"])
    path = tmp_path / "diamond.json"
    write_graph(replace(made, inplace_candidates=(pair,)), path)
    return str(path)


def test_solve_json_has_the_stable_keys(graph: str, tmp_path: Path, cli: Cli) -> None:
    plan = tmp_path / "plan.json"
    printed = cli.both("solve", graph, "--json", "-o", plan)
    record = json.loads(printed.out)
    assert set(record) >= SOLVE_KEYS
    assert printed.err == ""
    assert (record["status"], record["peak"], record["slab"]) == ("optimal", 18, 18)
    assert (record["peak_proof"], record["slab_proof"]) == ("L3", "L5")
    assert record["order"] == ["right", "left", "join"]
    assert set(record["offsets"]) == {"x", "a", "b", "right.workspace", "y"}
    assert "valid: peak 18 bytes, slab 18 bytes" in cli("check", graph, plan)


def test_every_result_names_the_in_place_model(
    inplace_graph: str, tmp_path: Path, cli: Cli
) -> None:
    plan, rows = tmp_path / "plan.json", tmp_path / "rows.csv"
    for command in (
        ["solve", inplace_graph, "-o", str(plan)],
        ["explain", inplace_graph],
        ["info", inplace_graph],
        ["check", inplace_graph, str(plan)],
        ["compare", inplace_graph, "--methods", "lpmf", "--csv", str(rows)],
    ):
        assert "in-place" in cli(*command, "--inplace"), command
        record = cli.json(*command, "--inplace")
        model = record.get("memory_model") or record["graphs"][0]["memory_model"]
        assert model.endswith("in-place"), command
    assert rows.read_text().count("in-place") == 2


def test_in_place_without_candidates_says_so(graph: str, cli: Cli) -> None:
    assert "names no in-place candidates" in cli.error("solve", graph, "--inplace", code=0)


def test_solve_text_names_bytes_and_proof(graph: str, cli: Cli) -> None:
    out = cli("solve", graph)
    assert "peak  18 bytes  order search (L3): no order has less" in out
    assert "optimal (proved)" in out


def test_a_tampered_plan_fails_the_check(
    graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    plan = tmp_path / "plan.json"
    main(["solve", graph, "-o", str(plan)])
    record = json.loads(plan.read_text())
    record["offsets"]["a"] = record["offsets"]["b"]
    plan.write_text(json.dumps(record))
    capsys.readouterr()
    error = cli.error("check", graph, plan, code=1)
    assert "overlap" in error
    assert error.count("\n") == 1


def test_a_plan_and_a_packing_are_executed_on_request(
    graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    plan, packed = tmp_path / "plan.json", tmp_path / "packed.csv"
    main(["solve", graph, "-o", str(plan)])
    (tmp_path / "rows.csv").write_text(CSV)
    main(["pack", str(tmp_path / "rows.csv"), "-o", str(packed)])
    capsys.readouterr()
    assert "returned the bytes written before" in cli("check", graph, plan, "--replay")
    assert cli.json("check", packed, "--replay")["replayed"]["reads"] == 2


def test_unproved_slab_exits_with_three(tmp_path: Path, cli: Cli) -> None:
    # A plan above its bound whose only proof could be a joint search: alignment forces waste.
    path = tmp_path / "aligned.json"
    write_graph(aligned(), path)
    assert "gap 23.1 %" in cli("solve", path, "--engine", "heuristics", code=3)


def test_without_arguments_the_help_is_shown(cli: Cli) -> None:
    shown = cli()
    for words in ("find an order and offsets", "minimalloc", "64KiB", "130 interrupted"):
        assert words in shown


def test_a_limit_on_work_gives_the_same_answer_twice(graph: str, cli: Cli) -> None:
    records = []
    for _ in range(2):
        records.append(cli.json("solve", graph, "--work", "100000"))
        del records[-1]["runtime"], records[-1]["compile_seconds"]
    assert records[0] == records[1]
    assert records[0]["settings"]["options"]["work"] == 100_000
    assert records[0]["settings"]["options"]["time_limit"] is None


def test_every_record_says_what_it_was_made_with(graph: str, tmp_path: Path, cli: Cli) -> None:
    plan = str(tmp_path / "plan.json")
    digest = hashlib.sha256(Path(graph).read_bytes()).hexdigest()
    for argv in (
        ["solve", graph, "-o", plan],
        ["check", graph, plan],
        ["explain", graph],
        ["info", graph],
        ["compare", graph, "--methods", "lpmf", "--time-limit", "inf"],
        ["convert", graph, "-o", str(tmp_path / "copy.json")],
        ["report", graph, "--trace", str(tmp_path / "trace.json")],
    ):
        made_with = cli.json(*argv)["settings"]
        assert made_with["files"][graph] == digest, argv
        assert made_with["version"]
        assert "cores" in made_with["machine"]
        assert made_with["options"].get("seed", 0) == 0


def test_a_shell_completes_commands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab", reason="needs the extra `completion`")
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", "bash"])
    assert ended.value.code == 0
    script = capsys.readouterr().out
    assert "solve" in script
    assert "--time-limit" in script


def test_capacity_exit_codes(graph: str) -> None:
    assert main(["solve", graph, "--capacity", "18"]) == 0
    assert main(["solve", graph, "--capacity", "17"]) == 4


def test_info_and_convert(graph: str, tmp_path: Path, cli: Cli) -> None:
    other = tmp_path / "copy.json.gz"
    cli("convert", graph, "-o", other)
    record = cli.json("info", other)
    assert (record["ops"], record["peak_bound"], record["program_order_peak"]) == (3, 16, 20)
    assert "3, 2 dependencies" in cli("info", other)


def test_pack_reads_and_writes_csv(tmp_path: Path, cli: Cli) -> None:
    path, out = tmp_path / "p.csv", tmp_path / "q.csv"
    path.write_text(CSV)
    record = cli.json("pack", path, "-o", out)
    assert set(record) >= PACK_KEYS
    assert (record["slab"], record["slab_proof"], record["status"]) == (12, "L1", "optimal")
    assert out.read_text().splitlines()[0] == "id,lower,upper,size,offset"
    assert main(["check", str(out)]) == 0
    assert main(["pack", str(path), "--capacity", "11"]) == 4
    assert main(["pack", str(path), "--capacity", "12"]) == 0


BAD = {
    "missing file": (["solve", "nowhere.json"], "nowhere.json"),
    "a folder": (["solve", "."], "."),
    "bad capacity": (["solve", "GRAPH", "--capacity", "lots"], "'lots' is not a number of bytes"),
    "unknown method": (["compare", "GRAPH", "--methods", "magic"], "unknown method 'magic'"),
    "empty folder": (["compare", "EMPTY"], "no .json"),
    "compare overwrites": (["compare", "GRAPH", "--csv", "GRAPH"], "would overwrite an input"),
    "not an optsched journal": (
        ["compare", "GRAPH", "--resume", "EMPTY/../journal.txt"],
        "not an optsched journal",
    ),
    "no folder": (
        ["compare", "GRAPH", "--csv", "nowhere/rows.csv"],
        "a file in an existing folder",
    ),
    "no folder for a plan": (
        ["solve", "GRAPH", "-o", "nowhere/plan.json"],
        "a file in an existing folder",
    ),
    "plan and certificate": (["solve", "GRAPH", "-o", "x", "--certificate", "x"], "two outputs"),
    "a trace for nobody": (["solve", "GRAPH", "--keep-trace"], "stores the trace in the plan"),
    "retry what": (["compare", "GRAPH", "--retry-failed"], "needs --resume"),
    "one name twice": (["compare", "GRAPH", "--csv", "x", "--markdown", "x"], "two outputs"),
    "no such column": (
        ["compare", "GRAPH", "--columns", "lpfm"],
        "'lpfm' is not one of the methods",
    ),
    "bare plan": (["compare", "GRAPH", "--plan", "plan.json"], "--plan wants NAME=PATH"),
    "plan file not found": (["compare", "GRAPH", "--plan", "mine=nowhere"], "plan file not found"),
    "overwrite": (["convert", "GRAPH", "-o", "GRAPH"], "would overwrite an input"),
    "check without plan": (["check", "GRAPH"], "check needs a graph and a plan"),
    "no such command": (["slove", "GRAPH"], "unknown command 'slove': did you mean 'solve'?"),
    "nothing like it": (["xyzzy"], "unknown command 'xyzzy': known are solve, compare"),
    "no such option": (["solve", "GRAPH", "--tme-limit=5"], "did you mean '--time-limit'?"),
    "one word too many": (["solve", "GRAPH", "b"], "unexpected argument 'b'"),
    "a word missing": (["solve"], "required: graph (see optsched solve --help)"),
    "seconds": (["solve", "GRAPH", "--time-limit", "x"], "expected a number of seconds, got 'x'"),
    "two ends": (["solve", "GRAPH", "--work", "5", "--time-limit", "5"], "not allowed with"),
    "work of two": (["solve", "GRAPH", "--work", "5", "--workers", "2"], "requires workers=1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_usage_is_one_line_and_code_two(
    case: str, graph: str, tmp_path: Path, cli: Cli
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "journal.txt").write_text("something else")
    argv, message = BAD[case]
    argv = [a.replace("GRAPH", graph).replace("EMPTY", str(tmp_path / "empty")) for a in argv]
    before = Path(graph).read_bytes()
    error = cli.error(*argv)
    assert message in error
    assert error.count("\n") == 1
    assert Path(graph).read_bytes() == before


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="this system has no file that is always full"
)
def test_a_full_disk_leaves_the_result_on_the_screen(graph: str, cli: Cli) -> None:
    printed = cli.both("solve", graph, "-o", "/dev/full", code=2)
    assert "peak  18 bytes" in printed.out
    assert printed.err.count("\n") == 1
    assert "no space left" in printed.err


def test_standard_input_goes_with_an_output_that_is_there(
    graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("an older one")
    data = io.BytesIO(Path(graph).read_bytes())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(data))
    assert main(["solve", "-", "-o", str(plan)]) == 0
    assert main(["check", graph, str(plan)]) == 0


HOSTILE = {
    "truncated gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
    "nesting": b"[" * 5_000_000,
    "nan": b'{"format": "optsched-graph/1", "ops": [], "buffers": [{"name": "x", "size": NaN}]}',
    "binary": bytes(range(256)) * 10,
    "empty": b"",
    "wrong type": b'{"nodes": 3, "buffers": []}',
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_one_line_and_code_two(case: str, tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "hostile"
    path.write_bytes(HOSTILE[case])
    for command in ("solve", "info"):
        error = cli.error(command, path)
        assert "hostile" in error
        assert error.count("\n") == 1
        assert "Traceback" not in error


INTERRUPTED = """
import os, sys
from optsched.cli import run
from optsched.joint.cpsat.solver import SolverThread

number, receive = int(sys.argv.pop(1)), SolverThread._receive

def interrupted(thread):
    SolverThread._receive = receive
    os.kill(os.getpid(), number)
    return receive(thread)

SolverThread._receive = interrupted
run()
"""
"""The command, which gets a signal once CP-SAT runs."""


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal to a child process")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_writes_the_best_plan(number: signal.Signals, tmp_path: Path) -> None:
    graph, plan = tmp_path / "hard.json", tmp_path / "plan.json"
    write_graph(hard_graph(), graph)
    # CP-SAT on a graph this wide does not end within the test.
    words = ["solve", "-", "-o", str(plan), "--engine", "cpsat", "--time-limit", "inf"]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(int(number)), *words],
        input=graph.read_bytes(),
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 130, done.stderr
    assert b"interrupted" in done.stdout
    assert main(["check", str(graph), str(plan)]) == 0


@pytest.mark.skipif(os.name != "posix", reason="closes a POSIX pipe")
def test_a_table_into_a_closed_pipe_is_no_failed_check(graph: str) -> None:
    # Rich ended the command with 1.
    reading, writing = os.pipe()
    os.close(reading)
    line = [sys.executable, "-m", "optsched", "compare", graph, "--methods", "program"]
    done = subprocess.run(line, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_several_packings_are_one_json_object(tmp_path: Path, cli: Cli) -> None:
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path in paths:
        path.write_text(CSV)
    records = cli.json("pack", *map(str, paths))["results"]
    assert [r["graph"] for r in records] == ["a", "b"]
    assert "one packing at a time" in cli.error("pack", *map(str, paths), "-o", tmp_path / "c.csv")


def test_pack_keeps_the_offsets_of_the_file(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "p.csv"
    path.write_text("id,lower,upper,size,offset\na,0,4,8,4\nb,2,6,4,\nc,0,3,4,\n")
    record = cli.json("pack", path, "--pins")
    assert (record["offsets"]["a"], record["slab"], record["status"]) == (4, 16, "optimal")
    path.write_text("id,lower,upper,size,offset\na,0,4,8,0\nb,2,6,4,4\n")
    assert "buffers 'a' (at 0) and 'b' (at 4) are pinned onto each other" in cli.error(
        "pack", path, "--pins"
    )


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command and action, by its words."""
    found = {}

    def add(parser: argparse.ArgumentParser) -> None:
        for action in parser._actions:
            for part in (
                (action.choices or {}) if isinstance(action, argparse._SubParsersAction) else ()
            ):
                found[f"{parser.prog} {part}".removeprefix("optsched ")] = action.choices[part]
                add(action.choices[part])

    add(make_parser())
    return found


def test_every_command_has_examples_that_its_parser_accepts() -> None:
    assert {*parsers()} == {*EXAMPLES}
    for name, lines in EXAMPLES.items():
        options = len(parsers()[name]._actions)
        assert len(lines) == 3 or options < 5, name
        for line in lines:
            assert make_parser().parse_args([*name.split(), *shlex.split(line)]).command


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_of_a_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for line in (["help", *name.split()], [*name.split(), "--help"]):
        with pytest.raises(SystemExit) as stop:
            main(line)
        assert stop.value.code == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert said[0].startswith(f"usage: optsched {name} ")
    assert said[0].rstrip().splitlines()[-1].endswith("optsched help")
    assert "options:\n" not in said[0]


def test_files_may_follow_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    build = GraphBuilder("pair")
    build.op("a", writes={"x": 8})
    build.op("b", reads=["x"], writes={"y": 8})
    graph, plan, proof, out = (str(tmp_path / x) for x in ("g.json", "p.json", "c.json", "o.csv"))
    write_graph(build.build(), graph)
    assert main(["solve", "--work", "100", "-o", plan, graph, "--certificate", proof]) == 0
    for line in (
        ["check", graph, "--first", "a", plan, "--json", proof],
        ["export", plan, "--to", "csv", "-o", out, graph],
        ["report", graph, "--trace", str(tmp_path / "t.json"), plan, "--time-limit", "5"],
    ):
        capsys.readouterr()
        said = cli(*line)
        assert '"bound": 16' in said or "bytes" in said
    assert "unexpected argument 'more'" in cli.error(
        "check", graph, plan, "--first", "a", proof, "more"
    )


def test_help_shows_options_in_groups() -> None:
    text = parsers()["solve"].format_help()
    places = [text.index(f"\n{title}:\n") for title in ("question", *GROUPS)]
    assert places == sorted(places)
    shown = text[places[1] : places[2]]
    assert all(name in shown for name in ("--time-limit", "--work", "--workers", "--seed"))


def test_help_of_help_is_the_list_of_commands(capsys: pytest.CaptureFixture[str], cli: Cli) -> None:
    with pytest.raises(SystemExit):
        main(["help"])
    text = capsys.readouterr().out
    assert all(f"\n    {name} " in text for name in COMMANDS)
    assert "exit codes: 0 proved" in text
    assert "unknown command 'slove': did you mean 'solve'?" in cli.error("help", "slove")


def test_every_grouped_option_exists() -> None:
    known = {text for parser in parsers().values() for text in parser._option_string_actions}
    assert {name for names in GROUPS.values() for name in names.split()} <= known
