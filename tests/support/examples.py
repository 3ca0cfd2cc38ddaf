"""Run the examples of `docs/examples` in an empty folder.

`python -m tests.support.examples [NAME...]` keeps what they print beside them as `NAME.txt`.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys
import tempfile
from pathlib import Path

from tests.support.documents import ROOT
from tests.support.registries import registries_kept

EXAMPLES = ROOT / "docs" / "examples"
NEEDS = {"model_to_arena": "tflite", "inside_torch_compile": "torch"}
"""Extras that examples need."""
NEED_FILES = {"model_to_arena"}
"""Examples that read files of the project; the others run in any folder."""


def printed_by(example: Path) -> str:
    """Return what an example prints in a folder that is not the project's."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), registries_kept():
        if example.stem in NEED_FILES:
            Path("instances").symlink_to(ROOT / "instances")
        with contextlib.redirect_stdout(said):
            runpy.run_path(str(example), run_name="__main__")
    return said.getvalue()


def kept_by(example: Path) -> str:
    """Return the output that is kept for an example."""
    return example.with_suffix(".txt").read_text("utf-8")


def keep(example: Path) -> None:
    """Run an example and keep what it prints."""
    example.with_suffix(".txt").write_text(printed_by(example), encoding="utf-8")


def without_seconds(text: str) -> str:
    """Return a text in which all times are equal."""
    return re.sub(r"\d+\.\d+ s\b", "0.0 s", text)


def examples() -> list[Path]:
    """Return all examples."""
    return sorted(EXAMPLES.glob("*.py"))


if __name__ == "__main__":
    for path in examples():
        if path.stem in sys.argv[1:]:
            keep(path)
