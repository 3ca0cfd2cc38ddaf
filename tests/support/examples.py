"""Run the scripts and notebooks of `docs/examples` in an empty folder, without jupyter.

`python -m tests.support.examples [NAME...]` keeps what they print: beside a script as `NAME.txt`,
in a notebook as the outputs of its cells.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.documents import ROOT
from tests.support.registries import registries_kept

EXAMPLES = ROOT / "docs" / "examples"
NEEDS = {"model_to_arena": "tflite", "inside_torch_compile": "torch"}
"""Extras that examples need."""


def printed_by(example: Path) -> list[str]:
    """Return what a script prints, or what each code cell of a notebook prints."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), registries_kept():
        Path("instances").symlink_to(ROOT / "instances")
        if example.suffix == ".ipynb":
            return _run_cells(json.loads(example.read_text("utf-8")))
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            runpy.run_path(str(example), run_name="__main__")
        return [said.getvalue()]


def _run_cells(notebook: dict[str, Any]) -> list[str]:
    """Run the code cells in one namespace."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    for cell in code_cells(notebook):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile("".join(cell["source"]), cell["id"], "exec"), namespace)
        printed.append(said.getvalue())
    return printed


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the code cells of a notebook."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def kept_by(example: Path) -> list[str]:
    """Return the outputs that are kept for an example."""
    if example.suffix == ".py":
        return [example.with_suffix(".txt").read_text("utf-8")]
    cells = code_cells(json.loads(example.read_text("utf-8")))
    return ["".join("".join(out["text"]) for out in cell["outputs"]) for cell in cells]


def keep(example: Path) -> None:
    """Run an example and keep what it prints."""
    printed = printed_by(example)
    if example.suffix == ".py":
        example.with_suffix(".txt").write_text(printed[0], encoding="utf-8")
        return
    notebook = json.loads(example.read_text("utf-8"))
    for number, (cell, text) in enumerate(zip(code_cells(notebook), printed, strict=True), 1):
        stream = {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
        cell.update(execution_count=number, outputs=[stream] if text else [])
    example.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def without_seconds(text: str) -> str:
    """Return a text in which all times are equal."""
    return re.sub(r"\d+\.\d+ s\b", "0.0 s", text)


def examples() -> list[Path]:
    """Return all scripts and notebooks."""
    return sorted((*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*.ipynb")))


if __name__ == "__main__":
    for path in examples():
        if path.stem in sys.argv[1:]:
            keep(path)
