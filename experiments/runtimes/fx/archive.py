"""Exported programs as small files: without weights, sample inputs and lines of the source."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from experiments.tables import markdown
from optsched import peak_memory, read_graph, solve

_STORED = (1980, 1, 1, 0, 0, 0)
"""Date of all files in an archive, so that its bytes are always equal."""


def write_programs(folder: Path, programs: Mapping[str, Callable[[], Any]]) -> None:
    """Write a `.pt2` for each program, which is made then and there."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    for name, make in programs.items():
        made = folder / f"{name}.pt2"
        torch.export.save(make(), made)
        with zipfile.ZipFile(made) as archive:
            document = json.loads(archive.read(f"{name}/models/model.json"))
        _forget_sources(document["graph_module"]["graph"])
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, text in (
                (f"{name}/archive_format", "pt2"),
                (f"{name}/archive_version", "0"),
                (f"{name}/models/model.json", json.dumps(document)),
            ):
                entry = zipfile.ZipInfo(member, _STORED)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, text)
        print(f"{made.name}: {made.stat().st_size:,} bytes")


def _forget_sources(graph: dict[str, Any]) -> None:
    for node in graph["nodes"]:
        node["metadata"] = {}
        for given in node["inputs"]:
            if "as_graph" in given["arg"]:
                _forget_sources(given["arg"]["as_graph"]["graph"])


def program_table(folder: Path, own: str, dims: Mapping[str, Mapping[str, int]]) -> str:
    """Return a row for each program: peaks of its own order and least ones, in bytes.

    Parameters
    ----------
    own
        Name of the program's own order.
    dims
        By program: sizes for what it leaves open.
    """
    head = ("program", "ops", own, "least", f"in place: {own}", "in place: least", "proof")
    found = []
    for path in sorted(folder.glob("*.pt2")):
        graph = read_graph(path, dims=dims.get(path.stem, {}))
        order = range(len(graph.ops))
        line = [path.stem, str(len(graph.ops))]
        for each in (graph, graph.with_inplace()):
            result = solve(each, objective="peak", time_limit=20)
            line += [f"{peak_memory(each, order):,}", f"{result.peak:,}"]
        found.append([*line, str(result.peak_proof)])
    return markdown(head, found)
