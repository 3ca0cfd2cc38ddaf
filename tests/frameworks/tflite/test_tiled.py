"""Tiled models are ordinary files: the same bits in TFLite Micro and LiteRT, with all names."""

from __future__ import annotations

import json
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the schema package is not installed: make test-frameworks")
pytest.importorskip("tflite_micro", reason="TFLite Micro is not installed: make test-frameworks")

from optsched import pack
from optsched.cli import main
from optsched.errors import FormatError
from optsched.formats.tflite.graph import TfliteGraph, read_tflite
from optsched.formats.tflite.model import METADATA_NAME, read_model
from optsched.formats.tflite.rows import rows_of
from optsched.formats.tflite.tail import arena_tail
from optsched.formats.tflite.tiled import tiled_before, write_tiled
from optsched.formats.tflite.tiled_tail import tail_of
from optsched.model.places import placed, places_problem
from optsched.model.rows import RowMap, RowOp, RowRule, Rows
from optsched.model.tiled import Stage, TiledGraph, Tiling
from optsched.model.tiling import tiled_graph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.tiling.tiler import Tiler
from tests.fuzz import tiled_models
from tests.support import litert, tflm_report, tflm_runs
from tests.support.microcontroller_networks import mobilenet2, resnet8, unet
from tests.support.tflite_builder import INT8, INT32, TfliteNet
from tests.support.tflite_kernels import register
from tests.support.tiled_networks import random_tiling


def tile(data: bytes, *stages: Stage) -> tuple[TfliteGraph, TiledGraph, int, bytes]:
    made = read_tflite(data, "net")
    tiled = tiled_graph(rows_of(made, data), Tiling(stages))
    order = np.arange(len(tiled.ops))
    problem, ids = places_problem(tiled, order)
    plan = placed(tiled, order, ids, np.array(pack(problem, time_limit=3.0).offsets))
    return made, tiled, tiled.head(plan), write_tiled(data, made, tiled, plan)


def outputs(data: bytes, *files: bytes) -> list[Any]:
    """Return head, tail and outputs of files on inputs of the first one."""
    model, rng = read_model(data), np.random.default_rng(5)
    inputs = [
        tflm_runs.drawn(rng, model.tensors[t].shape, model.tensors[t].type) for t in model.inputs
    ]
    return tflm_runs.runs([data, *files], inputs, len(model.outputs))


def test_random_networks_equal_their_tiled_forms() -> None:
    found, wrong = tiled_models.fuzz(40, seed=1000)
    assert wrong == []
    assert found["stages"] > 100
    assert min(found[kind] for kind in ("FLOAT32", "INT8", "INT16")) > 5
    assert found["runs"] == 2 * found["networks"]


def test_workspace_lies_beside_tensors_as_a_whole() -> None:
    # A network whose rows died early where TFLite Micro, which knows whole tensors only, placed
    # scratch of an operator elsewhere.
    found, wrong = tiled_models.fuzz(1, seed=360)
    assert wrong == []
    assert found["networks"] == 1


def test_a_network_of_three_stages_takes_less_than_half() -> None:
    data = mobilenet2(96).bytes()
    stages = (Stage((0, 1, 2), 12), Stage((3, 4, 5), 8, True), Stage((6, 7, 8), 3))
    *_, head, written = tile(data, *stages)
    (before, *_), (after, tail, _) = outputs(data, written)
    assert after == head
    assert after < before / 2
    assert arena_tail(read_model(written), 8).tail == tail


def test_litert_computes_the_same() -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed: make test-frameworks")
    data = mobilenet2(64).bytes()
    *_, written = tile(data, Stage((0, 1, 2), 5), Stage((3, 4), 7, True))
    model = read_model(data)
    shape = model.tensors[model.inputs[0]].shape
    inputs = [tflm_runs.drawn(np.random.default_rng(1), shape, "INT8")]
    (before,), (after,) = litert.outputs(data, inputs), litert.outputs(written, inputs)
    assert before.tobytes() == after.tobytes()


def test_the_sum_for_the_tail_is_that_of_the_file_less_an_alignment() -> None:
    for make in (mobilenet2, resnet8, lambda: unet(32)):
        data = make().bytes()
        rows = rows_of(read_tflite(data, "net"), data)
        rng = np.random.default_rng(4)
        for _ in range(2):
            made, tiled, _, written = tile(data, *random_tiling(rng, rows).stages)
            for pointer in (4, 8):
                exact = arena_tail(read_model(written), pointer).tail
                # Options of single bytes, as those of resizing, are aligned one by one.
                resized = sum(op.kind.startswith("RESIZE") for op in read_model(written).operators)
                found = tiled.tail(tail_of(made, data, pointer))
                assert exact - 30 - 4 * resized <= found <= exact


def padded(net: TfliteNet, x: int, pads: int) -> int:
    n, h, w, c = net.shape(x)
    return net.op("PAD", [x, pads], n, h + 2, w + 2, c)


@pytest.mark.parametrize("bands", [(0, 0, 0), (4, 0, 0), (4, 0, 2), (4, 3, 2)])
def test_constants_that_ops_share_stay_until_all_of_them_run_in_bands(
    bands: tuple[int, ...],
) -> None:
    net = TfliteNet(1, INT8)
    values = np.array([0, 0, 1, 1, 1, 1, 0, 0], "<i4").tobytes()
    pads = net.tensor(4, 2, type=INT32, data=values)
    x = net.input(1, 12, 4, 2)
    for _ in range(3):
        x = padded(net, net.conv(x, 2), pads)
    net.outputs = [x]
    stages = [Stage((2 * k + 1,), count) for k, count in enumerate(bands) if count]
    made, tiled, _, written = tile(net.bytes(), *stages)
    assert len(made.graph.ops) == 6
    for pointer in (4, 8):
        tail = tail_of(made, net.bytes(), pointer)
        exact = arena_tail(read_model(written), pointer).tail
        assert 0 <= exact - tiled.tail(tail) <= tail.slack < 60


def small() -> TfliteNet:
    """x (8 rows) -> a -> y, convolutions of 3 rows."""
    net = TfliteNet(1, INT8)
    x = net.input(1, 8, 4, 2, name="x")
    net.outputs = [net.conv(net.conv(x, 3), 2)]
    net.tensors[net.outputs[0]].name = "y"
    return net


def test_metadata_of_others_and_names_are_kept() -> None:
    net = small()
    net.metadata["min_runtime_version"] = b"1.14.0"
    data = net.bytes()
    *_, written = tile(data, Stage((0, 1), 2))
    found = read_model(written)
    assert [found.tensors[t].name for t in found.inputs + found.outputs] == ["x", "y"]
    assert written.endswith(data)
    assert metadata(written) == [b"min_runtime_version", METADATA_NAME, b"optsched tiling"]


def metadata(data: bytes) -> list[bytes]:
    import tflite

    model = tflite.Model.GetRootAs(data)
    return [model.Metadata(i).Name() for i in range(model.MetadataLength())]


def test_no_unused_tensor_is_left_and_weights_are_shared() -> None:
    data = small().bytes()
    *_, written = tile(data, Stage((0, 1), 4))
    found = read_model(written)
    used = Counter(t for op in found.operators for t in (*op.inputs, *op.outputs))
    assert set(used) == set(range(len(found.tensors)))
    filters = {op.inputs[1] for op in found.operators if op.kind == "CONV_2D"}
    assert len(filters) == 2


def test_a_tiled_file_is_not_tiled_again() -> None:
    data = small().bytes()
    *_, written = tile(data, Stage((0, 1), 2))
    assert tiled_before(written)
    assert not tiled_before(data)
    with pytest.raises(FormatError, match="tiled already"):
        tile(written, Stage((1,), 2))


def test_more_than_ten_bands_are_joined_in_groups() -> None:
    net = TfliteNet(3)
    net.outputs = [net.conv(net.input(1, 23, 3, 1), 2)]
    *_, written = tile(net.bytes(), Stage((0,), 23))
    joins = [op for op in read_model(written).operators if op.kind == "CONCATENATION"]
    assert [len(op.inputs) for op in joins] == [10, 10, 3, 3]


def rows(net: TfliteNet) -> Rows:
    data = net.bytes()
    return rows_of(read_tflite(data, "net"), data)


def row_op(net: TfliteNet) -> RowOp | str:
    return rows(net).ops[-1]


def test_maps_of_convolutions() -> None:
    net = TfliteNet()
    net.outputs = [net.conv(net.input(1, 9, 4, 2), 5, 3, 2)]
    found = row_op(net)
    assert isinstance(found, RowOp)
    # Nine rows at stride 2 make five; one row is padded at each end.
    assert found.maps == (RowMap(0, window=3, stride=2, pad=1),)
    assert (found.rule, found.cost) == (RowRule.SAME, 2 * 5 * 3 * 3 * 2)
    assert found.maps[0].needs(0, 1) == (-1, 2)


def test_maps_of_resizing() -> None:
    net = TfliteNet()
    x = net.input(1, 4, 4, 2)
    net.outputs = [net.op("RESIZE_BILINEAR", [x, net.integers(8, 8)], 1, 8, 8, 2, half_pixel=True)]
    found = row_op(net)
    assert isinstance(found, RowOp)
    # Row 3 lies at 1.25 of the input, between rows 1 and 2.
    assert found.maps[0].needs(3, 4) == (1, 3)
    assert found.maps[0].needs(2, 3) == (0, 2)


def unmapped(kind: str, shape: tuple[int, ...], *more: int, **fields: Any) -> RowOp | str:
    register(kind)
    net = TfliteNet(**fields)
    x = net.input(1, 6, 4, 2)
    net.outputs = [net.op(kind, [x, *(net.integers(v) for v in more)], *shape)]
    return row_op(net)


def test_reasons_of_ops_that_run_whole() -> None:
    assert unmapped("MEAN", (1, 2), 1) == "no row map is known for MEAN"
    assert unmapped("RELU", (4, 6, 4, 2)) == "batch of 4"
    net = TfliteNet()
    x, size = net.input(1, 4, 4, 2), net.integers(12, 8)
    net.outputs = [net.op("RESIZE_BILINEAR", [x, size], 1, 12, 8, 2)]
    assert row_op(net) == "factor 3 is not a power of two"
    net = TfliteNet()
    x = net.input(1, 6, 4, 2)
    net.outputs = [net.op("ADD", [x, net.weights(1, 6, 4, 2)], 1, 6, 4, 2)]
    assert row_op(net) == "constant 't1' differs from row to row"
    net = TfliteNet()
    x, y = net.input(1, 6, 4, 2), net.input(1, 5, 4, 2)
    net.outputs = [net.op("CONCATENATION", [x, y], 1, 11, 4, 2, axis=1)]
    assert row_op(net) == "not row-local: joins rows"


def test_an_input_of_one_row_is_read_by_every_band() -> None:
    net = TfliteNet()
    x, scale = net.input(1, 6, 4, 2), net.input(1, 1, 4, 2)
    register("MUL")
    net.outputs = [net.op("MUL", [x, scale], 1, 6, 4, 2)]
    data = net.bytes()
    found = row_op(net)
    assert isinstance(found, RowOp)
    assert [x.buffer for x in found.maps] == [0]
    *_, head, written = tile(data, Stage((0,), 3))
    untiled, tiled = outputs(data, written)
    assert tiled[0] == head
    assert untiled[2][0].tobytes() == tiled[2][0].tobytes()


def test_bands_of_padding_state_their_own_paddings() -> None:
    net = TfliteNet(0, INT8)
    register("PAD")
    x = net.input(1, 5, 4, 2)
    values = struct.pack("<8i", 0, 0, 2, 1, 0, 1, 0, 0)
    pads = net.tensor(4, 2, type=INT32, data=values)
    y = net.op("PAD", [x, pads], 1, 8, 5, 2)
    net.outputs = [net.conv(y, 3)]
    data = net.bytes()
    *_, head, written = tile(data, Stage((0, 1), 3))
    untiled, tiled = outputs(data, written)
    assert tiled[0] == head
    assert untiled[2][0].tobytes() == tiled[2][0].tobytes()


def test_the_arena_of_the_command_is_the_interpreters_to_the_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = tmp_path / "m.tflite", tmp_path / "t.tflite"
    for make in (lambda: mobilenet2(64), resnet8):
        model.write_bytes(make().bytes())
        asked = ["--extra", "10%", "--tail", "64", "--time-limit", "10", "--json"]
        assert main(["tile", str(model), *asked, "-o", str(out)]) in (0, 3)
        record = json.loads(capsys.readouterr().out)
        assert tflm_report.arena(out.read_bytes()) == (record["head"], record["tail"])
        assert tflm_report.arena(model.read_bytes())[1] == record["untiled"]["tail"]  # type: ignore[index]
        # A capacity is kept by the file, not by a sum that leaves out alignments.
        asked[:2] = ["--capacity", str(record["arena"])]
        assert main(["tile", str(model), *asked, "-o", str(out)]) in (0, 3)
        assert json.loads(capsys.readouterr().out)["arena"] <= record["arena"]


def test_a_search_that_ends_early_proves_nothing() -> None:
    data = resnet8().bytes()
    made = read_tflite(data, "net")
    limits = Limits(seconds=60.0)
    tail = tail_of(made, data, 8)
    tiler = Tiler(rows_of(made, data), tail, 8, "total", Clock.of(limits))
    tiler.prepare()
    # Searches of paths find none once the time is over, as if there were none.
    tiler.clock = tiler.paths.clock = Clock.of(Limits(seconds=0.0))
    best, bound = tiler.least(10**12)
    assert (best, bound) == (tiler.untiled, None)
    assert tiler.within(1000) is None
    assert not tiler.refuted
