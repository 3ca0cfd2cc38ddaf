"""Commands on graphs whose ops run on several streams."""

from __future__ import annotations

from pathlib import Path

import pytest

from optsched.formats import write_graph
from tests.model.test_streams import loads
from tests.support.commands import Cli


@pytest.fixture
def path(tmp_path: Path) -> str:
    write_graph(loads(), tmp_path / "loads.json")
    return str(tmp_path / "loads.json")


def test_solve_and_check(path: str, tmp_path: Path, cli: Cli) -> None:
    plan = str(tmp_path / "plan.json")
    found = cli.json("solve", path, "-o", plan)
    assert (found["status"], found["slab"], found["peak"]) == ("optimal", 48, 48)
    assert found["streams"] == {"names": ["copy", "main"], "antichain": ["w", "w2", "x", "y"]}
    checked = cli.json("check", path, plan, "--replay")
    assert (checked["peak"], checked["slab"], checked["replayed"]["steps"]) == (48, 48, 80)
    assert "2 streams: no slab of these orders is below the peak" in cli("check", path, plan)
    assert "2 streams: the peak consists of buffers that pairwise may be" in cli("solve", path)


def test_levels(path: str, tmp_path: Path, cli: Cli) -> None:
    write_graph(loads().without_streams(), tmp_path / "one.json")
    one = str(tmp_path / "one.json")
    assert cli.json("solve", one)["slab"] == 32
    # Levels fix the order: both loads come first, whether or not they are in one.
    assert cli.json("solve", one, "--streams", "1")["slab"] == 48
    assert cli.json("solve", one, "--streams", "2")["slab"] == 48
    methods = ("--methods", "greedy_by_size,optsched:5")
    row = cli.json("compare", one, "--streams", "2", *methods)["rows"]
    assert row


def test_a_certificate_is_of_ops_one_at_a_time(path: str, tmp_path: Path, cli: Cli) -> None:
    plan, certificate = str(tmp_path / "plan.json"), str(tmp_path / "certificate.json")
    found = cli.json("solve", path, "-o", plan, "--certificate", certificate)
    assert found["certificate"]["bound"] == 32
    assert cli.json("check", path, plan, certificate)["bound"] == 32


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
    path: str, tmp_path: Path, cli: Cli, args: list[str], said: str
) -> None:
    given = [str(tmp_path / x) if x.startswith("OUT") else x for x in args]
    error = cli.error(*given, path)
    assert said in error
    assert error.count("\n") == 1
