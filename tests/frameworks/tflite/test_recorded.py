"""Graphs that were recorded of real models: the reader sees the same peak in the file's order."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tflite", reason="the schema package is not installed: make test-frameworks")

from optsched import peak_memory, read_graph
from tests.support.tflm_packages import PACKAGES, packaged_models

RECORDED = Path(__file__).parents[3].parent / "shared" / "instances" / "frameworks"
NAMES = {
    "nmp": "tflite__nmp.json.gz",
    "hand_landmark_lite": "tflite__mp_hand_landmark_lite.json.gz",
    "pose_detection": "tflite__mp_pose_detection.json.gz",
}


@pytest.mark.parametrize("name", NAMES)
def test_the_peak_of_the_files_order_is_the_recorded_one(name: str) -> None:
    found = [path for path in packaged_models() if path.stem == name]
    if not found or not (RECORDED / NAMES[name]).exists():
        pytest.skip(f"needs {name}.tflite of a package ({', '.join(PACKAGES)}) and its record")
    graph, recorded = read_graph(found[0]), read_graph(RECORDED / NAMES[name])
    assert len(graph.ops) == len(recorded.ops)
    peaks = [peak_memory(g, range(len(g.ops))) for g in (graph, recorded)]
    assert peaks[0] == peaks[1]
