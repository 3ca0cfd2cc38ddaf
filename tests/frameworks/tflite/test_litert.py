"""LiteRT's own packings, read from the addresses in its arena."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tflite", reason="the schema package is not installed: make test-frameworks")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed: make test-frameworks")

from experiments.runtimes.litert.__main__ import measure
from experiments.runtimes.litert.recorded import record
from optsched import pack, read_packing
from optsched.check.plan import check_packing

PATHS = sorted((Path(__file__).parents[3] / "instances" / "tflite").glob("*.tflite"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_recorded_packings_are_valid_and_never_below_the_least(path: Path) -> None:
    found = record(path)
    assert found.absent == 0
    slab = check_packing(found.problem, found.offsets.tolist())
    assert slab == found.slab
    assert (pack(found.problem, time_limit=20).slab_bound or 0) <= slab <= found.arena


def test_an_output_that_is_written_in_place_is_told() -> None:
    (path,) = (path for path in PATHS if path.stem == "decoder")
    assert record(path).shared == (("t11", "t10"),)


def test_recorded_packings_are_written_as_csv(tmp_path: Path) -> None:
    measure(PATHS[0], tmp_path)
    (written,) = tmp_path.iterdir()
    table = read_packing(written)
    assert table.offsets is not None
    assert check_packing(table.problem, table.offsets.tolist()) == record(PATHS[0]).slab
