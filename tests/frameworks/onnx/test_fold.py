"""Shapes that a model computes: they are those that the model then has."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("onnx", reason="the extra onnx is not installed")

import numpy as np
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from optsched.errors import FormatError
from optsched.formats.onnx.fold import MOST_ELEMENTS
from tests.frameworks.onnx.build import BOOL, FLOAT, INT64, body, model, node, read, sizes, value

KINDS = ("reshape", "slice", "range", "expand", "pad", "constant_of_shape")


def constant(name: str, *numbers: int) -> Any:
    """A weight of int64 numbers."""
    return numpy_helper.from_array(np.array(numbers, np.int64), name)


def scalar(name: str, number: int) -> Any:
    return numpy_helper.from_array(np.array(number, np.int64), name)


def test_the_example_of_the_module() -> None:
    nodes = [
        node("Shape", "x", "s", "shape"),
        node("Gather", "s,one", "six", "gather"),
        node("Div", "six,two", "three", "div"),
        node("Concat", "four,three", "to", "concat", axis=0),
        node("Reshape", "x,to", "r", "reshape"),
        node("Exp", "r", "y", "exp"),
    ]
    weights = [constant("one", 1), constant("two", 2), constant("four", 4)]
    made = model(nodes, [value("x", [2, 6])], [value("y", None)], weights=weights)
    assert sizes(read(made))["y"] == 48


def test_the_name_of_a_folded_node_may_be_no_text() -> None:
    nodes = [node("Shape", "x", "s", "shape"), node("Neg", "s", "n", "name"), node("Exp", "x", "y")]
    made = model(nodes, [value("x", [2, 6])], [value("y", None)])
    data = made.SerializeToString().replace(b"name", b"na\xffe")
    # ONNX Runtime computes it when it loads the model.
    assert [op.kind for op in read(made.FromString(data)).ops] == ["Exp"]


@pytest.mark.parametrize("seed", range(60))
def test_computed_shapes_are_those_of_a_run(seed: int) -> None:
    """A random chain of ops whose shapes are computed from those before, against a run."""
    rng = np.random.default_rng(seed)
    nodes, weights, last = [], [], "x"
    for i in range(int(rng.integers(1, 6))):
        kind = KINDS[int(rng.integers(len(KINDS)))]
        made, more = step(kind, last, f"v{i}", rng)
        nodes, weights, last = [*nodes, *made], [*weights, *more], f"v{i}"
    shape = [int(x) for x in rng.integers(2, 5, size=2)]
    nodes.append(node("Cast", last, "y", "last", to=FLOAT))
    whole = model(nodes, [value("x", shape)], [value("y", None)], weights=weights)
    names = [name for one in nodes for name in one.output]
    seen = model(nodes, [value("x", shape)], [value(x, None) for x in names], weights=weights)
    # The kinds of the values do not matter to the reference implementation.
    found = ReferenceEvaluator(seen).run(names, {"x": np.ones(shape, np.float32)})
    planned = {x.name: x.size for x in read(whole).buffers if x.alias_of is None}
    for name, result in zip(names, found, strict=True):
        if name in planned:
            assert planned[name] == np.asarray(result).nbytes, name


def step(kind: str, read_: str, made: str, rng: np.random.Generator) -> tuple[list[Any], list[Any]]:
    """Return nodes and weights that make `made` of `read_` by a shape that is computed."""
    s, n, to = f"{made}_s", f"{made}_n", f"{made}_to"
    shape = node("Shape", read_, s, f"{made}_shape")
    total = node("ReduceProd", s, n, f"{made}_total", keepdims=1)
    match kind:
        case "reshape":
            return [shape, total, node("Reshape", f"{read_},{n}", made, made)], []
        case "slice":
            half = [constant(f"{made}_0", 0), constant(f"{made}_2", 2)]
            nodes = [
                shape,
                node("Slice", f"{s},{made}_0,{made}_e", to, f"{made}_slice"),
                node("Div", f"{to},{made}_2", f"{made}_h", f"{made}_div"),
                node("Slice", f"{read_},{made}_0,{made}_h", made, made),
            ]
            return nodes, [*half, constant(f"{made}_e", 1)]
        case "range":
            nodes = [
                shape,
                total,
                node("Squeeze", n, to, f"{made}_squeeze"),
                node("Range", f"{made}_0,{to},{made}_1", made, made),
            ]
            return nodes, [scalar(f"{made}_0", 0), scalar(f"{made}_1", 1)]
        case "expand":
            times = int(rng.integers(2, 4))
            nodes = [
                shape,
                node("Concat", f"{made}_k,{s}", to, f"{made}_concat", axis=0),
                node("Expand", f"{read_},{to}", made, made),
            ]
            return nodes, [constant(f"{made}_k", times)]
        case "pad":
            nodes = [
                shape,
                node("Sub", f"{s},{s}", f"{made}_z", f"{made}_sub"),
                node("Concat", f"{made}_z,{s}", to, f"{made}_concat", axis=0),
                node("Pad", f"{read_},{to}", made, made),
            ]
            return nodes, []
    return [shape, node("ConstantOfShape", s, made, made)], []


@pytest.mark.parametrize("taken", [True, False])
def test_an_if_with_a_known_condition_has_the_shape_of_its_branch(taken: bool) -> None:
    branches = {
        "then_branch": body(
            [node("Concat", "x,x", "a", "c", axis=0)], inputs=[], outputs=[value("a", None)]
        ),
        "else_branch": body(
            [node("Concat", "x,x", "b", "d", axis=1)], inputs=[], outputs=[value("b", None)]
        ),
    }
    nodes = [
        node("Shape", "x", "s", "shape"),
        node("Gather", "s,zero", "first", "gather"),
        node("Equal", "first,two", "is", "equal"),
        node("If", "is", "r", "if", **branches),
        node("Flatten", "r", "f", "flatten"),
        node("Shape", "f", "fs", "shape2"),
        node("ConstantOfShape", "fs", "y", "last"),
    ]
    weights = [scalar("zero", 0), scalar("two", 2)]
    shape = [2 if taken else 3, 4]
    made = model(nodes, [value("x", shape)], [value("y", None)], weights=weights)
    assert sizes(read(made))["y"] == 2 * 4 * shape[0] * shape[1]


def test_the_value_of_an_integer_input_decides_a_branch() -> None:
    branches = {
        "then_branch": body(
            [node("Concat", "x,x", "a", "c", axis=0)], inputs=[], outputs=[value("a", None)]
        ),
        "else_branch": body(
            [node("Mystery", "x", "b", "m", domain="own")], inputs=[], outputs=[value("b", None)]
        ),
    }
    nodes = [node("Equal", "rate,fast", "is", "equal"), node("If", "is", "y", "if", **branches)]
    inputs = [value("x", [2, 4]), value("rate", [], INT64)]
    made = model(nodes, inputs, [value("y", None)], weights=[scalar("fast", 16_000)])
    with pytest.raises(FormatError, match="'y' depends on the values of 'is'; give --dim rate=N"):
        read(made)
    assert sizes(read(made, {"rate": 16_000}))["y"] == 64


def test_one_name_in_two_branches_is_not_mixed_up() -> None:
    def branch(first: int) -> Any:
        inner = [
            helper.make_node("Constant", [], ["to"], value_ints=[first, 8 // first]),
            node("Reshape", "x,to", "r", "reshape"),
            node("Shape", "r", "s", "shape"),
            node("ConstantOfShape", "s", "o", "out"),
        ]
        return body(inner, inputs=[], outputs=[value("o", None)])

    nodes = [node("If", "c", "y", "if", then_branch=branch(2), else_branch=branch(4))]
    made = model(nodes, [value("x", [8]), value("c", [], BOOL)], [value("y", [4, 2])])
    assert sizes(read(made))["y"] == 32


@pytest.mark.parametrize(
    ("kind", "operand"), [("ConstantOfShape", "big"), ("Expand", "x,big"), ("Tile", "x,big")]
)
def test_large_values_are_data_and_not_computed(kind: str, operand: str) -> None:
    weights = [constant("big", 1 << 20, 1 << 10)]
    x = numpy_helper.from_array(np.ones((1, 1), np.float32), "x")
    nodes = [node(kind, operand, "b", "b"), node("Add", "b,i", "y", "add")]
    made = model(nodes, [value("i", [1, 1])], [value("y", None)], weights=[*weights, x])
    assert sizes(read(made))["y"] == 4 << 30
    assert MOST_ELEMENTS < 1 << 20


def test_the_default_of_stft_is_one_sided() -> None:
    weights = [scalar("step", 2), scalar("length", 8)]
    nodes = [node("STFT", "x,step,,length", "f", "stft"), node("Exp", "f", "y", "exp")]
    made = model(nodes, [value("x", [1, 16, 1])], [value("y", None)], weights=weights)
    assert sizes(read(made))["y"] == 4 * 1 * 5 * 5 * 2
