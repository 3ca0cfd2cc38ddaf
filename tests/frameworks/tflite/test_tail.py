"""The tail of the arena equals the interpreter's own report, for every kernel that has a model."""

from __future__ import annotations

import pytest

pytest.importorskip("tflite", reason="the schema package is not installed: make test-frameworks")
pytest.importorskip("tflite_micro", reason="TFLite Micro is not installed: make test-frameworks")

from optsched.formats.tflite.model import read_model
from optsched.formats.tflite.tail import KERNELS, arena_tail, unknown_kinds
from optsched.model.origin import ArenaTail
from tests.support import tflite_kernels as kernels
from tests.support import tflm_models, tflm_report
from tests.support.tflite_builder import TfliteNet
from tests.support.tflm_packages import packaged_models

CASES = kernels.cases()


def arena(data: bytes, size: int = 1 << 24) -> tuple[ArenaTail, tuple[int, int]]:
    found = tflm_report.arena(data, size)
    assert isinstance(found, tuple), found
    return arena_tail(read_model(data), 8), found


@pytest.mark.parametrize("name", CASES)
def test_the_tail_of_a_kernel_is_the_interpreters(name: str) -> None:
    data = kernels.model_of(*CASES[name]).bytes()
    model, found = arena(data)
    assert (model.tail, model.unknown) == (found[1], ())
    # An arena of the size that is named is enough.
    assert tflm_report.arena(data, model.needed(found[0])) == found


@pytest.mark.parametrize("name", tflm_models.MODELS)
def test_the_arena_tail_a_network_is_the_smallest_that_is_enough(name: str) -> None:
    data = tflm_models.MODELS[name]().bytes()
    model, found = arena(data)
    assert model.tail == found[1]
    assert tflm_report.arena(data, model.needed(found[0])) == found
    # What the interpreter needs while it prepares is not counted exactly.
    if model.needed(found[0]) == sum(found):
        assert isinstance(tflm_report.arena(data, sum(found) - 16), str)


@pytest.mark.parametrize("path", packaged_models(), ids=lambda path: path.stem)
def test_the_tail_of_a_real_model_is_the_interpreters(path) -> None:
    data = path.read_bytes()
    found = tflm_report.arena(data, 1 << 28)
    if isinstance(found, str):
        pytest.skip(f"TFLite Micro does not run it: {found.splitlines()[-1][:80]}")
    assert arena_tail(read_model(data), 8).tail == found[1]


def test_quantization_of_inputs_and_several_subgraphs_count() -> None:
    net, called = TfliteNet(1), TfliteNet(2)
    called.outputs = [called.op("RELU", [called.input(1, 4)], 1, 4)]
    truth = net.input(1, type=6)
    net.outputs = [net.op("IF", [truth, net.input(1, 4)], 1, 4, then=1, otherwise=1)]
    net.more_subgraphs = [called]
    model, found = arena(net.bytes())
    assert model.tail == found[1]


def test_a_kind_without_a_rule_is_named() -> None:
    net = TfliteNet()
    net.outputs = [net.op("OwnProduct", [net.input(2, 2)], 2)]
    assert unknown_kinds(read_model(net.bytes())) == ("OwnProduct",)


def test_pointers_of_four_bytes_take_less() -> None:
    model = read_model(tflm_models.inception().bytes())
    small, large = (arena_tail(model, pointer) for pointer in (4, 8))
    assert small.tail < large.tail < 2 * small.tail + 200


def test_every_kernel_with_a_rule_has_a_model() -> None:
    tested = {case.kind for case, _ in CASES.values()}
    tested |= {op.kind for make in tflm_models.MODELS.values() for op in make().ops}
    states = {"ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE", "WHILE", "IF"}
    others = {"REDUCE_ALL", "BROADCAST_ARGS", "SPLIT_V", "TFLite_Detection_PostProcess"}
    assert set(KERNELS) - tested - states - others == set()
