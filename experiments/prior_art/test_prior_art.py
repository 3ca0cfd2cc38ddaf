"""Published results done again: MODeL's rules and program, cells of a TFLite file, the race."""

from __future__ import annotations

import struct
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from experiments.prior_art import race
from experiments.prior_art.__main__ import largest, main, times
from experiments.prior_art.cells import arena_bytes
from experiments.prior_art.dataflow import Dataflow, Tensor, kind, program_order
from experiments.prior_art.model_milp import MilpSolver, solve_model
from experiments.prior_art.race import Row, contradictions
from experiments.prior_art.tflite_cells import read_cells
from optsched.errors import FormatError
from optsched.model.builder import GraphBuilder
from optsched.model.liveness import peak_memory
from optsched.ordering import solve_order
from tests.support.brute import least_peak
from tests.support.families.wiring import random_wiring
from tests.support.generators import FEATURES, random_graph


@pytest.mark.parametrize("number", range(12))
def test_model_finds_the_least_peak(number: int) -> None:
    rng = np.random.default_rng([11, number])
    graph = random_graph(rng, int(rng.integers(1, 8)), features=FEATURES)
    solver = MilpSolver.CBC if number % 4 == 0 else MilpSolver.HIGHS
    whole = solve_model(graph, seconds=30, solver=solver)
    assert whole.finished
    assert (whole.peak, whole.replayed) == (least_peak(graph),) * 2


def test_steps_that_are_shared_cost_memory() -> None:
    build = GraphBuilder("two chains")
    for name, size in (("a", 8), ("b", 8)):
        build.op(f"{name}0", writes={f"{name}0": size})
        build.op(f"{name}1", reads=[f"{name}0"], writes={f"{name}1": 1})
        build.output(f"{name}1")
    graph = build.build()
    long = solve_model(graph, seconds=30, solver=MilpSolver.HIGHS)
    short = solve_model(graph, seconds=30, solver=MilpSolver.HIGHS, short=True)
    assert (long.steps, long.peak) == (4, 10)
    assert (short.steps, short.peak) == (3, 17)
    assert short.replayed is not None
    assert 10 <= short.replayed <= 17


def small_trace() -> Dataflow:
    """A convolution in place, its backward and the updates of its weight and bias."""
    return Dataflow(
        ops=[
            *("args_1", "params_1", "params_2", "convolution", "relu_", "loss"),
            *("convolution_backward", "getitem", "getitem_1", "add_", "add__1", "view"),
        ],
        tensors=[
            Tensor("args_1", ["convolution", "convolution_backward"], 10),
            Tensor("params_1", ["convolution", "convolution_backward", "add_"], 6),
            Tensor("params_2", ["convolution", "add__1"], 2),
            Tensor("convolution", ["relu_"], 20),
            Tensor("relu_", ["loss", "view"], 20),
            Tensor("loss", ["convolution_backward"], 20),
            Tensor("convolution_backward", ["getitem", "getitem_1"], 0),
            Tensor("getitem", ["add_"], 6),
            Tensor("getitem_1", ["add__1"], 2),
        ],
        weights={"params_1", "params_2"},
    )


def test_what_is_no_tensor_of_its_own_goes() -> None:
    found = small_trace()
    found.simplify()
    assert found.ops == [
        "args_1",
        "params_1",
        "convolution",
        "loss",
        "convolution_backward",
        "add_",
    ]
    sizes = {tensor.source: tensor.size for tensor in found.tensors}
    # Weight and bias are one tensor, and so are their gradients.
    sources = ["args_1", "params_1", "convolution", "loss", "convolution_backward"]
    assert sizes == dict(zip(sources, (10, 8, 20, 20, 8), strict=True))
    assert found.longest_path() == 5
    graph = found.as_graph("small")
    assert peak_memory(graph, program_order(graph, found.ops)) == 8 + 10 + 20 + 20


def test_updates_run_before_an_op_further_on() -> None:
    found = Dataflow(
        ops=["params_1", "seed", "grad", "add_", "next", "after"],
        tensors=[
            Tensor("params_1", ["grad", "add_"], 4),
            Tensor("seed", ["grad", "next"], 1),
            Tensor("grad", ["add_"], 4),
            Tensor("next", ["after"], 2),
        ],
        weights={"params_1"},
    )
    found.early_updates()
    # `after` is at most as far from the start as `add_`.
    assert [t for t in found.tensors if not t.size] == []
    found.ops += ["beyond", "last"]
    found.tensors += [Tensor("after", ["beyond"], 2), Tensor("beyond", ["last"], 2)]
    found.early_updates()
    assert [(t.source, t.sinks) for t in found.tensors if not t.size] == [("add_", ["beyond"])]


def test_kinds_are_names_without_their_number() -> None:
    assert [kind(x) for x in ("relu_", "relu__3", "t", "t_12", "addmm_1")] == [
        *("relu_", "relu_", "t", "t", "addmm")
    ]


def test_alexnet_is_as_published() -> None:
    pytest.importorskip("torch", reason="traces need torch: pip install '.[torch]'")
    from experiments.prior_art.alexnet import read_trace, trace

    found = read_trace(trace())
    found.simplify()
    assert len(found.ops) == 76
    free = found.as_graph("alexnet")
    program = peak_memory(free, program_order(free, found.ops))
    assert f"{program / 2**30:.4f}" == "0.5618"
    assert solve_order(free).peak == 397_102_240
    found.early_updates()
    early = found.as_graph("early")
    # Their program has 50 steps and costs 16,384 bytes more than the best order.
    theirs = solve_model(early, seconds=60, solver=MilpSolver.HIGHS, short=True)
    assert solve_order(early).peak == 513_543_328
    assert theirs.peak == 513_559_712
    assert f"{100 * (1 - theirs.peak / program):.6f}" == "14.860221"


def flat(fields: list[bytes | int]) -> bytes:
    """A table of a FlatBuffers file, its vtable before it; `bytes` are appended, by offset."""
    head = 4 + 2 * len(fields)
    places = [4 + 4 * i for i in range(len(fields))]
    vtable = struct.pack(f"<{2 + len(fields)}H", head, 4 + 4 * len(fields), *places)
    pad = b"\0" * (-head % 4)
    body, behind = struct.pack("<i", head), b""
    for place, field in zip(places, fields, strict=True):
        if isinstance(field, int):
            body += struct.pack("<i", field)
        else:
            body += struct.pack("<I", 4 + 4 * len(fields) - place + len(behind))
            behind += field
    return pad + vtable + body + behind


def vector(items: list[bytes]) -> bytes:
    """A vector of tables, each with its vtable and padding before its first byte."""
    offsets, tables = [], b""
    for i, item in enumerate(items):
        front = len(item) - len(item.lstrip(b"\0"))
        vtable = struct.unpack_from("<H", item, front)[0]
        start = front + vtable
        offsets.append(4 * (len(items) - i) + len(tables) + start)
        tables += item
    return struct.pack("<I", len(items)) + struct.pack(f"<{len(items)}I", *offsets) + tables


def numbers(values: list[int]) -> bytes:
    return struct.pack(f"<I{len(values)}i", len(values), *values)


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<I", len(data)) + data + b"\0" * (4 - len(data) % 4)


@pytest.fixture
def tflite(tmp_path: Path) -> Path:
    """Two ops, `a/x` and `b/y`, and a weight that `b/y` reads."""
    tensors = [
        flat([numbers([1, 6]), 3, 0, text("in")]),
        flat([numbers([1, 4]), 3, 0, text("a/x")]),
        flat([numbers([2]), 0, 1, text("weight")]),
        flat([numbers([1, 2]), 3, 0, text("b/y")]),
    ]
    operators = [
        flat([0, numbers([0]), numbers([1])]),
        flat([0, numbers([1, 2]), numbers([3])]),
    ]
    subgraph = flat([vector(tensors), numbers([0]), numbers([3]), vector(operators)])
    buffers = [flat([numbers([])]), flat([numbers([7, 7])])]
    model = flat([3, vector([]), vector([subgraph]), text(""), vector(buffers)])
    front = len(model) - len(model.lstrip(b"\0"))
    root = 8 + front + struct.unpack_from("<H", model, front)[0]
    path = tmp_path / "net.lite"
    path.write_bytes(struct.pack("<I", root) + b"TFL3" + model)
    return path


def test_cells_are_told_by_prefix(tflite: Path) -> None:
    (whole_name, whole), (name, cell) = read_cells(tflite, prefix="b")
    assert (whole_name, name) == ("whole network", "b")
    assert [op.name for op in whole.ops] == ["0.a/x", "1.b/y"]
    assert peak_memory(whole, [0, 1]) == 10
    assert [op.name for op in cell.ops] == ["0.b/y"]
    assert arena_bytes(cell, [0]) == peak_memory(cell, [0]) == 6


def test_other_files_are_refused(tmp_path: Path, tflite: Path) -> None:
    path = tmp_path / "other"
    for data in (b"", b"12345678", tflite.read_bytes()[:40]):
        path.write_bytes(data)
        with pytest.raises(FormatError):
            list(read_cells(path))


ROW = Row("f", "g", 3, "a", 10, 0.5, proved=True)


def test_contradictions_are_seen() -> None:
    other = Row("f", "g", 3, "b", 10, 0.1, proved=False, why="stopped with a gap")
    assert contradictions([ROW, other]) == []
    better = Row("f", "g", 3, "b", 9, 0.1, proved=False)
    assert len(contradictions([ROW, better])) == 1
    assert len(contradictions([ROW, Row("f", "g", 3, "b", 11, 0.1, proved=True)])) == 1


def test_tables_say_how_far_each_came() -> None:
    rows = [ROW, Row("f", "h", 6, "a", 20, 9.0, proved=False, why="stopped with a gap")]
    assert "| f | 3 | 0 |" in largest(rows, ["a", "b"])
    assert "| f | 3 (all) |" in largest([ROW], ["a"])
    said = times(rows, ["a", "b"])
    assert "| g | 3 | 10 | 0.50 |  |" in said
    assert "| h | 6 | open | stopped with a gap |  |" in said


def test_methods_climb_until_they_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    ladder = {"random wiring, sizes 1": race.FAMILIES["random wiring, sizes 1"][:2]}
    rows = list(race.race(ladder, ["our search"], 20.0))
    assert [(row.ops, row.proved, row.peak) for row in rows] == [(9, True, 7), (17, True, 9)]
    monkeypatch.setattr(race.Runner, "run", lambda *_: Row("f", "g", 9, "m", None, 1.0, False, "?"))
    assert len(list(race.race({"f": [partial(random_wiring, 8, 0)] * 3}, ["m"], 1.0))) == 1


def test_cells_are_proved(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cells"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9
    assert all("| L5 |" in line for line in lines[2:])


def test_a_missing_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net").write_bytes(b"nothing")
    for name in ("net", "absent"):
        assert main(["cells", "--swiftnet", str(tmp_path / name)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
