"""Malformed and damaged models: each is refused in one line that names the fault."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the extra onnx is not installed")


from optsched.errors import FormatError, GraphError
from tests.frameworks.onnx.build import model, node, read, value, weight
from tests.support.files import refusal

CHAIN = [node("Transpose", "x", "a", "t"), node("Exp", "a", "y", "e")]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [node("Exp", "b", "a", "p"), node("Exp", "a", "b", "q")],
            "op 'p' .Exp. reads 'b', which op 'q' makes later, in a cycle: 'p' -> 'q' -> 'p'$",
        ),
        (
            [node("Add", "x,z", "a", "p"), node("Exp", "a", "y"), node("Exp", "y", "z")],
            "op 'p' .Add. reads 'z', which op 'Exp_2' makes later, in a cycle: "
            "'p' -> 'Exp_1' -> 'Exp_2' -> 'p'$",
        ),
        ([node("Exp", "z", "y", "p")], "op 'p' .Exp. reads 'z', which nothing makes"),
        (
            [node("Exp", "x", "y", "p"), node("Exp", "x", "y", "q")],
            "op 'q' .Exp. writes 'y', which is there already",
        ),
        ([node("Exp", "x", "a", "p")], "graph output 'y' is made by no op"),
        ([node("", "x", "y", "p")], "op 'p' has no operator type"),
    ],
)
def test_what_is_no_sorted_graph_is_refused(nodes: list[Any], message: str) -> None:
    with pytest.raises(FormatError, match=f"^{message}"):
        read(model(nodes))


def test_truncated_models_are_refused_in_one_line(tmp_path: Path) -> None:
    whole, path = model(CHAIN).SerializeToString(), tmp_path / "cut.onnx"
    for length in range(4, len(whole)):
        path.write_bytes(whole[:length])
        found = refusal(path)
        assert found is None or (found.startswith(f"{path}: ") and "\n" not in found)


def test_corrupted_models_are_refused_in_one_line(tmp_path: Path) -> None:
    """Any change of a byte gives an error of ours, on one line, or a graph."""
    nodes = [node("Conv", "x,w", "a"), node("Relu", "a", "b"), node("Flatten", "b", "y")]
    made = model(nodes, [value("x", [1, 2, 6, 6])], [value("y", None)], [weight("w", 2, 2, 3, 3)])
    whole, path = made.SerializeToString(), tmp_path / "bad.onnx"
    draw, refused = random.Random(1), 0
    for _ in range(600):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            data[draw.randrange(4, len(data))] = draw.randrange(256)
        path.write_bytes(data)
        found = refusal(path)
        refused += found is not None
        assert found is None or (found.startswith(f"{path}: ") and "\n" not in found)
    assert refused > 100


def test_an_operator_type_that_breaks_lines_does_not_break_the_message() -> None:
    with pytest.raises(FormatError, match=r"^op 'p' .No\\nSuch.: the size of its output"):
        read(model([node("No\nSuch", "x", "y", "p", domain="own")], outputs=[value("y", None)]))


def test_absurd_shapes_are_refused() -> None:
    with pytest.raises(
        GraphError, match=r"^buffer '.': sizes up to this buffer add up to .* the limit of 2"
    ):
        read(model(CHAIN, [value("x", [2**40, 2**40])]))
