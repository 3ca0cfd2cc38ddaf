"""Reading `.tflite`: every rule and trap of the format has a test that is named after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.commands import Cli

pytest.importorskip("tflite", reason="the schema package is not installed: make test-frameworks")
pytest.importorskip("flatbuffers", reason="flatbuffers is not installed: make test-frameworks")

from optsched import InputPolicy, OutputPolicy, peak_memory, read_graph
from optsched.cli import main
from optsched.errors import FormatError, GraphError, OptschedError, UsageError
from optsched.formats import FORMATS, Source, read_recorded
from optsched.formats.tflite.graph import TfliteGraph, read_tflite
from optsched.formats.tflite.model import read_model
from optsched.model.graph import Graph
from tests.support import tflm_models as models
from tests.support.tflite_builder import (
    FLOAT32,
    INT8,
    INT32,
    RESOURCE,
    OpDraft,
    TfliteNet,
    corrupted,
)

ROOT = Path(__file__).parents[3]


def read(net: TfliteNet, **dims: int) -> TfliteGraph:
    return read_tflite(net.bytes(), "net", {key.lstrip("d"): n for key, n in dims.items()})


def sizes(graph: Graph) -> dict[str, int]:
    return {buffer.name: buffer.size for buffer in graph.buffers}


def chain() -> TfliteNet:
    """x (16 floats) -> a (8 floats) -> y (3 floats)."""
    net = TfliteNet()
    x = net.input(1, 16, name="x")
    a = net.dense(x, 8)
    y = net.dense(a, 3)
    net.tensors[a].name, net.tensors[y].name = "a", "y"
    net.outputs = [y]
    return net


def test_names_types_and_the_files_order_are_kept() -> None:
    graph = read(chain()).graph
    assert [op.name for op in graph.ops] == ["FULLY_CONNECTED_0", "FULLY_CONNECTED_1"]
    assert [op.kind for op in graph.ops] == ["FULLY_CONNECTED"] * 2
    assert [buffer.name for buffer in graph.buffers] == ["x", "a", "y"]


def test_the_runtimes_own_order_is_a_method(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(chain().bytes())
    assert read_recorded(path) == dict.fromkeys(("chosen", "tflm", "litert"), (0, 1))
    assert main(["compare", str(path), "--methods", "tflm,litert,tflm+tflm_greedy"]) == 0


def test_constants_by_buffer_data_have_no_bytes() -> None:
    assert sizes(read(chain()).graph) == {"x": 64, "a": 32, "y": 16}


def test_constants_by_dequantize_of_half_floats_have_no_bytes() -> None:
    net = TfliteNet()
    x = net.input(1, 4)
    half = net.tensor(4, 4, type=1, data=bytes(32))
    full = net.op("DEQUANTIZE", [half], 4, 4)
    again = net.tensor(4, 4, type=1, data=bytes(32))
    other = net.op("DENSIFY_LIKE", [again], 4, 4)
    net.ops[-1] = OpDraft("DEQUANTIZE", [again], [other])
    net.outputs = [net.op("FULLY_CONNECTED", [x, full, net.bias(4)], 1, 4)]
    net.ops.append(OpDraft("FULLY_CONNECTED", [x, other, -1], [net.tensor(1, 4, name="dead")]))
    made = read(net)
    assert [op.name for op in made.graph.ops] == ["FULLY_CONNECTED_2", "FULLY_CONNECTED_3"]
    assert [op.number for op in made.folded] == [0, 1]


def test_dequantize_of_eight_bit_constants_runs_each_time() -> None:
    net = TfliteNet()
    x = net.input(1, 4)
    small = net.tensor(4, 4, type=INT8, data=bytes(16))
    full = net.op("DEQUANTIZE", [small], 4, 4)
    net.outputs = [net.op("FULLY_CONNECTED", [x, full, -1], 1, 4)]
    graph = read(net).graph
    assert [op.kind for op in graph.ops] == ["DEQUANTIZE", "FULLY_CONNECTED"]
    assert sizes(graph)["t2"] == 64


def test_optional_inputs_of_minus_one_are_left_out() -> None:
    net = TfliteNet()
    x = net.input(1, 4)
    net.outputs = [net.op("FULLY_CONNECTED", [x, net.weights(2, 4), -1], 1, 2)]
    assert [len(op.reads) for op in read(net).graph.ops] == [1]


def test_sizes_are_rounded_up_and_offsets_aligned_to_16() -> None:
    net = TfliteNet()
    net.input(1, 5, type=INT8, name="x")
    net.outputs = net.inputs[:]
    (buffer,) = read(net).graph.buffers
    assert (buffer.size, buffer.alignment) == (16, 16)


def test_inputs_are_freed_and_outputs_live_to_the_end() -> None:
    buffers = {buffer.name: buffer for buffer in read(chain()).graph.buffers}
    assert buffers["x"].input is InputPolicy.FREED
    assert buffers["y"].output is OutputPolicy.LIVE
    assert buffers["a"].output is None


def test_no_operator_works_in_place() -> None:
    assert read(chain()).graph.inplace_candidates == ()


def test_an_input_that_nothing_reads_lives_before_the_first_operator() -> None:
    net = chain()
    net.input(1, 400, name="unread")
    made = read(net)
    assert made.graph.ops[0].kind == "INPUTS"
    assert made.operators[0] is None
    assert made.graph.predecessors[1] == (0,)
    assert peak_memory(made.graph, (0, 1, 2)) == 64 + 1600


def test_variable_tensors_have_no_bytes_and_their_users_keep_their_order() -> None:
    net = TfliteNet()
    x = net.input(1, 8)
    state = net.tensor(1, 64, variable=True, name="state")
    outputs = []
    for _ in range(3):
        inputs = [x, net.weights(8, 8), net.weights(8, 8), -1, state]
        outputs.append(net.op("SVDF", inputs, 1, 8, rank=1))
    net.outputs = outputs
    graph = read(net).graph
    assert "state" not in sizes(graph)
    assert graph.predecessors == ((), (0,), (1,))


def test_operators_with_a_hidden_state_keep_their_order() -> None:
    net = TfliteNet()
    net.input(1, 4)
    handles = [net.tensor(type=13, name=f"handle{i}") for i in range(2)]
    net.ops = [OpDraft("VAR_HANDLE", [], [h]) for h in handles]
    graph = read(net).graph
    first, second = (graph.op_ids[f"VAR_HANDLE_{i}"] for i in range(2))
    assert first in graph.predecessors[second]
    assert not any(name.startswith("handle") for name in sizes(graph))


@pytest.mark.parametrize(("old", "kind"), [(127, "GELU"), (None, "GELU"), (0, "GELU")])
def test_the_builtin_code_is_the_larger_of_two_fields(old: int | None, kind: str) -> None:
    net = chain()
    net.outputs = [net.op(kind, [net.outputs[0]], 1, 3)]
    net.ops[-1].old_code = old
    assert read(net).graph.ops[-1].kind == kind
    net = chain()
    # A file of before the newer field: there it says 0.
    net.ops[0].old_code = 9
    assert read(net).graph.ops[0].kind == "FULLY_CONNECTED"


def test_custom_operators_go_by_their_own_name() -> None:
    net = chain()
    net.outputs = [net.op("MyOp", [net.outputs[0]], 1, 3)]
    assert read(net).graph.ops[-1].name == "MyOp_2"


def test_damaged_options_of_custom_operators_are_refused() -> None:
    from flatbuffers import flexbuffers

    rng = np.random.default_rng(4)
    good = bytes(flexbuffers.Dumps({"T": 0, "fft_length": 64}))
    for i in range(300):
        net = chain()
        net.outputs = [net.op("SignalRfft", [net.outputs[0]], 1, 3)]
        options = bytearray(good[: int(rng.integers(len(good)))] if i % 2 else good)
        for at in rng.integers(0, max(1, len(options)), 2).tolist():
            options[at : at + 1] = rng.bytes(1)
        net.ops[-1].custom = bytes(options) if i else b""
        try:
            read(net)
        except FormatError as error:
            line = str(error)
            assert "damaged TFLite flatbuffer" in line or "option 'fft_length' is" in line
    with pytest.raises(FormatError, match="a damaged TFLite flatbuffer"):
        net.ops[-1].custom = b""
        read(net)


def test_unknown_builtin_operators_are_refused() -> None:
    net = chain()
    net.ops[0].old_code = 126
    data = bytearray(net.bytes())
    with pytest.raises(FormatError, match="op number 0: builtin operator 126 is unknown"):
        import tflite

        known = {k: v for k, v in vars(tflite.BuiltinOperator).items() if v != 126}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tflite, "BuiltinOperator", type("Older", (), known))
            read_model(bytes(data))


def test_open_dimensions_are_as_the_file_has_them_or_as_given() -> None:
    net = chain()
    for tensor in net.tensors:
        if not tensor.data:
            tensor.signature = (-1, *tensor.shape[1:])
    assert sizes(read(net).graph) == {"x": 64, "a": 32, "y": 16}
    assert sizes(read(net, d0=3).graph) == {"x": 192, "a": 96, "y": 48}
    made = read_tflite(net.bytes(), "net", {"x:0": 3, "a:0": 3, "y:0": 3})
    assert sizes(made.graph) == {"x": 192, "a": 96, "y": 48}
    with pytest.raises(UsageError, match="unknown dimension 'z:0'; open dimensions: 'x:0', "):
        read_tflite(net.bytes(), "net", {"z:0": 3})
    with pytest.raises(UsageError, match="unknown dimension '0'; the model has no open dimensions"):
        read(chain(), d0=3)


def test_sizes_that_the_operators_do_not_make_are_refused() -> None:
    """A runtime asks each operator what it makes: 12 bytes of y for one row, 36 for three."""
    net = chain()
    for tensor in net.tensors:
        if not tensor.data:
            tensor.signature = (-1, *tensor.shape[1:])
    for dims, said in [
        (
            {"x:0": 3},
            "'FULLY_CONNECTED_0' makes 3 x 8 of tensor 'x' of 3 x 16, not tensor 'a' of 1",
        ),
        ({"0": 3, "y:0": 1}, "'FULLY_CONNECTED_1' makes 3 x 3 of tensor 'a' of 3 x 8, not "),
    ]:
        with pytest.raises(FormatError, match=said):
            read_tflite(net.bytes(), "net", dims)
    (y,) = net.outputs
    net.tensors[y].signature = ()
    with pytest.raises(FormatError, match="not tensor 'y' of 1 x 3: that size is fixed in the"):
        read(net, d0=3)
    net.tensors[y].signature = (-1, 3)
    net.outputs = [net.op("MEAN", [y, net.integers(1)], 1, 1)]
    net.tensors[-1].signature = (-1, 1)
    with pytest.raises(FormatError, match="op 'MEAN_2': it is not known what it makes of tensor"):
        read(net, d0=3)
    assert sizes(read(net).graph)["x"] == 64


def test_unknown_dimensions_are_refused_by_name_or_given(tmp_path: Path, cli: Cli) -> None:
    net = chain()
    for tensor in net.tensors:
        if not tensor.data:
            tensor.shape = tensor.signature = (-1, *tensor.shape[1:])
    path = tmp_path / "net.tflite"
    path.write_bytes(net.bytes())
    said = cli.error("solve", path)
    assert "tensor 'x': dimension 0 is unknown (-1); give its size: --dim 'x:0=N'" in said
    assert sizes(read_graph(path, dims={"0": 2})) == {"x": 128, "a": 64, "y": 32}
    # The line's own advice works: results follow.
    assert sizes(read_graph(path, dims={"x:0": 2})) == {"x": 128, "a": 64, "y": 32}
    with pytest.raises(FormatError, match="makes 2 x 3 of tensor 'a' of 2 x 8, not tensor 'y' of"):
        read_graph(path, dims={"x:0": 2, "y:0": 7})
    plan = tmp_path / "plan.json"
    assert main(["solve", str(path), "--dim", "0=2", "-o", str(plan)]) == 0
    out = str(tmp_path / "out.tflite")
    assert "tensor 'x' has no known shape in the file" in cli.error(
        "apply", path, plan, "--dim", "0=2", "-o", out
    )


def test_element_types_without_a_size_are_refused_by_name() -> None:
    net = TfliteNet()
    net.input(1, 5, type=5, name="words")
    with pytest.raises(FormatError, match="tensor 'words': elements of type STRING have no known"):
        read(net)


def test_a_subgraph_that_runs_itself_is_refused() -> None:
    net, inner = chain(), chain()
    net.more_subgraphs = [inner]
    net.outputs = [net.op("WHILE", [net.outputs[0]], 1, 3, cond=1, body=1)]
    inner.op("WHILE", [inner.outputs[0]], 1, 3, cond=1, body=1)
    with pytest.raises(FormatError, match="subgraph 1 runs itself"):
        read(net)


def streaming(*, held: bool, called: int = 1) -> TfliteNet:
    """A net that begins by running another subgraph, with or without a tensor in the arena."""
    net, setup = chain(), TfliteNet()
    setup.tensor(1, type=RESOURCE)
    setup.weights(4)
    if held:
        setup.tensor(4)
    net.more_subgraphs = [setup]
    net.ops.insert(0, OpDraft("CALL_ONCE", [], [], {"subgraph": called}))
    return net


def test_a_call_that_only_sets_variables_takes_no_bytes() -> None:
    plain, made = read(chain()).graph, read(streaming(held=False)).graph
    assert made.ops[0].kind == "CALL_ONCE"
    assert [b.size for b in made.buffers] == [b.size for b in plain.buffers]
    with pytest.raises(FormatError, match="op 'CALL_ONCE_0' runs subgraph 2, which is not in the"):
        read(streaming(held=False, called=2))


def test_subgraphs_that_nothing_runs_are_counted_and_left_alone() -> None:
    net = chain()
    net.more_subgraphs = [chain()]
    (other,) = read(net).model.others
    assert len(other.tensors) == len(net.more_subgraphs[0].tensors)


def test_empty_and_duplicate_names_get_the_tensors_number() -> None:
    net = TfliteNet()
    x = net.input(1, 4, name="same")
    y = net.op("RELU", [x], 1, 4)
    z = net.op("RELU", [y], 1, 4)
    net.tensors[y].name, net.tensors[z].name = "same", ""
    net.tensors.append(net.tensors[z].__class__((1,), name="#2"))
    net.outputs = [z]
    assert [b.name for b in read(net).graph.buffers] == ["same#0", "same#1", "#2'"]


def test_graphs_that_are_none_are_refused_by_name() -> None:
    net = chain()
    net.ops[0], net.ops[1] = net.ops[1], net.ops[0]
    assert len(read(net).graph.ops) == 2  # out of order in the file, but no cycle
    net.ops[1].inputs = [net.outputs[0]]
    with pytest.raises(GraphError, match="ops form a cycle: 'FULLY_CONNECTED_0' -> "):
        read(net)
    net = chain()
    net.ops[1].outputs = net.ops[0].outputs
    with pytest.raises(GraphError, match="'a'"):
        read(net)
    net = chain()
    net.ops = net.ops[1:]
    with pytest.raises(GraphError, match="op 'FULLY_CONNECTED_0' reads unknown buffer 'a'"):
        read(net)


def test_absurd_shapes_are_refused_by_name() -> None:
    net = chain()
    net.tensors[0].shape = (2**30, 2**30, 2**30)
    with pytest.raises(FormatError, match=r"tensor 'x': \d+ bytes, above the limit of 2\*\*62"):
        read(net)


def test_tensors_that_are_not_there_are_named() -> None:
    net = chain()
    net.ops[1].inputs = [99, -1, -1]
    with pytest.raises(FormatError, match="op FULLY_CONNECTED_1 names tensor number 99, but there"):
        read(net)
    net = chain()
    net.outputs = [-1]
    with pytest.raises(FormatError, match="the outputs name tensor number -1"):
        read(net)


def test_files_are_known_by_content(tmp_path: Path) -> None:
    data = chain().bytes()
    assert FORMATS["tflite"].sniff(Source(data))
    path = tmp_path / "named.json"
    path.write_bytes(data)
    assert read_graph(path).name == "named"


def test_2000_corrupted_files_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    bare = TfliteNet()
    bare.outputs = [bare.op("ADD", [bare.input(1, 4)] * 2, 1, 4)]
    recurrent = TfliteNet()
    inputs = [recurrent.input(1, 4), recurrent.weights(4, 4), recurrent.weights(4, 2), -1]
    state = recurrent.tensor(1, 8, variable=True)
    recurrent.outputs = [recurrent.op("SVDF", [*inputs, state], 1, 4, rank=1)]
    files = [net.bytes() for net in (bare, recurrent, chain())]
    refused = 0
    for i in range(2000):
        path = tmp_path / "x.tflite"
        path.write_bytes(corrupted(files[i % 3], rng))
        try:
            read_graph(path)
        except OptschedError as error:
            refused += 1
            line = str(error)
            assert line.startswith(f"{path}: ")
            assert "\n" not in line
            assert len(line) < 5000
    assert 200 < refused < 1900


def test_lists_longer_than_the_file_cost_nothing() -> None:
    data = bytearray(chain().bytes())
    import tflite

    table = tflite.Model.GetRootAs(bytes(data)).Subgraphs(0)._tab
    at = table.Vector(table.Offset(4)) - 4
    for length in (2**24, 2**31, 2**32 - 1):
        data[at : at + 4] = length.to_bytes(4, "little")
        with pytest.raises(FormatError, match=r"tensors, more than the limit or than the file"):
            read_model(bytes(data))


def test_lists_that_overlap_are_refused() -> None:
    net = TfliteNet()
    shared = net.input(1, 4)
    net.ops = [OpDraft("ADD_N", [shared] * 4, [net.tensor(1, 4)]) for _ in range(300)]
    data = bytearray(net.bytes())
    import tflite

    main = tflite.Model.GetRootAs(bytes(data)).Subgraphs(0)._tab
    first = main.Vector(main.Offset(10))
    target = main.Indirect(first)
    # All operators are the first one, whose list of inputs is as long as the file.
    for i in range(300):
        place = first + 4 * i
        data[place : place + 4] = (target - place).to_bytes(4, "little")
    op = tflite.Operator()
    op.Init(bytes(data), target)
    at = op._tab.Vector(op._tab.Offset(6)) - 4
    data[at : at + 4] = ((len(data) - at) // 4 - 1).to_bytes(4, "little")
    with pytest.raises(FormatError, match=r"they overlap|names tensor number"):
        read_model(bytes(data))


MODELS = sorted((ROOT / "instances" / "tflite").glob("*.tflite"))


def contents(data: bytes) -> list[Any]:
    import tflite

    model, root = read_model(data), tflite.Model.GetRootAs(data)
    buffers = [root.Buffers(i) for i in range(root.BuffersLength())]
    weights = [b.DataAsNumpy().tobytes() for b in buffers if b.DataLength()]
    ops = [(op.kind, op.inputs, op.outputs, op.custom) for op in model.operators]
    return [model.tensors, ops, model.inputs, model.outputs, weights]


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_the_projects_models_are_what_their_script_makes(path: Path) -> None:
    # Not byte for byte: how a file is laid out is for `flatbuffers` to say.
    assert contents(path.read_bytes()) == contents(models.MODELS[path.stem]().bytes())
    assert read_graph(path).ops


def test_a_tensor_that_an_operator_writes_over_its_constant_keeps_readers_behind() -> None:
    net = chain()
    net.tensors[net.ops[0].outputs[0]].data = bytes(32)
    graph = read(net).graph
    assert graph.predecessors == ((), (0,))
    assert sizes(graph) == {"x": 64, "y": 16}


def test_types_of_the_builder_are_those_of_the_schema() -> None:
    import tflite

    known: Any = tflite.TensorType
    assert (FLOAT32, INT8, INT32) == (known.FLOAT32, known.INT8, known.INT32)


def test_a_name_of_two_lines_is_said_in_one() -> None:
    """A find of `tests.fuzz.readers`."""
    corpus = Path(__file__).parents[2] / "data" / "corpus"
    with pytest.raises(FormatError, match="give its size: --dim") as caught:
        read_graph(corpus / "name_of_two_lines.tflite")
    assert "\n" not in str(caught.value)
