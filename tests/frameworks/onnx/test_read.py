"""The reader of ONNX models: one test for each trap of the format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the extra onnx is not installed")

from onnx import TensorProto, helper

from optsched import apply_plan, peak_memory, solve, write_plan
from optsched.errors import FormatError, UsageError
from optsched.formats import read_graph
from optsched.model.elements import InputPolicy, OutputPolicy
from tests.frameworks.onnx.build import (
    BOOL,
    FLOAT,
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

CHAIN = [node("Transpose", "x", "a", "t"), node("Exp", "a", "y", "e")]


def test_found_by_content_and_named_after_the_graph(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(model(CHAIN).SerializeToString())
    graph = read_graph(path)
    assert [graph.name, graph.ops[0].name, graph.ops[1].kind] == ["g", "t", "Exp"]
    assert sizes(graph) == {"x": 64, "a": 64, "y": 64}


@pytest.mark.parametrize(
    "name",
    [
        *("main_graph", "tf2onnx", "torch-jit-export", "torch_jit", "spox_graph", "", "graph"),
        "a0eab83f1ba84c2e817b12838e8f61c6",
    ],
)
def test_a_model_that_is_called_as_every_other_has_its_files_name(
    name: str, tmp_path: Path
) -> None:
    made = model(CHAIN)
    made.graph.name = name
    first, plan, second = tmp_path / "net.onnx", tmp_path / "plan.json", tmp_path / "planned.onnx"
    first.write_bytes(made.SerializeToString())
    assert read_graph(first).name == "net"
    write_plan(solve(read_graph(first)), plan)
    apply_plan(first, plan, second)
    assert read_graph(second).name == "net"
    made.graph.name = "graph_of_mine"
    assert read(made).name == "graph_of_mine"


def test_inputs_are_the_callers_and_outputs_live_to_the_end() -> None:
    x, a, y = read(model(CHAIN)).buffers
    assert [x.input, a.output, y.output] == [InputPolicy.EXCLUDED, None, OutputPolicy.LIVE]
    assert {x.alignment, a.alignment, y.alignment} == {64}


def test_stale_value_info_and_output_shapes_are_inferred_again() -> None:
    stale = model(CHAIN, outputs=[value("y", [9, 9])], value_info=[value("a", [1000, 1000])])
    assert sizes(read(stale)) == {"x": 64, "a": 64, "y": 64}


def test_value_info_of_ops_that_onnx_does_not_know_stays() -> None:
    nodes = [node("Mystery", "x", "a", "m", domain="own"), node("Relu", "a", "y", "r")]
    assert sizes(read(model(nodes, value_info=[value("a", [3, 5])]))) == {"x": 64, "a": 60, "y": 60}
    with pytest.raises(
        FormatError,
        match=r"^op 'm' \(Mystery\): the size of its output 'a' is unknown, since no rule is known "
        r"for ops of domain 'own'; give --profile with a profile that ONNX Runtime wrote of a run$",
    ):
        read(model(nodes))


@pytest.mark.parametrize(
    ("first", "name"), [("batch", "batch"), (-1, "x.0"), (0, "x.0"), ("?", "x.0"), (None, "x.0")]
)
def test_open_dimensions_are_refused_by_name_and_given_by_it(first: Any, name: str) -> None:
    made = model(CHAIN, [value("x", [first, 4])])
    with pytest.raises(FormatError, match=rf"^1 dimension is open: {name}; try --dim {name}=1$"):
        read(made)
    assert sizes(read(made, {name: 8})) == {"x": 128, "a": 128, "y": 128}


def test_a_dimension_that_the_model_does_not_have_is_refused() -> None:
    made = model(CHAIN, [value("x", ["batch", 4])])
    with pytest.raises(UsageError, match=r"^unknown dimension 'bach'; open dimensions: 'batch'"):
        read(made, {"bach": 8})
    with pytest.raises(UsageError, match=r"^dimension 'batch' must be at least 1, got 0"):
        read(made, {"batch": 0})


def test_inputs_without_shape_are_refused() -> None:
    with pytest.raises(FormatError, match=r"^input 'x' has no shape; give --dim"):
        read(model(CHAIN, [value("x", None)]))


def test_sequences_hold_copies_of_their_tensors() -> None:
    nodes = [
        node("SequenceConstruct", "x,x", "two", "two"),
        node("SequenceInsert", "two,x", "three", "three"),
        node("SplitToSequence", "x", "parts", "parts"),
        node("SequenceAt", "three,at", "y", "y"),
    ]
    at = weight("at", kind=INT64, values=[0])
    found = sizes(read(model(nodes, weights=[at])))
    assert found == {"x": 64, "two": 128, "three": 192, "parts": 64, "y": 64}


def test_a_sequence_of_unknown_tensors_is_refused_where_its_size_matters() -> None:
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, [4, 4])
    at = weight("at", kind=INT64, values=[0])
    taken = model([node("SequenceAt", "s,at", "y", "y")], [sequence], weights=[at])
    assert sizes(read(taken)) == {"s": 0, "y": 64}
    made = helper.make_tensor_sequence_value_info("y", FLOAT, None)
    longer = model([node("SequenceInsert", "s,x", "y", "i")], [sequence, value("x")], [made])
    with pytest.raises(FormatError, match="output 'y' depends on the tensors of a sequence; give"):
        read(longer)


def test_the_reason_for_an_unknown_size_is_named() -> None:
    """The op, the value that decides, and what to do about it."""
    count = value("n", [1], INT64)
    inputs = [value("x", [4, 1]), count, value("many", [2], INT64)]
    for nodes, message in (
        ([node("Expand", "x,many", "y", "e")], "depends on the values of 'many'; give --profile"),
        (
            [node("Neg", "n", "m", "neg"), node("Expand", "x,m", "y", "e")],
            "depends on the values of 'm'; give --dim n=N, or --profile",
        ),
        ([node("NonZero", "x", "y", "e")], "depends on the data that it reads; give --profile"),
        (
            [node("Concat", "x,n", "y", "e", axis=0)],
            r"does not follow from 'x' .4, 1. and 'n' .1.; give other sizes with --dim$",
        ),
    ):
        with pytest.raises(FormatError, match=f"^op 'e' .* the size of its output 'y' {message}"):
            read(model(nodes, inputs, [value("y", None)]))
    asked = model([node("Expand", "x,n", "y", "e")], inputs, [value("y", None)])
    assert sizes(read(asked, {"n": 3}))["y"] == 48


def test_a_size_of_0_counts_unless_everything_would_be_empty() -> None:
    like = [value("x"), value("like", [0])]
    assert sizes(read(model([node("CastLike", "x,like", "y", "c")], like)))["y"] == 64


def test_initializers_of_ir_version_3_are_no_inputs() -> None:
    nodes = [node("MatMul", "x,w", "y", "m")]
    old = model(nodes, [value("x"), value("w")], weights=[weight("w", 4, 4)])
    old.ir_version = 3
    graph = read(old)
    assert sizes(graph) == {"x": 64, "y": 64}
    assert graph.ops[0].reads == (0,)


def test_constants_and_what_is_made_of_constants_only_are_no_ops() -> None:
    nodes = [
        node("Constant", "", "one", value=weight("v", 1, values=[1])),
        node("ConstantOfShape", "dims", "w"),
        node("Add", "w,one", "w2"),
        node("MatMul", "x,w2", "y", "m"),
    ]
    graph = read(model(nodes, weights=[weight("dims", 2, kind=INT64, values=[4, 4])]))
    assert [op.name for op in graph.ops] == ["m"]
    assert sizes(graph) == {"x": 64, "y": 64}


def test_random_ops_are_no_constants() -> None:
    nodes = [node("RandomUniformLike", "w", "r", "r"), node("Add", "x,r", "y", "a")]
    assert [op.name for op in read(model(nodes, weights=[weight("w", 4, 4)])).ops] == ["r", "a"]


def test_empty_optional_inputs_and_outputs_are_left_out() -> None:
    nodes = [
        node("Clip", "x,,high", "c", "c"),
        node("LSTM", "s,w,r,,,,", ",h", "l", hidden_size=2),
        node("Add", "c,c", "y", "a"),
    ]
    weights = [weight("high"), weight("w", 1, 8, 4), weight("r", 1, 8, 2)]
    graph = read(model(nodes, [value("x"), value("s", [5, 3, 4])], weights=weights))
    assert sizes(graph) == {"x": 64, "s": 240, "c": 64, "h": 24, "y": 64}
    assert graph.ops[2].reads == (2, 2)


def test_an_unused_output_is_allocated_where_it_has_a_name() -> None:
    """As ONNX Runtime does it; see test_runtime."""
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    x, y = value("x", [1, 1, 4, 4]), value("y", None)
    named = read(model([node("MaxPool", "x", "y,i", **pool)], [x], [y]))
    without = read(model([node("MaxPool", "x", "y", **pool)], [x], [y]))
    assert [sizes(named), sizes(without)] == [{"x": 64, "y": 16, "i": 32}, {"x": 64, "y": 16}]


def test_the_unused_mask_of_a_dropout_is_nothing() -> None:
    nodes = [node("Exp", "x", "a"), node("Dropout", "a", "b,mask", "d"), node("Neg", "b", "y")]
    graph = read(model(nodes))
    assert sizes(graph) == {"x": 64, "a": 64, "b": 0, "y": 64}


def test_a_dropout_whose_mask_is_read_or_that_trains_is_no_view() -> None:
    nodes = [node("Exp", "x", "a"), node("Dropout", "a", "y,mask", "d"), node("Not", "mask", "n")]
    assert sizes(read(model(nodes)))["mask"] == 16
    trains = [node("Exp", "x", "a"), node("Dropout", "a,,t", "b", "d"), node("Neg", "b", "y")]
    assert sizes(read(model(trains, [value("x"), value("t", [], BOOL)])))["b"] == 64


def test_ops_without_a_name_are_called_as_onnx_runtime_calls_them() -> None:
    constant = node("Constant", "", "k", value=weight("v", 1))
    nodes = [node("Exp", "x", "a"), constant, node("Mul", "a,k", "b"), node("Neg", "b", "y")]
    assert [op.name for op in read(model(nodes)).ops] == ["Exp_0", "Mul_1", "Neg_2"]


def test_duplicate_names_of_ops_are_told_apart() -> None:
    nodes = [node("Exp", "x", "a", "n"), node("Exp", "a", "b", "n"), node("Exp", "b", "y", "Exp_2")]
    assert [op.name for op in read(model(nodes)).ops] == ["n", "n#1", "Exp_2"]


def test_functions_are_inlined() -> None:
    function = helper.make_function(
        "own", "Twice", ["p"], ["q"], [node("Exp", "p", "m"), node("Exp", "m", "q")],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    made = model([node("Twice", "x", "y", "f", domain="own")])
    made.functions.append(function)
    graph = read(made)
    assert [op.kind for op in graph.ops] == ["Exp", "Exp"]


def external(place: str) -> Any:
    made = model([node("MatMul", "x,w", "y", "m")], weights=[weight("w", 4, 4)])
    tensor = made.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", place
    return made


def test_external_data_is_not_opened() -> None:
    assert sizes(read(external("weights/nowhere.bin"))) == {"x": 64, "y": 64}


@pytest.mark.parametrize(
    "place", ["../w.bin", "/etc/passwd", "a/../../w", "C:\\w.bin", "..\\w", ""]
)
def test_external_data_outside_the_folder_is_refused(place: str) -> None:
    with pytest.raises(
        FormatError, match=r"^initializer 'w': its external data, .* is not a file inside"
    ):
        read(external(place))


@pytest.mark.parametrize(
    ("kind", "size"),
    [(TensorProto.INT4, 8), (TensorProto.FLOAT4E2M1, 8), (TensorProto.FLOAT8E5M2, 15)],
)
def test_types_below_a_byte_round_up(kind: int, size: int) -> None:
    graph = read(
        model(
            [node("Cast", "x", "y", "c", to=kind)],
            [value("x", [3, 5])],
            [value("y", None, kind)],
            opset=23,
        )
    )
    assert sizes(graph)["y"] == size


def test_strings_have_the_bytes_of_their_objects() -> None:
    text = value("y", None, TensorProto.STRING)
    made = model([node("Cast", "x", "y", "c", to=TensorProto.STRING)], outputs=[text])
    assert sizes(read(made))["y"] == 16 * 32


@pytest.mark.parametrize(
    "renaming",
    [
        node("Reshape", "a,dims", "b"),
        node("Flatten", "a", "b"),
        node("Identity", "a", "b"),
        node("Unsqueeze", "a,axis", "b"),
        node("Dropout", "a", "b"),
    ],
    ids=lambda made: made.op_type,
)
def test_views_take_no_bytes(renaming: Any) -> None:
    weights = [weight("dims", 2, kind=INT64, values=[2, 8]), weight("axis", 1, kind=INT64)]
    graph = read(model([node("Exp", "x", "a"), renaming, node("Neg", "b", "y")], weights=weights))
    assert sizes(graph) == {"x": 64, "a": 64, "b": 0, "y": 64}


def test_a_view_that_is_a_graph_output_is_a_copy() -> None:
    assert sizes(read(model([node("Exp", "x", "a"), node("Flatten", "a", "y")])))["y"] == 64


def test_a_view_of_an_input_is_the_callers_too() -> None:
    graph = read(model([node("Flatten", "x", "a"), node("Neg", "a", "y")]))
    assert peak_memory(graph, (0, 1)) == 64


def test_a_view_of_a_weight_is_the_sessions() -> None:
    nodes = [node("Reshape", "w,k", "a"), node("Relu", "a", "b"), node("Neg", "b", "y")]
    inputs = [value("k", [2], INT64)]
    made = model(nodes, inputs, weights=[weight("w", 16)], value_info=[value("a")])
    graph = read(made)
    assert sizes(graph) == {"k": 16, "a": 0, "b": 64, "y": 64}
    assert candidates(graph) == []


def test_an_output_is_not_overwritten_by_a_result_that_no_op_reads() -> None:
    nodes = [node("Sin", "x", "y"), node("Relu", "y", "dead"), node("Cos", "x", "z")]
    graph = read(model(nodes, outputs=[value("y"), value("z")]))
    assert candidates(graph) == []
    # ONNX Runtime releases it after the run.
    assert peak_memory(graph, (0, 1, 2)) == 3 * 64


def test_in_place_where_the_kernel_can_and_the_input_is_its_own_to_write() -> None:
    nodes = [
        node("Transpose", "x", "a", "t"),
        node("Relu", "a", "b", "may"),
        node("Exp", "b", "c", "no_such_kernel"),
        node("Flatten", "c", "d", "view"),
        node("Sigmoid", "d", "e", "through_a_view"),
        node("Cast", "e", "f", "other_width", to=TensorProto.DOUBLE),
        node("Relu", "f", "y", "graph_output"),
    ]
    found = candidates(read(model(nodes, outputs=[value("y", kind=TensorProto.DOUBLE)])))
    assert found == [("may", "b", "a"), ("through_a_view", "e", "d")]
    assert candidates(read(model([node("Relu", "x", "a", "of_an_input"), *CHAIN[1:]]))) == []


def test_an_input_that_is_read_twice_is_not_overwritten() -> None:
    nodes = [
        node("Exp", "x", "a"),
        node("ScatterElements", "a,i,a", "b", "s"),
        node("Neg", "b", "y"),
    ]
    made = model(nodes, [value("x")], weights=[weight("i", 4, 4, kind=INT64)])
    assert candidates(read(made)) == []


def test_nodes_of_a_model_are_sorted_and_those_of_a_body_are_not() -> None:
    """ONNX Runtime sorts the former itself, and refuses the latter."""
    nodes = [node("Add", "c,b", "y"), node("Exp", "x", "b", "q"), node("Sin", "b", "c")]
    graph = read(model(nodes))
    # Names go by positions in the file, as in ONNX Runtime's profiles.
    assert [op.name for op in graph.ops] == ["q", "Sin_2", "Add_0"]
    inside = body([node("Exp", "b", "r", "p"), node("Exp", "x", "b", "q")], [], [value("r")])
    chosen = node("If", "c", "y", "if", then_branch=inside, else_branch=inside)
    with pytest.raises(FormatError, match=r"reads 'b', which op 'q' makes later; sort the model's"):
        read(model([chosen], [value("x"), value("c", [], BOOL)]))


def test_results_that_no_op_reads_live_to_the_end() -> None:
    """ONNX Runtime releases a block after its last reader; without one, after the run."""
    first = [node("TopK", "x,k", "v,i"), node("Cast", "i", "f", to=FLOAT)]
    dead = [node("Sin", "x", "d"), node("Relu", "d", "e"), node("Cos", "x", "dead")]
    nodes = [*first, *dead, node("Exp", "f", "y")]
    graph = read(model(nodes, weights=[weight("k", 1, kind=INT64, values=[4])]))
    # `e` overwrites `d`, which has a reader.
    kept = {buffer.name for buffer in graph.buffers if buffer.output is OutputPolicy.LIVE}
    assert kept == {"v", "dead", "y"}
    assert peak_memory(graph, (0, 1, 2, 3, 4, 5)) == 64 + 64 + 64 + 64
    assert peak_memory(graph, (0, 1, 5, 2, 3, 4)) == 64 + 64 + 64 + 64


def test_outputs_that_are_weights_are_copied_and_those_that_are_inputs_are_not() -> None:
    nodes = [node("Sin", "x", "y"), node("Neg", "w", "n"), node("Exp", "n", "m")]
    outputs = [value("y"), value("x"), value("w", [2]), value("m", [2])]
    graph = read(model(nodes, [value("x")], outputs, weights=[weight("w", 2)]))
    copies = {b.name: b.size for b in graph.buffers if b.input is InputPolicy.KEPT}
    assert copies == {"w": 8, "m": 8}
    assert [op.kind for op in graph.ops] == ["Sin"]
    assert peak_memory(graph, (0,)) == 64 + 8 + 8


def test_an_output_that_is_an_input_has_the_inputs_shape() -> None:
    made = model([node("Exp", "x", "y", "e")], outputs=[value("x", [None, 4]), value("y")])
    assert sizes(read(made)) == {"x": 64, "y": 64}


def test_half_floats_that_run_as_floats_are_named() -> None:
    half = TensorProto.FLOAT16
    nodes = [node("Transpose", "x", "a"), node("Sin", "a", "y")]
    made = model(nodes, [value("x", kind=half)], [value("y", kind=half)])
    assert "; Sin in floats, not halves: see convert --to onnx-fused" in read(made).model_name
    alone = model(nodes[:1], [value("x", kind=half)], [value("a", kind=half)])
    assert "halves" not in read(alone).model_name


def test_what_follows_from_fixed_shapes_is_a_weight() -> None:
    nodes = [
        node("Shape", "x", "s", "shape"),
        node("ConstantOfShape", "s", "big", "fill"),
        node("Neg", "big", "more", "neg"),
        node("Sin", "x", "a", "sin"),
        node("Add", "a,more", "y", "add"),
    ]
    fixed = model(nodes, [value("x", [64, 64])], [value("y", [64, 64])])
    assert [op.name for op in read(fixed).ops] == ["sin", "add"]
    # With a given size the planned file has fixed shapes, and so is the graph.
    given = model(nodes, [value("x", ["n", 64])], [value("y", ["n", 64])])
    assert [op.name for op in read(given, {"n": 64}).ops] == ["sin", "add"]


def test_weights_that_stay_quantized_and_sequences_are_no_constants() -> None:
    """ONNX Runtime makes them in each run."""
    nodes = [
        node("DequantizeLinear", "q,s", "w", "dq"),
        node("Add", "x,w", "a", "add"),
        node("SequenceConstruct", "s,s", "l", "list"),
        node("SequenceLength", "l", "c", "length"),
        node("Expand", "a,c", "y", "last"),
    ]
    weights = [weight("q", 2, kind=TensorProto.UINT8), weight("s", 1)]
    graph = read(model(nodes, [value("x", [2])], [value("y", [2])], weights))
    assert [op.name for op in graph.ops] == ["dq", "add", "list", "length", "last"]
    assert sizes(graph)["l"] == 8
