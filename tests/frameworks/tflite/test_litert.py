"""LiteRT's own packings, read from the addresses in its arena."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tflite", reason="the schema package is not installed: make test-frameworks")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed: make test-frameworks")

import numpy as np

from optsched import pack, read_packing
from optsched.check.packing import check_packing
from optsched.errors import FormatError
from optsched.formats import write_packing
from optsched.formats.tflite.model import Model, read_model
from optsched.formats.tflite.shapes import shapes_of
from tests.support import tflm_models as models
from tests.support.litert import record

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
    found = record(PATHS[0])
    write_packing(found.problem, tmp_path / "packing.csv", found.offsets)
    table = read_packing(tmp_path / "packing.csv")
    assert table.offsets is not None
    assert check_packing(table.problem, table.offsets.tolist()) == found.slab


FOLLOWED = {"cells_a", "cells_b", "four_bit_weights", "inception", "mlp", "unet"}
"""Models whose operators all have rules for another first dimension."""


def shapes_for_three(model: Model) -> list[list[int]] | None:
    try:
        return shapes_of(model, {"0": 3})
    except FormatError:
        return None


@pytest.mark.parametrize("name", sorted(models.MODELS))
def test_shapes_for_another_batch_are_those_of_the_interpreter(name: str) -> None:
    """Or they are refused."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    net = models.MODELS[name]()
    for tensor in net.tensors:
        if not tensor.data and tensor.shape and tensor.shape[0] == 1:
            tensor.signature = (-1, *tensor.shape[1:])
    data = net.bytes()
    model = read_model(data)
    shapes = shapes_for_three(model)
    assert (shapes is not None) == (name in FOLLOWED)
    if shapes is None:
        return
    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=resolver)
    for number in model.inputs:
        interpreter.resize_tensor_input(number, np.array(shapes[number]))
    interpreter.allocate_tensors()
    found = {x["index"]: x["shape"].tolist() for x in interpreter.get_tensor_details()}
    assert all(found[x.number] == list(shapes[x.number]) for x in model.tensors)
