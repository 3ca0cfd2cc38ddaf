"""`optsched tune`: options, exit codes, files."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import pytest

from optsched.cli.commands import main
from optsched.cli.tune import parse_duration
from optsched.formats import write_graph
from optsched.runtime import engines
from tests.support.families.small import diamond


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("1h30m", 5_400), ("2d", 172_800)]
)
def test_a_budget_is_written_as_people_write_times(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "2 weeks", "h", "-3s", "1h30", "nan", "inf"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_duration(text)


def test_a_fleet_with_a_bad_file_is_tuned_reported_and_ends_with_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_graph(diamond(), tmp_path / "diamond.json")
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "weights").write_text("diamond 3\ndimond 4\n")
    files = [str(tmp_path / name) for name in ("diamond.json", "bad.json")]
    options = [f"--{kind}={tmp_path / kind}" for kind in ("csv", "report", "log", "store")]
    weights = f"--weights={tmp_path / 'weights'}"
    assert main(["tune", *files, "--work", "1000", weights, "--json", *options]) == 2
    said = capsys.readouterr()
    assert f"{tmp_path / 'weights'}: no graph is named 'dimond'" in said.err
    record = json.loads(said.out)
    good, bad = record["rows"]
    assert (good["state"], good["slab"], good["weight"]) == ("proved", 18, 3.0)
    assert bad["state"] == "failed"
    assert record["totals"]["saved"] == 3.0 * (good["before"] - 18)
    assert "diamond" in (tmp_path / "report").read_text()
    assert (tmp_path / "csv").read_text().count("diamond") >= 2
    events = [json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()]
    assert sorted(events) == ["begin", "end", "failed", "unit"]
    # The table goes where no file does, and its sums say that they are weighted.
    again = ["tune", *files, "--work", "1000", weights, options[-1], "--csv", "-"]
    assert main([*again, "--markdown", str(tmp_path / "md")]) == 2
    said = capsys.readouterr()
    assert said.out.startswith("path,graph,equals")
    assert "gap left 0 B (times weight)" in said.err
    assert f"markdown: {tmp_path / 'md'}" in said.err
    assert (tmp_path / "md").read_text().startswith("# Memory plans of a fleet")


def test_bounds_of_orders_on_streams_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_graph(diamond(), tmp_path / "diamond.json")
    page = tmp_path / "page.html"
    given = ["tune", str(tmp_path / "diamond.json"), "--store", str(tmp_path / "store")]
    assert main([*given, "--work", "500", "--streams", "2", "--report", str(page)]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.endswith("smallest possible among orders on 2 streams, proved")
    assert "The minimum slab among orders on 2 streams is" in page.read_text()


def test_what_is_no_file_in_a_folder_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody waits for the other end of a pipe."""
    folder = tmp_path / "graphs"
    folder.mkdir()
    write_graph(diamond(), folder / "diamond.json")
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    (folder / "lost.json").symlink_to("nowhere")
    options = ["--work", "1000", "--store", str(tmp_path / "store"), "--json"]
    assert main(["tune", str(folder), *options]) == 0
    states = {row["path"]: row["state"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert states.pop(str(folder / "diamond.json")) == "proved"
    assert set(states.values()) == {"skipped"}
    assert len(states) == 3


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "give --budget"),
        (["--budget", "1m", "--work", "3"], "budget and work exclude each other"),
        (["--work", "1", "--address", "here"], "an address requires --engine dask"),
        (
            ["--work", "1", "--engine", "dask", "--address", "there"],
            "expected an address HOST:PORT",
        ),
        (
            ["--work", "1", "--engine", "dask", "--address", "127.0.0.1:1"],
            "no cluster answers at 127.",
        ),
        (["--work", "1", "--memory", "much"], "not a number of bytes"),
        (["--work", "1", "--log", "{store}"], "two outputs name the same file"),
        (["--work", "1", "--weights", "{store}.none"], ".none"),
    ],
)
def test_options_that_make_no_sense_are_one_line(
    options: list[str],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engines, "PATIENCE", 0.01)
    write_graph(diamond(), tmp_path / "diamond.json")
    store = str(tmp_path / "s.store")
    given = [option.format(store=store) for option in options]
    assert main(["tune", str(tmp_path / "diamond.json"), "--store", store, *given]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
