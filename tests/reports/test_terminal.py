"""Colors of verdicts: on a terminal only, and the text is the same without them."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from optsched.cli import main
from optsched.reports.tables import Column, Table, print_line, print_table
from optsched.reports.terminal import console
from tests.support.commands import Cli

DIAMOND = Path(__file__).parents[2] / "instances" / "small" / "diamond.json"
GREEN, YELLOW, RED, GREY, RESET = (f"\x1b[{code}m" for code in (32, 33, 31, 90, 0))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, line: str, **environment: str) -> str:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    print_line(console(), line)
    return screen.getvalue()


@pytest.mark.parametrize(
    ("line", "words", "color"),
    [
        ("x -> y; smallest possible, proved", "smallest possible, proved", GREEN),
        ("  slab  8  packing bound (L1): x", "(L1)", GREY),
        ("x -> y; at most 3.1 % less is possible", "at most 3.1 % less is possible", YELLOW),
        ("  optimal (proved) after 0.1 s", "optimal", GREEN),
        ("  feasible (time limit) after 0.1 s", "feasible", YELLOW),
        ("  infeasible (decided) after 0.1 s", "infeasible", RED),
        ("slab: no plan found", "no plan found", RED),
    ],
)
def test_a_verdict_has_a_color(
    line: str, words: str, color: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = shown(monkeypatch, line)
    assert f"{color}{words}{RESET}" in said
    assert re.sub("\x1b.*?m", "", said) == f"{line}\n"


def test_no_color_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, "smallest possible (L3)", NO_COLOR="1") == "smallest possible (L3)\n"
    assert shown(monkeypatch, "smallest possible (L3)", TERM="dumb") == "smallest possible (L3)\n"


def test_names_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, "[red]x[/] :smile:", NO_COLOR="1") == "[red]x[/] :smile:\n"


def test_a_pipe_is_plain_and_a_terminal_is_not(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    piped = cli("solve", DIAMOND)
    assert "\x1b" not in piped
    assert "(L3)" in piped
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["solve", str(DIAMOND)]) == 0
    seconds = r"after [\d.]+ s"
    plain = re.sub("\x1b.*?m", "", screen.getvalue())
    assert re.sub(seconds, "", plain) == re.sub(seconds, "", piped)
    assert f"{GREEN}optimal{RESET}" in screen.getvalue()


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_columns_that_must_stay_are_shown_in_every_width(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    columns = (Column("graph", "t"), *(Column(f"method{i:02}") for i in range(20)))
    rows = [[f"name{row}", *(f"{row}{i:03}.5" for i in range(20))] for row in range(3)]
    print_table(console(), Table(columns, rows), "")
    said = capsys.readouterr().out
    assert all(len(line) <= width for line in said.splitlines())
    assert all(column.head in said for column in columns)
    assert all(cell in said for row in rows for cell in row)
    assert "hidden" not in said


def test_methods_that_were_asked_for_are_not_hidden(
    monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    names = "lpmf,bfs,dfs,program,naive,inductor,xla_default,skyline"
    said = cli("compare", DIAMOND, "--methods", names)
    heads = {
        word for line in said.splitlines() if line.startswith("graph") for word in line.split()
    }
    assert {"lpmf", "bfs", "dfs", "program", "naive", "inductor", "xla", "skyline"} <= heads
