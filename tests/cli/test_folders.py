"""Folders among the arguments: the files in them are looked at, up to a limit."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from optsched.cli import folders
from optsched.cli.folders import graph_files
from optsched.errors import UsageError
from optsched.formats import write_graph
from optsched.runtime.interrupt import held_interrupts
from tests.support.commands import Cli
from tests.support.families.small import diamond


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inner = tmp_path / "graphs" / "inner"
    inner.mkdir(parents=True)
    write_graph(diamond(), inner / "diamond.json")
    write_graph(diamond(), tmp_path / "graphs" / "a.json.gz")
    return tmp_path / "graphs"


def test_files_of_a_folder_come_in_order_and_those_given_are_known(folder: Path) -> None:
    (folder / "notes.txt").write_text("no graph")
    (folder / "picture.png").write_text("")
    found = [(str(folder / "a.json.gz"), False), (str(folder / "inner" / "diamond.json"), False)]
    assert graph_files([str(folder)]) == found
    assert graph_files(["x.json", str(folder)]) == [("x.json", True), *found]


@pytest.mark.parametrize("command", ["compare", "compare --unfuse", "tune --work 1 --store s"])
def test_a_folder_of_too_many_files_is_one_line(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    name, *options = command.split()
    # Two files and a folder.
    monkeypatch.setattr(folders, "MOST_ENTRIES", 3)
    assert len(graph_files([str(folder)])) == 2
    monkeypatch.setattr(folders, "MOST_ENTRIES", 2)
    error = cli.error(name, folder, *options)
    assert error.startswith(f"optsched: error: {folder}: more than 2 files and folders")
    assert error.count("\n") == 1


def test_ctrl_c_ends_the_look(folder: Path) -> None:
    with held_interrupts():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            graph_files([str(folder)])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_a_folder_is_not_waited_for(folder: Path) -> None:
    """Text files are looked into, and nobody writes to this one."""
    os.mkfifo(folder / "pipe.txt")
    assert len(graph_files([str(folder)])) == 2


def test_a_folder_without_graphs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no graph")
    with pytest.raises(UsageError, match=r"no \.json, .* file in this folder"):
        graph_files([str(tmp_path)])
