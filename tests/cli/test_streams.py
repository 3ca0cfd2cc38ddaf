"""Commands on graphs whose ops run on several streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optsched.cli import main
from optsched.formats import write_graph
from tests.model.test_streams import loads


@pytest.fixture
def path(tmp_path: Path) -> str:
    write_graph(loads(), tmp_path / "loads.json")
    return str(tmp_path / "loads.json")


def run(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main([*args, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_solve_and_check(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(tmp_path / "plan.json")
    found = run(capsys, "solve", path, "-o", plan)
    assert (found["status"], found["slab"], found["peak"]) == ("optimal", 48, 48)
    assert found["streams"] == {"names": ["copy", "main"], "antichain": ["w", "w2", "x", "y"]}
    checked = run(capsys, "check", path, plan, "--replay")
    assert (checked["peak"], checked["slab"], checked["replayed"]["steps"]) == (48, 48, 80)
    assert main(["check", path, plan]) == 0
    assert "2 streams: no slab of these orders is below the peak" in capsys.readouterr().out
    assert main(["solve", path]) == 0
    assert "2 streams: the peak consists of buffers that pairwise may be" in capsys.readouterr().out


def test_levels(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_graph(loads().without_streams(), tmp_path / "one.json")
    one = str(tmp_path / "one.json")
    assert run(capsys, "solve", one)["slab"] == 32
    # Levels fix the order: both loads come first, whether or not they are in one.
    assert run(capsys, "solve", one, "--streams", "1")["slab"] == 48
    assert run(capsys, "solve", one, "--streams", "2")["slab"] == 48
    methods = ("--methods", "greedy_by_size,optsched:5")
    row = run(capsys, "compare", one, "--streams", "2", *methods)["rows"]
    assert row


def test_a_certificate_is_of_ops_one_at_a_time(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, certificate = str(tmp_path / "plan.json"), str(tmp_path / "certificate.json")
    found = run(capsys, "solve", path, "-o", plan, "--certificate", certificate)
    assert found["certificate"]["bound"] == 32
    assert run(capsys, "check", path, plan, certificate)["bound"] == 32


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["solve", "--streams", "1"], "ops run on 2 streams, more than the requested 1"),
        (
            ["solve", "--inplace"],
            "ops on several streams are not supported by the in-place memory model",
        ),
        (
            ["solve", "--workspace-apart"],
            "ops on several streams are not supported by a separate workspace region",
        ),
        (
            ["solve", "--engine", "cpsat"],
            "ops on several streams are not supported by engine cpsat",
        ),
        (["solve", "--engine", "milp"], "ops on several streams are not supported by engine milp"),
        (
            ["solve", "--pool", "a=9", "--pool", "b"],
            "not supported by pools that spill into each other",
        ),
        (["explain"], "ops on several streams are not supported by explanations"),
        (
            ["hunt", "--method", "lpmf", "-o", "OUT", "--from"],
            "ops on several streams are not supported by hunts",
        ),
        (["report", "-o", "OUT.html"], "not supported by a picture of live bytes step by step"),
        (
            ["convert", "--to", "inductor", "-o", "OUT.json"],
            "ops on several streams are not supported by a simulator file",
        ),
    ],
)
def test_what_takes_ops_one_at_a_time_refuses(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], said: str
) -> None:
    given = [str(tmp_path / x) if x.startswith("OUT") else x for x in args]
    assert main([*given, path]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
