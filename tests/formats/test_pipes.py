"""Pipes and standard input: a command reads its files more often than a pipe gives bytes."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from optsched.cli import main
from optsched.formats import read_graph, write_graph
from optsched.formats.source import read_bytes
from tests.support.families.small import diamond

pytestmark = pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs /dev/fd")


@pytest.fixture
def graph(tmp_path: Path) -> bytes:
    path = tmp_path / "diamond.json"
    write_graph(diamond(), path)
    return path.read_bytes()


@contextmanager
def piped(data: bytes) -> Iterator[str]:
    """Yield the path of a pipe with these bytes, as that of `<(command)` in a shell."""
    reader, writer = os.pipe()
    with open(writer, "wb") as file:
        file.write(data)
    try:
        yield f"/dev/fd/{reader}"
    finally:
        os.close(reader)


def test_a_pipe_gives_the_same_bytes_again() -> None:
    with piped(b"one") as path:
        assert [read_bytes(path) for _ in range(3)] == [b"one"] * 3
    with piped(b"two") as other:
        assert read_bytes(other) == b"two"
    with piped(b"") as empty:
        assert read_bytes(empty) == b""


def test_a_named_pipe_does_not_wait_for_a_second_writer(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=[b"one"], daemon=True)
    writer.start()
    assert [read_bytes(path) for _ in range(2)] == [b"one"] * 2
    writer.join()
    # The pipe stays open, so that nothing written between two reads is lost.
    path.write_bytes(b"another")
    assert [read_bytes(path) for _ in range(2)] == [b"another"] * 2


def test_a_named_pipe_in_place_of_another_has_bytes_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    for data in (b"one", b"another"):
        os.mkfifo(path)
        writer = threading.Thread(target=path.write_bytes, args=[data], daemon=True)
        writer.start()
        assert read_bytes(path) == data
        writer.join()
        path.unlink()


def test_a_long_session_keeps_few_pipes_open(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for number in range(40):
        with piped(str(number).encode()) as path:
            assert read_bytes(path) == str(number).encode()
    assert len(os.listdir("/dev/fd")) <= before + 16


def test_standard_input_in_place_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (b"one", b"", b"two"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert [read_bytes("-") for _ in range(2)] == [data] * 2


@pytest.mark.parametrize("command", ["info", "solve", "explain", "compare --methods program"])
def test_commands_read_pipes(
    command: str, graph: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with piped(graph) as path:
        assert main([*command.split(), path]) in (0, 3)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(graph)))
    assert main([*command.split(), "-"]) in (0, 3)
    printed = capsys.readouterr().out
    assert printed.count("bytes") >= 2
    assert "20" in printed


def test_a_plan_and_its_graph_from_pipes(
    graph: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.json"
    with piped(graph) as path:
        assert main(["solve", path, "-o", str(plan)]) == 0
        assert read_graph(path).ops
        with piped(plan.read_bytes()) as second:
            assert main(["check", path, second]) == 0
            assert main(["export", second, path, "--to", "json"]) == 0
    assert '"offset"' in capsys.readouterr().out


def test_commands_whose_other_processes_read_the_file_say_so(
    graph: bytes, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with piped(graph) as path:
        assert main(["tune", path, "--budget", "1", "--store", str(tmp_path / "store.db")]) == 2
        assert main(["measure", path]) == 2
    said = capsys.readouterr().err.splitlines()
    assert all("expected a file, got a pipe; write it to a file first" in line for line in said)
    assert len(said) == 2
