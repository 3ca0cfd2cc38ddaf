"""A plan's order in the model: nodes permuted, all else as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Cli

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")

from onnx import helper  # noqa: E402

from optsched import apply_plan, read_graph, solve, write_plan  # noqa: E402
from optsched.cli import main  # noqa: E402
from optsched.errors import PlanError  # noqa: E402
from optsched.formats import Source  # noqa: E402
from optsched.formats.onnx.order import reorder_onnx  # noqa: E402
from tests.frameworks.onnx.build import FLOAT, INT64, body, model, node, value, weight  # noqa: E402


def wide(branches: int = 4) -> Any:
    """All branches widen before any narrows: the file's order is the worst."""
    up = [node("Tile", "x,times", f"u{i}", f"up{i}") for i in range(branches)]
    down = [node("ReduceSum", f"u{i},axis", f"d{i}", f"down{i}") for i in range(branches)]
    last = node("Sum", ",".join(f"d{i}" for i in range(branches)), "y", "sum")
    weights = [
        weight("times", 2, kind=INT64, values=[1, 50]),
        weight("axis", 1, kind=INT64, values=[1]),
    ]
    return model([*up, *down, last], outputs=[value("y", [4, 1])], weights=weights)


def names(data: bytes) -> list[str]:
    return [x.name or x.op_type for x in onnx.load_model_from_string(data).graph.node]


def test_apply_writes_the_plans_order_and_nothing_else(tmp_path: Path) -> None:
    source, plan, out = (tmp_path / x for x in ("wide.onnx", "plan.json", "new.onnx"))
    source.write_bytes(wide().SerializeToString())
    graph = read_graph(source)
    result = solve(graph)
    write_plan(result, plan)
    assert result.plan is not None
    assert main(["apply", str(source), str(plan), "-o", str(out)]) == 0
    assert names(out.read_bytes()) == [graph.ops[v].name for v in result.plan.order]
    onnx.checker.check_model(onnx.load(out), full_check=True)
    before, after = onnx.load(source), onnx.load(out)
    del before.graph.node[:], after.graph.node[:]
    assert before == after
    assert read_graph(out).buffers[0].name == "x"


def test_a_plan_of_another_model_changes_nothing(tmp_path: Path) -> None:
    source, other, out = (tmp_path / x for x in ("wide.onnx", "other.onnx", "new.onnx"))
    source.write_bytes(wide().SerializeToString())
    other.write_bytes(wide(3).SerializeToString())
    plan = tmp_path / "plan.json"
    write_plan(solve(read_graph(other)), plan)
    with pytest.raises(PlanError):
        apply_plan(source, plan, out)
    assert not out.exists()


def test_constants_come_before_who_reads_them_and_shape_at_once() -> None:
    nodes = [
        node("ConstantOfShape", "two", "w", "fill"),
        node("Exp", "x", "a", "e"),
        node("Shape", "a", "s", "shape"),
        node("Neg", "x", "b", "n"),
        node("Reshape", "b,s", "c", "r"),
        node("Mul", "a,w", "d", "m"),
        node("Add", "c,d", "y", "add"),
        node("Identity", "w", "unused", "i"),
    ]
    made = model(nodes, weights=[weight("two", 2, kind=INT64, values=[4, 4])])
    source = Source(made.SerializeToString())
    order = ["n", "e", "m", "shape", "r", "add"]
    assert names(reorder_onnx(source, order)) == ["n", "e", "shape", "fill", "m", "r", "add", "i"]


def test_what_a_subgraph_captures_stands_before_it() -> None:
    def branch(name: str) -> Any:
        return body([node("Add", "a,k", name)], [], [value(name)])

    nodes = [
        node("Constant", "", "k", "k", value=weight("v", 1)),
        node("Constant", "", "c", "c", value=weight("t", kind=9)),
        node("Exp", "x", "a", "e"),
        node("If", "c", "b", "if", then_branch=branch("p"), else_branch=branch("q")),
        node("Neg", "b", "y", "n"),
    ]
    data = reorder_onnx(Source(model(nodes).SerializeToString()), ["e", "if", "n"])
    assert names(data) == ["e", "c", "k", "if", "n"]


def with_data(folder: Path, name: str = "weights/w.bin") -> tuple[Path, Path]:
    """Write a model whose weights lie in a file of their own, and a plan of it."""
    made = wide()
    extra = weight("w", 16, 16, values=[float(i) for i in range(256)])
    extra.raw_data = bytes(1000) + b"some"
    extra.ClearField("float_data")
    made.graph.initializer.append(extra)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    path, plan = folder / "wide.onnx", folder / "plan.json"
    onnx.save_model(made, path, save_as_external_data=True, location=name, size_threshold=100)
    write_plan(solve(read_graph(path)), plan)
    return path, plan


def test_external_data_travels_with_the_written_model(tmp_path: Path) -> None:
    path, plan = with_data(tmp_path)
    out = tmp_path / "sub" / "new.onnx"
    out.parent.mkdir()
    assert main(["apply", str(path), str(plan), "-o", str(out)]) == 0
    loaded = {x.name: x.raw_data for x in onnx.load(out).graph.initializer}
    assert loaded["w"].endswith(b"some")
    # A second time, and beside the model itself, the data is there.
    assert main(["apply", str(path), str(plan), "-o", str(out)]) == 0
    assert main(["apply", str(path), str(plan), "-o", str(tmp_path / "new.onnx")]) == 0
    assert sorted(x.name for x in tmp_path.rglob("*.bin")) == ["w.bin", "w.bin"]


def test_a_copy_that_would_not_find_its_data_is_refused(tmp_path: Path, cli: Cli) -> None:
    path, plan = with_data(tmp_path, "w.bin")
    before = (tmp_path / "w.bin").read_bytes()
    out = tmp_path / "sub" / "new.onnx"
    out.parent.mkdir()
    (out.parent / "w.bin").write_bytes(b"other")
    for output, said in [
        (out, "other data is there already; choose another folder"),
        ("-", "give files, no standard stream"),
        (tmp_path / "w.bin", "the output would overwrite the data of the model"),
    ]:
        assert said in cli.error("apply", path, plan, "-o", output)
    assert not out.exists()
    assert (tmp_path / "w.bin").read_bytes() == before
    (tmp_path / "w.bin").unlink()
    assert "the model's data is not there" in cli.error(
        "apply", path, plan, "-o", tmp_path / "new.onnx"
    )


def test_dimensions_are_fixed_unless_a_branch_may_be_for_other_sizes() -> None:
    """ONNX Runtime infers shapes in all branches and refuses one that does not fit."""
    chain = [node("Exp", "x", "a", "e"), node("Neg", "a", "b", "n")]
    branches = {
        "then_branch": body([node("Abs", "b", "p")], [], [value("p", None)]),
        "else_branch": body([node("Neg", "b", "q")], [], [value("q", None)]),
    }
    last = node("If", "c", "y", "if", **branches)
    flag = value("c", [], onnx.TensorProto.BOOL)
    for nodes, inputs, sizes in (
        ([*chain, node("Abs", "b", "y", "abs")], [value("x", ["n", 4])], [3, 4]),
        ([*chain, last], [value("x", ["n", 4]), flag], ["n", 4]),
    ):
        source = Source(model(nodes, inputs, [value("y", None)]).SerializeToString())
        written = reorder_onnx(source, ["e", "n", nodes[-1].name], {"n": 3})
        dims = onnx.load_model_from_string(written).graph.input[0].type.tensor_type.shape.dim
        assert [dim.dim_param or dim.dim_value for dim in dims] == sizes


def test_sizes_are_fixed_beside_outputs_without_a_type_and_sequences() -> None:
    nodes = [node("Exp", "x", "y", "e"), node("SequenceConstruct", "y,y", "l", "list")]
    many = helper.make_tensor_sequence_value_info("l", FLOAT, None)
    outputs = [value("y", ["n", 4]), many, helper.make_empty_tensor_value_info("w")]
    made = model(nodes, [value("x", ["n", 4])], outputs, [weight("w", 3)])
    fixed = onnx.load_model_from_string(
        reorder_onnx(Source(made.SerializeToString()), ["e", "list"], {"n": 2})
    )
    first, second, third = (x.type for x in fixed.graph.output)
    assert [d.dim_value for d in first.tensor_type.shape.dim] == [2, 4]
    assert second.HasField("sequence_type")
    assert not third.HasField("tensor_type")
