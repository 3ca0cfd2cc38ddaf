"""`optsched hunt`: files that `optsched check` accepts, a picture, a paragraph, one-line errors."""

from __future__ import annotations

import json
import signal
import xml.etree.ElementTree as ET
from html import escape
from pathlib import Path

import pytest

from optsched.cli import main
from optsched.formats import read_graph, read_packing
from optsched.reports.progress import ProgressLine
from tests.support.commands import Cli

INSTANCES = Path(__file__).parents[2] / "instances"
ALEXNET = str(INSTANCES / "inductor" / "alexnet_bs128.bwd.json.gz")
KEYS = {
    *("method", "versus", "objective", "seed", "found", "saving", "exhausted"),
    *("exhausted_scope", "tried", "seconds", "interrupted", "graph", "ops", "edges", "buffers"),
    *("value", "rival_value", "score", "optimum", "proved", "proof", "minimal", "plans"),
    *("story", "files", "settings", "versions"),
}
QUICK = ["--time-limit", "inf", "--max-tries", "1000"]


def run(*args: str) -> int:
    return main(["hunt", *args])


def test_a_graph_and_its_plans(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    out = tmp_path / "core.v1.json"
    assert run("--method", "dfs", "--max-ops", "6", "-o", str(out), "--json", *QUICK) == 0
    record = json.loads(capsys.readouterr().out)
    assert set(record) == KEYS
    assert record["minimal"]
    assert record["proved"]
    assert record["score"] >= 1.5
    assert read_graph(out).name == "core.v1" == record["graph"]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        *("core.v1.dfs.plan.json", "core.v1.html", "core.v1.json", "core.v1.optimum.plan.json"),
        *("core.v1.svg", "core.v1.txt"),
    ]
    for plan, value in (("dfs", record["value"]), ("optimum", record["optimum"])):
        path = str(tmp_path / f"core.v1.{plan}.plan.json")
        assert cli.json("check", out, path)["peak"] == value
    story = (tmp_path / "core.v1.txt").read_text()
    assert story.strip() == record["story"]
    page = (tmp_path / "core.v1.html").read_text()
    assert "<svg" in page
    assert escape(record["story"]) in page
    assert "The orders part at step" in story
    assert f"{record['value']:,} bytes" in story
    picture = ET.fromstring((tmp_path / "core.v1.svg").read_text())
    texts = ["".join(element.itertext()) for element in picture]
    assert f"dfs: {record['value']:,} bytes" in texts
    assert f"optimum: {record['optimum']:,} bytes" in texts


def test_a_packing_and_its_offsets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    out = tmp_path / "core.csv"
    assert run("--method", "first_fit_arrival", "--max-bytes", "9", "-o", str(out), *QUICK) == 0
    text = capsys.readouterr().out
    assert "tried exhaustively, in every listing" in text
    assert "comes to lie at" in text
    assert read_packing(out).offsets is None
    slabs = {}
    for name in ("first_fit_arrival", "optimum"):
        slabs[name] = cli.json("check", tmp_path / f"core.{name}.csv")["slab"]
    assert slabs["first_fit_arrival"] >= 1.2 * slabs["optimum"]
    ET.fromstring((tmp_path / "core.svg").read_text())


def test_one_method_against_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "core.json"
    args = ["--method", "lpmf", "--versus", "bfs", "-o", str(out), *QUICK]
    assert run(*args) == 0
    text = capsys.readouterr().out
    assert "the order of bfs" in text
    assert {p.name for p in tmp_path.iterdir()} >= {
        "core.lpmf.plan.json",
        "core.bfs.plan.json",
        "core.optimum.plan.json",
    }


def test_a_core_of_a_real_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "core.json"
    args = ["--method", "bfs", "--from", ALEXNET, "--at-least", "1.3", "-o", str(out), "--json"]
    assert run(*args) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["score"] >= 1.3
    assert record["minimal"]
    assert record["ops"] == len(read_graph(out).ops) < 10
    assert {op.name for op in read_graph(out).ops} <= {op.name for op in read_graph(ALEXNET).ops}


WRONG = [
    (["--method", "nobody", "-o", "x.json"], "unknown method 'nobody': known are program, lpmf"),
    (["--method", "lmpf+naive", "-o", "x.json"], "unknown method 'lmpf': did you mean 'lpmf'?"),
    (["--method", "lpmf", "--versus", "naive", "-o", "x.json"], "different kinds"),
    (["--method", "lpmf", "--at-least", "2", "-o", "x.json"], "--at-least needs --from"),
    (["--method", "lpmf", "--time-limit", "inf", "-o", "x.json"], "needs time_limit or max_tries"),
    (["--method", "lpmf", "--max-ops", "40", "-o", "x.json"], "from 2 to 16"),
    (["--method", "lpmf", "-o", "no/such/folder/x.json"], "a file in an existing folder"),
    (["--method", "lpmf", "-o", "."], "a file in an existing folder"),
    (["--method", "lpmf", "-o", "-"], "give it a file's name"),
    (["--method", "lpmf", "--from", "none.json", "-o", "x.json"], "none.json"),
    (["--method", "lpmf", "--from", "bad.json", "-o", "x.json"], "bad.json"),
    (["--method", "lpmf", "--from", "p.csv", "-o", "x.json"], "needs a graph"),
    (["--method", "naive", "--from", ALEXNET, "-o", "x.csv"], "live ranges"),
    (["--method", "naive", "--from", "p.csv", "--at-least", "x", "-o", "x.csv"], "a number"),
    (["--method", "naive", "--from", "p.csv", "--at-least", "9", "-o", "x.csv"], "less than 9"),
    (["--method", "naive", "--from", "p.csv", "-o", "p.csv"], "overwrite an input"),
]


@pytest.mark.parametrize(("args", "words"), WRONG, ids=lambda x: str(x)[:40])
def test_bad_wishes_are_one_line(
    args: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text('{"format": "optsched-graph/1", "ops": 3}')
    (tmp_path / "p.csv").write_text("id,lower,upper,size\na,0,1,5\nb,1,2,5\n")
    assert run(*args) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("optsched: error: ")
    assert said.err.count("\n") == 1
    assert words in said.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.json", "p.csv"]


def test_nothing_found_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.csv").write_text("id,lower,upper,size\na,0,1,5\nb,1,2,5\n")
    args = ["--method", "skyline", "--from", str(tmp_path / "p.csv"), "-o", str(tmp_path / "x.csv")]
    assert run(*args) == 5
    assert "never found above the optimum" in capsys.readouterr().out
    assert not (tmp_path / "x.csv").exists()


def test_ctrl_c_writes_the_worst_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def press_ctrl_c(line: ProgressLine, text: str) -> None:
        # Once, when something is found.
        if not text.startswith("nothing yet") and not said:
            said.append(text)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ProgressLine, "show_text", press_ctrl_c)
    out = tmp_path / "core.json"
    assert run("--method", "program", "-o", str(out), "--time-limit", "9999") == 130
    assert said
    assert "possibly not minimal" in capsys.readouterr().out
    assert main(["check", str(out), str(tmp_path / "core.program.plan.json")]) == 0
