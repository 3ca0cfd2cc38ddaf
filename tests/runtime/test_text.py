"""Names from files reach no terminal raw, with any command; JSON has them exactly."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from optsched.cli import main
from optsched.formats import write_graph
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.runtime.text import nearest_word, plain, readable
from tests.support.commands import Cli

EVIL = "\x1b]0;x\x07\x1b[2J\ncheck: valid\r\u202eright\u2066\x00[red]\u2028\t"
"""Sets a terminal's title, wipes it, fakes a line, turns the writing round."""


def named(mark: str) -> Graph:
    """A graph of two branches whose bound needs more than one op, with marks in every name."""
    build = GraphBuilder(f"graph{mark}", memory_model=f"model{mark}")
    build.input(f"x{mark}", 8)
    for side, size in (("left", 4), ("right", 6)):
        build.op(f"{side}{mark}", reads=[f"x{mark}"], writes={f"{side}.y{mark}": size}, workspace=2)
    reads = [f"left.y{mark}", f"right.y{mark}"]
    build.op(f"join{mark}", reads=reads, writes={f"out{mark}": 3}, kind=f"kind{mark}")
    build.output(f"out{mark}")
    return build.build()


def test_a_text_keeps_its_lines_and_a_name_has_one() -> None:
    assert plain("one\ntwo, 日本 é") == "one\ntwo, 日本 é"
    assert plain(EVIL).replace("\n", "").isprintable()
    assert readable(EVIL).isprintable()
    assert readable("a\nb\\") == "a\\nb\\"
    assert readable("\udcff\ud800") == "\\xff\\ud800"
    assert readable("a" * 100 + "b" * 100, 50) == "a" * 25 + "…" + "b" * 24
    assert readable("a" * 9_999 + "b", 5) == "aa…ab"
    assert readable("abcde", 5) == "abcde"


def swapped(path: Path, plan: Path) -> None:
    """Break a plan: the last op first."""
    record = json.loads(plan.read_text())
    record["order"].reverse()
    path.write_text(json.dumps(record))


COMMANDS: dict[str, Callable[[str, str, str], list[str]]] = {
    "solve": lambda graph, plan, bad: ["solve", graph, "-o", plan],
    "explain": lambda graph, plan, bad: ["explain", graph],
    "info": lambda graph, plan, bad: ["info", graph],
    "check": lambda graph, plan, bad: ["check", graph, plan],
    "check, broken": lambda graph, plan, bad: ["check", graph, bad],
    "compare": lambda graph, plan, bad: ["compare", graph, "--methods", "lpmf,optsched"],
    "compare, plan": lambda graph, plan, bad: [
        "compare", graph, "--methods", "lpmf", "--plan", f"a={bad}"
    ],
    "does not fit": lambda graph, plan, bad: ["solve", graph, "--capacity", "16"],
    "pools": lambda graph, plan, bad: ["solve", graph, "--pool", "a=9", "--pool", "b"],
    "pools, full": lambda graph, plan, bad: ["solve", graph, "--pool", "a=9"],
    "hunt": lambda graph, plan, bad: [
        "hunt", "--method", "lpmf", "--from", graph, "-o", f"{plan}.hunt.json", "--max-tries", "9"
    ],
    "convert": lambda graph, plan, bad: ["convert", graph, "-o", f"{plan}.graph.json"],
}  # fmt: skip


def test_no_command_prints_a_name_raw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many lines as with harmless names, and only visible characters."""
    # Room for all columns, however long a name is.
    monkeypatch.setenv("COLUMNS", "300")
    outputs: dict[str, list[tuple[int, int]]] = {name: [] for name in COMMANDS}
    for mark in ("1", EVIL):
        graph, plan, bad = (str(tmp_path / f"{len(mark)}{x}.json") for x in ("g", "p", "b"))
        write_graph(named(mark), graph)
        for name, command in COMMANDS.items():
            if name == "check, broken":
                swapped(Path(bad), Path(plan))
            code = main(command(graph, plan, bad))
            printed = capsys.readouterr()
            text = printed.out + printed.err
            assert text.replace("\n", "").isprintable(), (name, text)
            outputs[name].append((code, text.count("\n")))
    for name, (harmless, evil) in outputs.items():
        assert harmless == evil, name


@pytest.mark.parametrize("command", ["solve", "explain", "info", "compare"])
def test_json_has_names_as_they_are(command: str, tmp_path: Path, cli: Cli) -> None:
    path = str(tmp_path / "graph.json")
    write_graph(named(EVIL), path)
    printed = cli(command, path, "--json")
    assert printed.replace("\n", "").isprintable()
    record = json.loads(printed)
    record = record.get("graphs", [record])[0]
    assert record["graph"] == f"graph{EVIL}"
    if command == "solve":
        assert set(record["order"]) == {f"{name}{EVIL}" for name in ("left", "right", "join")}


def test_paths_and_arguments_are_told_in_one_harmless_line(tmp_path: Path, cli: Cli) -> None:
    missing = str(tmp_path / EVIL.replace("\x00", "").replace("/", ""))
    error = cli.error("solve", missing)
    assert error.count("\n") == 1
    assert error.strip().isprintable()
    assert (
        cli.error("solve", "--no-such", missing, "--time-limit", missing)
        .replace("\n", "")
        .isprintable()
    )


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("load", ["Plan", "read_graph"], "read_graph"),
        ("optimize", ["timeline", "solve"], "solve"),
        ("verify", ["certify", "check_plan"], "check_plan"),
        ("callback", ["capacity", "on_event"], "on_event"),
        ("threads", ["seed", "workers"], "workers"),
        ("--verbose", ["--workers", "--json"], None),
        ("--split", ["--first", "--unfuse"], "--unfuse"),
        ("set_log_level", ["solve", "tune"], None),
        ("nodes", ["ops", "name"], "ops"),
        ("successors", ["predecessors", "ops"], "predecessors"),
        ("objectiv", ["objective", "order"], "objective"),
    ],
)
def test_words_that_people_use_are_known(word: str, known: list[str], meant: str | None) -> None:
    assert nearest_word(word, known) == meant


def test_a_wrong_guess_on_a_graph_gets_the_right_name() -> None:
    graph = GraphBuilder("g").build()
    for guess, meant in (("nodes", "ops"), ("edges", "predecessors"), ("to_dataframe", "buffers")):
        with pytest.raises(AttributeError, match=f"{guess!r}: did you mean {meant!r}"):
            getattr(graph, guess)
    assert not hasattr(graph, "_repr_png_")
    assert pickle.loads(pickle.dumps(graph)) == graph
    assert copy.deepcopy(graph) == graph
