"""A sample of `python -m tests.fuzz tflite_models`: what is planned is what the runtime holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import Cli

pytest.importorskip("tflite", reason="the schema package is not installed: make test-frameworks")
pytest.importorskip("tflite_micro", reason="TFLite Micro is not installed: make test-frameworks")

from optsched import read_graph
from optsched.compare.saving import stock_plan
from optsched.formats.tflite.graph import arena_head, read_tflite
from optsched.formats.tflite.model import METADATA_NAME, read_model
from tests.fuzz import tflite_models
from tests.support import tflm_report
from tests.support.tflite_builder import TfliteNet


def test_random_models_hold_what_is_planned() -> None:
    counts, unexplained = tflite_models.fuzz(40, seed=0)
    assert unexplained == []
    assert counts[f"before: {tflite_models.EQUAL}"] == 40
    features = {"IF", "WHILE", "a variable", "unread results", "unread inputs", "int8"}
    assert {f"feature: {name}" for name in features} <= counts.keys()


def test_tensors_that_nothing_uses_take_bytes_before_all_others() -> None:
    net = TfliteNet()
    net.outputs = [net.dense(net.input(1, 5), 7)]
    for size in (30, 100):
        net.tensor(1, size)
    found = tflm_report.arena(net.bytes())
    graph = read_tflite(net.bytes(), "net").graph
    assert found[0] == arena_head(read_model(net.bytes())) == 128 + 400
    assert graph.memory_model.endswith("at least 528 bytes, for tensors that nothing uses")


def test_the_bytes_before_follow_the_offsets_of_the_file(tmp_path: Path, cli: Cli) -> None:
    """The last tensor, of 16 bytes, lies at 4,096; other tensors have no offset."""
    net, path = TfliteNet(), tmp_path / "net.tflite"
    net.outputs = [net.dense(net.dense(net.input(1, 5), 7), 3)]
    offsets = [-1] * len(net.tensors)
    offsets[net.outputs[0]] = 4096
    values = np.array((1, 0, len(offsets), *offsets), "<i4")
    net.metadata = {METADATA_NAME.decode(): values.tobytes()}
    path.write_bytes(net.bytes())
    own, found = stock_plan(read_graph(path)), tflm_report.arena(path.read_bytes())
    assert own is not None
    assert own.slab == found[0] == 4096 + 16
    assert "arena 4,112 -> 64 bytes" in cli("solve", path)
