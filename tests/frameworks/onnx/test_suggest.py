"""Sizes that are suggested for open dimensions: those with which a model can be planned."""

from __future__ import annotations

from typing import Any

import pytest

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")

from optsched.errors import FormatError  # noqa: E402
from tests.frameworks.onnx.build import INT64, body, model, node, read, value, weight  # noqa: E402


def suggested(made: Any) -> dict[str, int]:
    with pytest.raises(FormatError, match="; try --dim") as found:
        read(made)
    words = str(found.value).rpartition("; try ")[2].split()[1::2]
    return {name: int(size) for name, size in (x.split("=") for x in words)}


@pytest.mark.parametrize(("rows", "height"), [(320, 320), (48, 48), (32, 32), (17, 320)])
def test_a_height_that_the_model_takes(rows: int, height: int) -> None:
    """The model stacks the rows of the image on those of a weight; only one height fits."""
    nodes = [node("Concat", "x,w", "y", "c", axis=1)]
    made = model(
        nodes, [value("x", [1, 3, "h", "w"])], [value("y", None)], [weight("w", 1, 2, rows, 320)]
    )
    assert suggested(made) == {"h": height, "w": 320}
    if rows == height:
        assert read(made, {"h": height, "w": 320}).ops


def test_a_number_that_decides_between_branches() -> None:
    branches = {
        "then_branch": body([node("Neg", "x", "a")], [], [value("a", None)]),
        "else_branch": body([node("NonZero", "x", "b")], [], [value("b", None)]),
    }
    nodes = [
        node("Reshape", "rate,one", "r", "r"),
        node("Equal", "r,fast", "is", "e"),
        node("If", "is", "y", "if", **branches),
    ]
    inputs = [value("x", ["batch", 4]), value("rate", [], INT64)]
    weights = [
        weight("fast", kind=INT64, values=[16_000]),
        weight("one", 1, kind=INT64, values=[1]),
    ]
    made = model(nodes, inputs, [value("y", None)], weights)
    assert suggested(made) == {"batch": 1, "rate": 16_000}
    assert read(made, {"batch": 1, "rate": 16_000}).ops
