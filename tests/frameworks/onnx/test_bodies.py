"""The reader of ONNX models: branches, loops and scans, whose bodies are graphs of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the extra onnx is not installed")


from optsched.errors import FormatError
from tests.frameworks.onnx.build import (
    BOOL,
    INT64,
    body,
    candidates,
    model,
    node,
    read,
    sizes,
    value,
    weight,
)


@pytest.mark.parametrize("inside", [False, True])
def test_a_branch_is_inferred_with_the_constants_of_the_graph_around(inside: bool) -> None:
    pad = node("Pad", "x,pads", "p", "pad")
    constant = node("Constant", "", "pads", value=weight("v", 4, kind=INT64, values=[0, 1, 0, 1]))
    branch = body([constant, pad] if inside else [pad], [], [value("p", None)])
    other = body([node("Pad", "x,pads", "q", "pad2")], [], [value("q", None)])
    nodes = [
        node("If", "c", "y", "if", then_branch=branch, else_branch=branch if inside else other)
    ]
    given = [] if inside else [weight("pads", 4, kind=INT64, values=[0, 1, 0, 1])]
    inputs = [value("x"), value("c", [], BOOL)]
    made = model(nodes, inputs, [value("y", None)], weights=given)
    if inside:
        made.graph.node[0].attribute[1].g.node[1].output[0] = "q"
        made.graph.node[0].attribute[1].g.output[0].name = "q"
    assert sizes(read(made))["y"] == 4 * 6 * 4


def test_subgraphs_read_what_they_capture() -> None:
    def branch(kind: str) -> Any:
        inner = [node(kind, "a", f"{kind}.t"), node("Add", f"{kind}.t,w", f"{kind}.y")]
        return body(inner, [], [value(f"{kind}.y")])

    nodes = [
        node("Exp", "x", "a", "e"),
        node("If", "c", "y", "if", then_branch=branch("Neg"), else_branch=branch("Abs")),
    ]
    made = model(nodes, [value("x"), value("c", [], BOOL)], weights=[weight("w", 4, 4)])
    graph = read(made)
    assert [graph.buffers[b].name for b in graph.ops[1].reads] == ["c", "a"]
    assert sizes(graph)["if.workspace"] == 64  # one value between; the branch's output is the op's


def test_constants_of_a_branch_may_come_from_the_graph_around() -> None:
    inner = [node("Transpose", "w", "wide", "fold"), node("Add", "x,wide", "b", "add")]
    branches = {
        "then_branch": body(inner, [], [value("b")]),
        "else_branch": body([node("Neg", "x", "n")], [], [value("n")]),
    }
    made = model(
        [node("If", "c", "y", "if", **branches)],
        [value("x"), value("c", [], BOOL)],
        weights=[weight("w", 4, 4)],
    )
    assert "if.workspace" not in sizes(read(made))


def loop_model(*inner: Any, count: int | None = 3) -> Any:
    """A loop over the rows of a state; what it stacks is the value `t` of each iteration."""
    loop = body(
        [node("Identity", "go", "on"), *inner],
        [value("i", [], INT64), value("go", [], BOOL), value("s", None)],
        [value("on", [], BOOL), value("s2", None), value("t", None)],
    )
    nodes = [
        node("Exp", "x", "a", "e"),
        node("Loop", "n,,a", "b,stack", "loop", body=loop),
        node("Neg", "b", "y"),
        node("Neg", "stack", "z"),
    ]
    number = value("n", [], INT64)
    inputs, weights = [value("x")], [weight("n", kind=INT64, values=[count or 0])]
    if count is None:
        inputs, weights = [*inputs, number], []
    return model(nodes, inputs, [value("y"), value("z", None)], weights)


def test_the_body_of_a_loop_is_workspace() -> None:
    graph = read(loop_model(node("Exp", "s", "u"), node("Neg", "u", "s2"), node("Neg", "s", "t")))
    found = sizes(graph)
    assert (found["b"], found["stack"]) == (64, 3 * 64)
    # In the end: the last state and the one before, and the parts that are to be stacked; a block
    # each for the number of the iteration and the condition.
    assert found["loop.workspace"] == 2 * 64 + 3 * 64 + 2 * 64


def test_a_wide_body_of_a_loop_counts_as_its_peak() -> None:
    inner = [node("Tile", "s,times", "u"), node("ReduceSum", "u,axis", "v", keepdims=1)]
    inner += [node("Add", "s,v", "s2"), node("Neg", "s", "t")]
    made = loop_model(*inner)
    made.graph.initializer.append(weight("times", 2, kind=INT64, values=[1, 50]))
    made.graph.initializer.append(weight("axis", 1, kind=INT64, values=[1]))
    # The wide value and its sum in blocks of 64 bytes: more than what is held in the end.
    assert sizes(read(made))["loop.workspace"] == 50 * 64 + 64 - 64 + 2 * 64


def test_the_body_of_a_scan_is_workspace_beside_two_places_for_the_state() -> None:
    scan = body(
        [node("Exp", "s", "u"), node("Add", "u,r", "s2"), node("Neg", "u", "t")],
        [value("s"), value("r")],
        [value("s2"), value("t")],
    )
    nodes = [
        node("Exp", "x", "a", "e"),
        node("Scan", "a,rows", "b,stack", "scan", body=scan, num_scan_inputs=1),
        node("Neg", "b", "y"),
        node("Neg", "stack", "z"),
    ]
    inputs = [value("x"), value("rows", [5, 4, 4])]
    graph = read(model(nodes, inputs, [value("y"), value("z", None)]))
    assert sizes(graph)["scan.workspace"] == 2 * 64 + 64


def test_a_loop_whose_state_grows_or_that_runs_nobody_knows_how_often_is_refused() -> None:
    grows = loop_model(node("Concat", "s,s", "s2", axis=0), node("Neg", "s", "t"))
    grown = "^op 'loop' .Loop.: the size of its output 'b' may change from one iteration"
    with pytest.raises(FormatError, match=grown):
        read(grows)
    often = loop_model(node("Exp", "s", "s2"), node("Neg", "s", "t"), count=None)
    with pytest.raises(
        FormatError, match="the size of its output 'stack' depends on the values of"
    ):
        read(often)


def test_results_of_a_loop_are_overwritten_only_where_the_file_gives_their_shape() -> None:
    """ONNX Runtime compares shapes when it loads a model, and does not know a loop's state then."""
    loop = body(
        [node("Identity", "go", "on"), node("Sin", "s", "s2")],
        [value("i", [], INT64), value("go", [], BOOL), value("s", None)],
        [value("on", [], BOOL), value("s2", None)],
    )
    nodes = [node("Loop", "n,,x", "b", "loop", body=loop), node("Cos", "b", "d", "cos")]
    nodes += [node("Relu", "d", "e", "relu"), node("Exp", "e", "y", "exp")]

    def overwriting(*infos: Any, outputs: Sequence[Any] = ()) -> bool:
        number = weight("n", kind=INT64, values=[3])
        made = model(nodes, outputs=[value("y"), *outputs], weights=[number], value_info=infos)
        return candidates(read(made)) == [("relu", "e", "d")]

    assert not overwriting()
    assert overwriting(value("b"))
    assert overwriting(value("d"), value("e"))
    assert overwriting(outputs=[value("b")])
