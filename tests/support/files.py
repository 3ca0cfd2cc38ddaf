"""Graphs of whole folders."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from optsched.errors import OptschedError
from optsched.formats import read_graph
from optsched.model.graph import Graph

KINDS = {".json", ".onnx", ".pt2", ".tflite", ".txt"}
"""Suffixes of files that may hold graphs."""


def read_all(folders: Sequence[Path]) -> Iterator[Graph]:
    """The graphs of all files, by name; of files with the same name the first."""
    seen = set()
    for folder in folders:
        for path in sorted(p for p in folder.iterdir() if not KINDS.isdisjoint(p.suffixes)):
            if path.name not in seen:
                seen.add(path.name)
                try:
                    yield read_graph(path)
                except OptschedError as error:
                    print(f"{path.name}: {error}", file=sys.stderr)


def refusal(path: Path) -> str | None:
    """Return what is said of a bad file; None if it is read."""
    try:
        read_graph(path)
    except OptschedError as error:
        return str(error)
    return None
