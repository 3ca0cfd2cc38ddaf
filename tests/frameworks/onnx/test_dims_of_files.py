"""Sizes of open dimensions in a folder: each file uses those that it has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.commands import Cli

pytest.importorskip("onnx", reason="needs the extra `onnx`")

from optsched.cli import main
from optsched.formats.reading import GraphReading

MODELS = Path(__file__).parents[3] / "instances" / "onnx"
OPEN = "encoder.onnx"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (OPEN, "cell.onnx"):
        shutil.copy(MODELS / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("option", [["--dim", "batch=1"], ["--dim", "auto"]])
def test_a_folder_with_one_open_model_is_planned(folder: Path, option: list[str]) -> None:
    files = [str(folder / OPEN), str(folder / "cell.onnx")]
    store = ["--store", str(folder / "plans.store"), "--work", "1000"]
    assert main(["tune", *files, *store, *option]) in (0, 3)
    assert main(["compare", *files, "--methods", "program", *option]) == 0


def test_a_file_of_sizes_is_about_single_files(folder: Path) -> None:
    sizes = folder / "sizes.txt"
    sizes.write_text(f"# sizes\n{OPEN} batch=3\n")
    files = [str(folder / OPEN), str(folder / "cell.onnx")]
    assert main(["compare", *files, "--methods", "program", "--dims", str(sizes)]) == 0
    by_file = GraphReading(dims_by_file=((OPEN, "batch", 3),)).read(folder / OPEN)
    assert by_file.dims == GraphReading(dims=(("batch", 3),)).read(folder / OPEN).dims


def test_suggested_sizes_are_printed_once(folder: Path, cli: Cli) -> None:
    path = str(folder / OPEN)
    assert (
        cli.error("info", path, "--dim", "auto", code=0)
        == f"{path}: planned with batch=1 (--dim auto)\n"
    )


def test_a_size_that_no_file_has_is_refused(folder: Path, cli: Cli) -> None:
    files = [str(folder / OPEN), str(folder / "cell.onnx")]
    assert "no file has an open dimension 'bacth'" in cli.error(
        "compare", *files, "--methods", "program", "--dim", "bacth=1"
    )
    # Of a single file the nearest name is known.
    assert "did you mean 'batch'" in cli.error(
        "compare", files[0], "--methods", "program", "--dim", "bacth=1"
    )
