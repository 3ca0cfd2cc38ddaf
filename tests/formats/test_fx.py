"""Exported programs of PyTorch: storages, views, mutation, open sizes, and hostile archives."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest

from optsched import Graph, InputPolicy, OptschedError, peak_memory, read_graph, solve
from optsched.formats import read_recorded, sniff_file
from optsched.formats.fx.aliases import view_strides
from optsched.formats.fx.exported import read_program
from optsched.formats.fx.graph import build_graph
from optsched.formats.fx.sizes import OpenSizes
from tests.support.commands import Cli
from tests.support.pt2_builder import INT64, ProgramBuilder, archive_of, symbol


def graph_of(data: bytes, folder: Path, **options: Any) -> Graph:
    path = folder / "net.pt2"
    path.write_bytes(data)
    return read_graph(path, **options)


def naive_peak(graph: Graph) -> int:
    return peak_memory(graph, range(len(graph.ops)))


def chain() -> ProgramBuilder:
    build = ProgramBuilder()
    build.input("x", (4, 8))
    build.input("w", (8, 8), "parameter")
    build.node("aten.linear.default", {"linear": (4, 8)}, input="x", weight="w")
    build.node("aten.relu.default", {"relu": (4, 8)}, self="linear")
    return build


def test_a_chain_and_its_policies(tmp_path: Path) -> None:
    graph = graph_of(chain().archive("relu"), tmp_path)
    assert graph.name == "net"
    assert [op.kind for op in graph.ops] == ["aten.linear.default", "aten.relu.default"]
    assert [b.input for b in graph.buffers[:2]] == [InputPolicy.EXCLUDED, InputPolicy.CONSTANT]
    assert naive_peak(graph) == 256
    assert naive_peak(graph.with_inplace()) == 128
    assert sniff_file(tmp_path / "net.pt2").name == "pt2"
    assert read_recorded(tmp_path / "net.pt2") == {"fx": (0, 1)}


def test_edge_programs_of_executorch_name_their_order(tmp_path: Path) -> None:
    build = chain()
    for node in build.nodes:
        edge = "executorch.exir.dialects.edge._ops."
        node["target"] = edge + node["target"].removeprefix("torch.ops.")
    graph = graph_of(build.archive("relu"), tmp_path)
    assert [op.kind for op in graph.ops] == ["aten.linear.default", "aten.relu.default"]
    assert read_recorded(tmp_path / "net.pt2") == {"fx": (0, 1), "executorch": (0, 1)}


def test_sizes_are_storage_spans_not_numbers_of_elements(tmp_path: Path) -> None:
    build = ProgramBuilder()
    build.input("x", (2, 3))
    build.node("aten.exp.default", {"e": (2, 3)}, self="x", strides=(16, 1))
    assert graph_of(build.archive("e"), tmp_path).buffers[1].size == (16 + 2 + 1) * 4


@pytest.mark.parametrize("name", ["transpose.int", "view.default", "select.int", "detach.default"])
def test_views_are_names_of_their_storage(tmp_path: Path, name: str) -> None:
    build = chain()
    build.node(f"aten.{name}", {"v": (8, 4)}, self="relu")
    build.node("aten.sum.default", {"s": ()}, self="v")
    graph = graph_of(build.archive("s"), tmp_path)
    assert graph.roots[graph.buffer_ids["v"]] == graph.buffer_ids["relu"]


def test_unsafe_view_shares_bytes_although_its_schema_does_not_say_so(tmp_path: Path) -> None:
    build = chain()
    build.node("aten._unsafe_view.default", {"v": (32,)}, self="relu")
    assert graph_of(build.archive("v"), tmp_path).buffers[-1].size == 0


@pytest.mark.parametrize(("strides", "size"), [((8, 1), 0), ((1, 4), 128)])
def test_reshape_copies_only_what_can_not_be_viewed(
    tmp_path: Path, strides: tuple[int, ...], size: int
) -> None:
    build = ProgramBuilder()
    build.input("x", (4, 8))
    build.node("aten.exp.default", {"e": (4, 8)}, self="x", strides=strides)
    build.node("aten.reshape.default", {"r": (32,)}, self="e")
    assert graph_of(build.archive("r"), tmp_path).buffers[-1].size == size


def test_conversions_to_what_a_tensor_is_return_it(tmp_path: Path) -> None:
    build = chain()
    build.node("aten.to.dtype", {"same": (4, 8)}, self="relu")
    build.node("aten.to.dtype", {"copy": (4, 8)}, self="relu", copy={"as_bool": True})
    build.node("aten.to.dtype", {"other": ()}, self="relu")
    build.value("other", (4, 8), dtype=INT64)
    graph = graph_of(build.archive("same", "copy", "other"), tmp_path)
    assert [b.size for b in graph.buffers[-3:]] == [0, 128, 256]


def test_a_product_of_one_tensor_only_permutes_it(tmp_path: Path) -> None:
    build = chain()
    build.node("aten.einsum.default", {"e": (8, 4)}, tensors="relu", strides=(1, 8))
    build.node("aten.einsum.default", {"f": (4,)}, tensors="relu")
    graph = graph_of(build.archive("e", "f"), tmp_path)
    assert [b.size for b in graph.buffers[-2:]] == [0, 16]


def test_dropout_that_drops_nothing_returns_its_argument(tmp_path: Path) -> None:
    build = chain()
    for name, trains in (("off", False), ("on", True)):
        build.node("aten.dropout.default", {name: (4, 8)}, input="relu", train={"as_bool": trains})
    graph = graph_of(build.archive("off", "on"), tmp_path)
    assert [b.size for b in graph.buffers[-2:]] == [0, 128]


def test_several_results_are_several_buffers_and_parts_of_a_list_are_views(tmp_path: Path) -> None:
    build = chain()
    build.node("aten.topk.default", {"values": (4, 2), "indices": (4, 2)}, self="relu")
    build.value("indices", (4, 2), dtype=INT64)
    build.node("aten.split.Tensor", {"a": (4, 4), "b": (4, 4)}, self="relu", listed=True)
    graph = graph_of(build.archive("values", "a"), tmp_path)
    assert [b.size for b in graph.buffers[-4:]] == [32, 64, 0, 0]


def mutating(target: str = "aten.add_.Tensor") -> ProgramBuilder:
    build = chain()
    build.node("aten.select.int", {"row": (8,)}, self="relu")
    build.node("aten.exp.default", {"before": (8,)}, self="row")
    build.node(target, {"sum": (4, 8)}, self="relu", other="linear")
    build.node("aten.exp.default", {"after": (8,)}, self="row")
    return build


def test_mutation_comes_after_all_who_read_the_old_bytes(tmp_path: Path) -> None:
    graph = graph_of(mutating().archive("before", "after"), tmp_path)
    ids = graph.op_ids
    assert ids["before"] in graph.predecessors[ids["sum"]]
    assert ids["sum"] in graph.predecessors[ids["after"]]
    assert graph.buffers[graph.buffer_ids["sum"]].mutates


def test_readers_through_an_old_view_see_the_new_bytes_and_wait_for_the_view(
    tmp_path: Path,
) -> None:
    graph = graph_of(mutating().archive("before", "after"), tmp_path)
    ids = graph.op_ids
    assert graph.ops[ids["after"]].reads == (graph.buffer_ids["sum"],)
    assert ids["row"] in graph.predecessors[ids["after"]]


def test_a_buffer_that_is_written_is_state_and_no_constant(tmp_path: Path) -> None:
    build = chain()
    build.input("c", (8,), "buffer")
    build.node("aten.sum.dim_IntList", {"s": (8,)}, self="relu")
    build.node("aten.add_.Tensor", {"t": (8,)}, self="c", other="s")
    graph = graph_of(build.archive("relu"), tmp_path)
    assert graph.buffers[graph.buffer_ids["c"]].input is InputPolicy.EXCLUDED


@pytest.mark.parametrize("trains", [True, False])
def test_batch_norm_overwrites_its_statistics_in_training(tmp_path: Path, trains: bool) -> None:
    build = chain()
    build.input("m", (8,), "buffer")
    given = {"input": "relu", "running_mean": "m", "training": {"as_bool": trains}}
    build.node("aten.batch_norm.default", {"n": (4, 8)}, **given)
    build.node("aten.exp.default", {"e": (8,)}, self="m")
    graph = graph_of(build.archive("n", "e"), tmp_path)
    assert any(b.mutates for b in graph.buffers) is trains


def test_out_variants_write_into_what_they_are_given(tmp_path: Path) -> None:
    build = chain()
    build.node("aten.empty.memory_format", {"space": (4, 8)})
    build.node("aten.exp.out", {"e": (4, 8)}, self="relu", out="space")
    graph = graph_of(build.archive("e"), tmp_path)
    assert graph.buffers[graph.buffer_ids["e"]].mutates


def test_out_variants_of_several_results_are_refused(tmp_path: Path) -> None:
    build = chain()
    build.node("aten.topk.out", {"v": (4, 2), "i": (4, 2)}, self="relu", out0="linear", out1="x")
    with pytest.raises(OptschedError, match="arguments that are not called out"):
        graph_of(build.archive("v"), tmp_path)


def test_scalars_have_no_bytes_but_keep_order(tmp_path: Path) -> None:
    build = chain()
    made = {"as_sym_int": {"as_name": "u0"}}
    build.node("aten.item.default", {}, self="relu", makes=[made], name="item")
    build.node("aten.full.default", {"f": (4,)}, size={"as_sym_ints": [{"as_name": "u0"}]})
    graph = graph_of(build.archive("f"), tmp_path)
    ids = graph.op_ids
    assert graph.ops[ids["item"]].writes == ()
    assert graph.predecessors[ids["f"]] == (ids["item"],)


def test_random_numbers_are_drawn_in_the_programs_order(tmp_path: Path) -> None:
    build = ProgramBuilder()
    for name in ("a", "b"):
        build.node("aten.rand.default", {name: (4,)})
    graph = graph_of(build.archive("a", "b"), tmp_path)
    assert graph.predecessors == ((), (0,))


def test_a_branch_is_workspace_of_the_op_that_runs_it(tmp_path: Path) -> None:
    inner = ProgramBuilder()
    inner.input("relu", (4, 8))
    inner.node("aten.exp.default", {"e": (4, 8)}, self="relu")
    inner.node("aten.neg.default", {"n": (4, 8)}, self="e")
    body = {"as_graph": {"name": "body", "graph": inner.graph("n")}}
    build = chain()
    build.node("higher_order.cond", {"c": (4, 8)}, yes=body, no=body, operands="relu")
    graph = graph_of(build.archive("c"), tmp_path)
    assert graph.buffers[graph.ops[-1].workspace or 0].size == 128
    build.nodes[-1]["target"] = "torch.ops.higher_order.scan"
    with pytest.raises(OptschedError, match="what 'scan' holds while it runs is not known"):
        graph_of(build.archive("c"), tmp_path)


INSTANCES = Path(__file__).parents[2] / "instances/fx"


@pytest.mark.parametrize(
    ("name", "peaks"),
    [
        ("branches", (1_835_008, 1_581_056)),
        ("choice", (18_433, 18_433)),
        ("counter", (65_536, 65_536)),
        ("decomposed", (1_835_008, 1_581_056)),
        ("open_batch", (327_680, 327_680)),
    ],
)
def test_programs_that_come_with_the_project(name: str, peaks: tuple[int, int]) -> None:
    dims = {"x.0": 16} if name == "open_batch" else {}
    graph = read_graph(INSTANCES / f"{name}.pt2", dims=dims)
    assert (naive_peak(graph), naive_peak(graph.with_inplace())) == peaks


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("counter", 33_280),
        ("inception", 573_440),
        ("transformer", 114_688),
        ("views", 24_576),
        ("wide_branches", 212_992),
    ],
)
def test_programs_of_executorch_that_come_with_the_project(name: str, least: int) -> None:
    """Arenas that the runtime takes if inputs do not count."""
    result = solve(read_graph(INSTANCES.parent / "executorch" / f"{name}.pt2"))
    assert (result.peak, result.peak_bound, result.slab) == (least, least, least)


def test_the_programs_order_is_a_method_of_compare(
    cli: Cli,
) -> None:
    command = ["compare", str(INSTANCES / "branches.pt2"), "--methods", "fx,lpmf", "--json"]
    rows = json.loads(cli(*command))["rows"]
    assert {row["method"]: row["peak"] for row in rows}["fx"] == 1_835_008


def opened() -> ProgramBuilder:
    build = ProgramBuilder()
    build.input("x", (symbol("s0"), 8), strides=(8, 1))
    build.value("y", (f"Mul(Integer(2), {symbol('s0')})", 8), (8, 1))
    build.node("aten.repeat.default", {}, self="x", makes=[{"as_tensor": {"name": "y"}}])
    build.ranges["s0"] = {"min_val": 2, "max_val": 64}
    return build


def test_open_sizes_are_refused_by_name_and_given_by_symbol_or_axis(tmp_path: Path) -> None:
    data = opened().archive("y")
    with pytest.raises(OptschedError, match=r"'x'.* s0; give --dim s0=N or --dim x.0=N"):
        graph_of(data, tmp_path)
    for key in ("s0", "x.0"):
        assert naive_peak(graph_of(data, tmp_path, dims={key: 4})) == 2 * 4 * 8 * 4


@pytest.mark.parametrize(
    ("dims", "said"),
    [
        ({"s0": 1}, "must be at least 2 and at most 64, got 1"),
        ({"s0": 65}, "got 65"),
        ({"b": 4}, "unknown dimension 'b'; open dimensions: 's0', 'x.0'"),
        ({"s0": 4, "x.0": 5}, "'s0' is 4 already"),
    ],
)
def test_dimensions_that_make_no_sense(tmp_path: Path, dims: dict[str, int], said: str) -> None:
    with pytest.raises(OptschedError, match=said):
        graph_of(opened().archive("y"), tmp_path, dims=dims)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Add(Symbol('a'), Integer(-1))", 5),
        ("FloorDiv(Symbol('a'), Integer(4))", 1),
        ("Mul(Rational(1, 2), Symbol('a'))", 3),
        ("Max(Integer(1), Mod(Symbol('a'), Integer(4)))", 2),
        ("Pow(Symbol('a', positive=True), Integer(2))", 36),
        ("ceiling(Mul(Symbol('a'), Rational(1, 4)))", 2),
    ],
)
def test_expressions_of_sizes(text: str, value: int) -> None:
    assert OpenSizes({}, {"a": 6}).number(text, "it") == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "Pow(Integer(9), Pow(Integer(9), Integer(60)))",
        "Add(*[Integer(1)])",
        "FloorDiv(Integer(1), Integer(0))",
        "Symbol()",
        "Integer('1')",
        "Integer(-1)",
        "Rational(1, 2)",
        "(" * 300 + ")" * 300,
        "Add(" * 1500,
        "Integer(1)" * 1000,
        "lambda: 0",
    ],
)
def test_hostile_expressions_are_no_sizes(text: str) -> None:
    with pytest.raises(OptschedError) as caught:
        OpenSizes({}).number(text, "tensor 'x': its dimension 0")
    assert str(caught.value).startswith("tensor 'x'")
    assert "\n" not in str(caught.value)


def test_strides_of_views_as_torch_finds_them() -> None:
    assert view_strides((4, 8), (8, 1), (2, 2, 8)) == (16, 8, 1)
    assert view_strides((4, 8), (16, 1), (4, 2, 4)) == (16, 4, 1)
    assert view_strides((4, 8), (16, 1), (32,)) is None
    assert view_strides((1, 4, 1), (7, 2, 9), (4,)) == (2,)
    assert view_strides((2, 0), (1, 1), (0,)) == (1,)


class _Trap:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("trap"),)


def test_pickles_and_other_members_are_never_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    members = {"net/data/sample_inputs/model.pt": pickle.dumps(_Trap())}
    assert naive_peak(graph_of(archive_of(chain().document("relu"), **members), tmp_path)) == 256
    assert [path.name for path in tmp_path.iterdir()] == ["net.pt2"]


def test_truncated_archives_are_one_line(tmp_path: Path) -> None:
    data = chain().archive("relu")
    for end in range(0, len(data), 37):
        with pytest.raises(OptschedError) as caught:
            graph_of(data[:end], tmp_path)
        assert "\n" not in str(caught.value)


def test_a_bomb_is_measured_before_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optsched.formats.fx.pt2.MAX_BYTES", 2**16)
    with pytest.raises(OptschedError, match="decompresses to more than the limit of 65536 bytes"):
        graph_of(archive_of(b" " * 2**24), tmp_path)


def test_an_encrypted_archive_is_refused(tmp_path: Path) -> None:
    data = bytearray(chain().archive("relu"))
    for head, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(head)
        while at >= 0:
            data[at + place] |= 1
            at = data.find(head, at + 1)
    with pytest.raises(OptschedError, match="encrypted"):
        graph_of(bytes(data), tmp_path)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["net/models/a.json", "net/models/b.json"], "holds 2 programs, one is wanted"),
        (["../models/a.json"], "names a path outside"),
        (["/models/a.json"], "names a path outside"),
        (["models/a/b.txt"], "holds no exported program"),
    ],
)
def test_archives_of_other_members(tmp_path: Path, names: list[str], said: str) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            archive.writestr(name, "{}")
    with pytest.raises(OptschedError, match=said):
        graph_of(made.getvalue(), tmp_path)


def _changed(path: str, value: Any) -> Any:
    """Return a program in which the entry at a path of keys is another one."""
    document: Any = chain().document("relu")
    *keys, last = (int(key) if key.isdigit() else key for key in path.split("/"))
    place = document
    for key in keys:
        place = place[key]
    place[last] = value
    return document


VALUE = "graph_module/graph/tensor_values/linear"
NODE = "graph_module/graph/nodes/1"


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (f"{VALUE}/dtype", 99, "tensor 'linear': elements of type 99 have no known size"),
        (f"{VALUE}/layout", 2, "tensor 'linear' is of a layout"),
        (f"{VALUE}/sizes", [{"as_int": 2**62}, {"as_int": 2**62}], "above the limit of 2\\*\\*62"),
        (f"{VALUE}/sizes", [{"as_int": -1}, {"as_int": 8}], "is '-1', which is not a size"),
        (f"{VALUE}/sizes", [{"as_int": 8}], "has 1 sizes and 2 strides"),
        (f"{VALUE}/sizes", [{"as_float": 0.5}], "must be a number or an expression"),
        (f"{NODE}/inputs/0/arg", {"as_tensor": {"name": "y"}}, "'y' has no entry in tensor_values"),
        (f"{NODE}/inputs/0/arg", {}, "expected an object with one key"),
        (f"{NODE}/inputs/0/arg", {"as_tensor": {"name": "relu"}}, "before anything makes it"),
        (f"{NODE}/target", "torch.ops.mine.foo.default", "op 'relu': whether operators of 'mine'"),
        (f"{NODE}/target", "torch.ops.aten.set_.source_Tensor", "another storage"),
        (f"{NODE}/target", "torch.ops.aten.max.dim_max", "arguments that are not called out"),
        (f"{NODE}/target", 5, "target must be a string"),
        (f"{NODE}/name", "linear", "op 'linear' is defined twice"),
        ("schema_version/major", 9, "schema version 9"),
        ("graph_module", [], "graph_module must be an object"),
    ],
)
def test_malformed_programs_are_one_line(tmp_path: Path, path: str, value: Any, said: str) -> None:
    with pytest.raises(OptschedError, match=said) as caught:
        graph_of(archive_of(_changed(path, value)), tmp_path)
    assert "\n" not in str(caught.value)


def test_whatever_entry_is_replaced_by_whatever_there_is_no_traceback(tmp_path: Path) -> None:
    document = mutating().document("before", "after")
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key in value if isinstance(value, dict) else range(len(value)):
            places.append((value, key))
            if isinstance(value[key], dict | list):
                walk(value[key])

    walk(document)
    for place, key in places:
        kept = place[key]
        for other in (None, ["x"], -1, {"as_tensors": [1]}):
            place[key] = other
            with contextlib.suppress(OptschedError):
                build_graph(read_program(document, {}), "net")
        place[key] = kept


def test_json_that_is_none(tmp_path: Path) -> None:
    for text in (b"", b"[1]", b"\xff", json.dumps({"a": 1}).encode(), b"{" * 5000):
        with pytest.raises(OptschedError):
            graph_of(archive_of(text), tmp_path)
