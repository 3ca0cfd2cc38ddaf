"""Profiles of ONNX Runtime: shapes and orders of a run, and profiles of other models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the extra onnx is not installed")


from optsched.errors import FormatError
from optsched.formats import read_recorded
from tests.frameworks.onnx.build import BOOL, body, model, node, read, sizes, value

CHAIN = [node("Transpose", "x", "a", "t"), node("Exp", "a", "y", "e")]


def profile(path: Path, *events: tuple[str, str, list[Any], list[Any]]) -> Path:
    rows: list[dict[str, Any]] = [{"cat": "Session", "name": "model_run", "ts": 0, "args": {}}]
    for ts, (name, kind, reads, writes) in enumerate(events, start=1):
        args = {"op_name": kind, "input_type_shape": reads, "output_type_shape": writes}
        rows.append({"cat": "Node", "name": f"{name}_kernel_time", "ts": ts, "args": args})
    path.write_text(json.dumps(rows))
    return path


SQUARE = [{"float": [8, 4]}]


def test_a_profile_gives_shapes_and_the_order_that_ran(tmp_path: Path) -> None:
    nodes = [
        node("Transpose", "x", "a", "t"),
        node("Mystery", "x", "b", "m", domain="own"),
        node("Add", "a,b", "y", "s"),
    ]
    made = model(nodes, [value("x", ["n", 4])])
    traced = profile(
        tmp_path / "profile.json",
        ("m", "Mystery", SQUARE, [{"float16": [4, 8]}]),
        ("t", "Transpose", SQUARE, [{"float": [4, 8]}]),
        ("s", "Add", [], [{"float": [4, 8]}]),
        ("t", "Transpose", [], [{"float": [9, 9]}]),  # of a second run
    )
    assert sizes(read(made, profile=traced)) == {"x": 128, "a": 128, "b": 64, "y": 128}
    path = tmp_path / "net.onnx"
    path.write_bytes(made.SerializeToString())
    assert read_recorded(path, profile=traced) == {"ort": (1, 0, 2)}
    assert read_recorded(path) == {"ort": (1, 0, 2)}


def test_ops_in_bodies_may_have_the_name_of_one_outside(tmp_path: Path) -> None:
    inside = body([node("Exp", "x", "b", "t")], [], [value("b", None)])
    nodes = [node("If", "c", "a", "if", then_branch=inside, else_branch=inside)]
    nodes += [node("Transpose", "a", "y", "t")]
    made = model(nodes, [value("x", ["n", 4]), value("c", [], BOOL)])
    kernels = [("t", "Exp", 3), ("if", "If", 2), ("t", "Transpose", 5)]
    shape = [{"float": [2, 4]}]
    rows = [
        {
            "name": f"{name}_kernel_time",
            "ts": start,
            "args": {
                "op_name": kind,
                "input_type_shape": [{"bool": []}] if kind == "If" else shape,
                "output_type_shape": shape,
            },
        }
        for name, kind, start in kernels
    ]
    (traced := tmp_path / "profile.json").write_text(json.dumps(rows))
    assert sizes(read(made, profile=traced)) == {"x": 32, "c": 1, "a": 32, "y": 32}
    (path := tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    assert read_recorded(path, profile=traced) == {"ort": (0, 1)}


def test_sizes_that_a_profile_lacks_are_asked_for(tmp_path: Path) -> None:
    # An op that ONNX Runtime replaces has no event.
    nodes = [node("Mish", "x", "a", "m"), node("Mish", "a", "b", "o"), node("Neg", "b", "y", "n")]
    made = model(nodes, [value("x", [None, 4])], opset=18)
    traced = profile(tmp_path / "profile.json", ("n", "Neg", [{"float": [2, 4]}], []))
    message = "that of 'x', unknown too; give --dim x.0=N$"
    with pytest.raises(FormatError, match=message):
        read(made, profile=traced)
    assert sizes(read(made, {"x.0": 2}, traced))["a"] == 32


def test_a_profile_of_another_model_is_refused(tmp_path: Path) -> None:
    other = profile(tmp_path / "other.json", ("t", "Softmax", [], []))
    with pytest.raises(
        FormatError, match="the profile is of another model: op 't' is 'Softmax' there"
    ):
        read(model(CHAIN), profile=other)
    path = tmp_path / "net.onnx"
    path.write_bytes(model(CHAIN).SerializeToString())
    part = profile(tmp_path / "part.json", ("t", "Transpose", SQUARE, SQUARE))
    with pytest.raises(FormatError, match="the profile has no event of op 'e'"):
        read_recorded(path, profile=part)
    for text in ("{}", "[]", '[{"name": "x_kernel_time", "ts": 1}]', "[1"):
        part.write_text(text)
        with pytest.raises(FormatError, match=r"part.json: "):
            read(model(CHAIN), profile=part)
