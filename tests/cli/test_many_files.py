"""Options of commands that take many files: failures that are allowed, and sizes by file."""

from __future__ import annotations

from pathlib import Path

import pytest

from optsched import write_graph
from optsched.cli import main
from optsched.cli.common import parse_dims
from optsched.errors import MissingDependencyError
from optsched.formats.fields import unknown_dimension
from tests.support.commands import Cli
from tests.support.families.small import diamond


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    write_graph(diamond(), good)
    bad.write_text('{"format": "optsched-graph/1"}')
    return [str(good), str(bad)]


def test_a_nightly_job_may_allow_failures(files: list[str], tmp_path: Path) -> None:
    tune = ["tune", *files, "--store", str(tmp_path / "plans.store"), "--work", "1000"]
    compare = ["compare", *files, "--methods", "program"]
    for command in (tune, compare):
        assert main(command) == 2
        assert main([*command, "--allow-failed", "0"]) == 2
        assert main([*command, "--allow-failed", "1"]) == 0


def test_a_size_for_files_without_dimensions_is_refused(files: list[str], cli: Cli) -> None:
    assert "no file has an open dimension 'batch'" in cli.error(
        "compare", files[0], files[0], "--methods", "program", "--dim", "batch=1"
    )


@pytest.mark.parametrize("line", ["good.json", "good.json batch", "good.json batch=0"])
def test_a_broken_file_of_sizes_is_one_line(
    line: str, files: list[str], tmp_path: Path, cli: Cli
) -> None:
    sizes = tmp_path / "sizes.txt"
    sizes.write_text(f"{line}\n")
    assert f"{sizes}: expected 'path NAME=N', got {line!r}" in cli.error(
        "compare", files[0], "--methods", "program", "--dims", sizes
    )


def test_a_missing_package_is_named_so_that_pip_finds_it_anywhere() -> None:
    message = str(MissingDependencyError("tflite", "tflite"))
    assert message == "tflite is not installed; run: pip install flatbuffers tflite"
    assert "'torch<2.16,>=2.13'" in str(MissingDependencyError("torch", "torch"))


def test_sizes_are_given_one_by_one_or_in_a_list() -> None:
    assert parse_dims(["N=1,M1=320", "seq=8"]) == {"N": 1, "M1": 320, "seq": 8}
    # A name of torch may have a comma of its own.
    assert parse_dims(["Max(2,b)=3", "a,b=4"]) == {"Max(2,b)": 3, "a,b": 4}


def test_sizes_that_follow_from_others_are_not_offered() -> None:
    text = str(unknown_dimension("x", ["batch", "floor(batch/2) + 1", "seq"]))
    assert text.startswith("unknown dimension 'x'; open dimensions: 'batch', 'seq'")
    assert "floor" not in text
    assert "'a + 1'" in str(unknown_dimension("x", ["a + 1"]))
