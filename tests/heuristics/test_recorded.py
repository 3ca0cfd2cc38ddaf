"""Orders and peaks that TorchInductor itself recorded for real models, order by order."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from heuristics import ORDERINGS
from optsched.formats.inductor import read_inductor
from optsched.model.liveness import peak_memory

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    "repository": ROOT / "instances" / "inductor",
    "sibling": ROOT.parent / "shared" / "instances" / "inductor",
}


def load(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        document: dict[str, Any] = json.load(file)
    return document


@pytest.mark.parametrize("folder", FOLDERS)
def test_orders_and_peaks_equal_inductors(folder: str) -> None:
    paths = sorted(FOLDERS[folder].glob("*.json.gz"))
    if not paths:
        pytest.skip(f"no captured graphs in {FOLDERS[folder].relative_to(ROOT.parent)}")
    compared = 0
    for path in paths:
        document = load(path)
        recorded = document.get("extra", {})
        graph = read_inductor(document, name=path.name)
        for name in ("lpmf", "bfs", "dfs"):
            if name not in recorded.get("orders", {}):
                continue
            order = ORDERINGS[name](graph, 0)
            assert order.tolist() == recorded["orders"][name], (path.name, name)
            assert peak_memory(graph, order) == recorded["peaks"][name], (path.name, name)
            compared += 1
        if "baseline" in recorded.get("peaks", {}):
            program = ORDERINGS["program"](graph, 0)
            assert peak_memory(graph, program) == recorded["peaks"]["baseline"], path.name
    assert compared
