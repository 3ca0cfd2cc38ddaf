"""TorchScript's text: managed and unmanaged values, sizes, sharing, and what is refused."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from heuristics import PACKINGS
from optsched.check.plan import check_plan
from optsched.check.replay import replay_plan
from optsched.cli import main
from optsched.errors import FormatError, OptschedError
from optsched.formats import read_graph, sniff_file
from optsched.formats.torchscript import read_torchscript, tensor_bytes, unmanaged_values
from optsched.model.elements import InputPolicy, OutputPolicy
from optsched.model.graph import Graph
from optsched.model.memory_model import MemoryModel
from optsched.model.packing_problem import packing_problem
from optsched.solver.pipeline import solve

LSTM = Path(__file__).parents[1] / "data" / "torchscript_lstm.txt"
FLOAT = "Float(4, strides=[1], requires_grad=0, device=cpu)"


def graph_of(*lines: str, inputs: str = f"%x : {FLOAT}") -> Graph:
    body = "\n".join(f"  {line}" for line in lines)
    return read_torchscript(f"graph({inputs}):\n{body}\n")


def made(op: str, *operands: str, name: str = "y", kind: str = FLOAT) -> str:
    given = ", ".join(f"%{x}" for x in operands)
    return f"%{name} : {kind} = aten::{op}({given}), scope: a.b # f.py:1:2"


def test_the_lstm_of_the_pull_request_has_the_sizes_that_it_records() -> None:
    """Its tests say: naive 4864 bytes, linear scan and by breadth 3072, in multiples of 64."""
    graph = read_graph(LSTM)
    assert sniff_file(LSTM).alignment == 64
    model = MemoryModel(align=64).apply(graph)
    problem, _ = packing_problem(model, range(len(model.ops)))
    assert sorted(problem.size.tolist()) == [256] * 7 + [1024] * 3
    slabs = {name: problem.slab_size(PACKINGS[name](problem)) for name in PACKINGS}
    assert (slabs["naive"], slabs["linear_scan"], slabs["greedy_by_breadth"]) == (4864, 3072, 3072)
    assert unmanaged_values(graph) == ("cy", "26")
    result = solve(model)
    assert result.plan is not None
    check_plan(model, result.plan, slab=result.slab)
    replay_plan(model, result.plan)


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)", 24),
        ("Double(requires_grad=1, device=cpu)", 8),
        ("Half(0, 7, strides=[7, 1])", 0),
        ("Long(5)", 40),
        ("Float(*, 3, strides=[3, 1])", None),
        ("Float(2, *)", None),
        ("Tensor", None),
        ("Float", None),
        ("int", None),
        ("Tensor[]", None),
        ("Weird(2)", None),
    ],
)
def test_sizes_are_elements_times_bytes(kind: str, size: int | None) -> None:
    assert tensor_bytes("v", kind) == size


def test_a_size_beyond_64_bits_is_refused_and_not_wrapped() -> None:
    kind = "Float(4294967296, 4294967296)"
    with pytest.raises(FormatError, match=r"%y of shape \[4294967296, 4294967296\] has \d+ bytes"):
        graph_of(made("relu", "x", kind=kind), "return (%y)")


def test_values_of_unknown_size_are_unmanaged_and_listed() -> None:
    graph = graph_of(
        made("nonzero", "x", name="where", kind="Tensor"),
        made("relu", "x", name="h"),
        made("index", "h", "where", name="y"),
        made("relu", "y", name="z"),
        "return (%z)",
    )
    assert unmanaged_values(graph) == ("where", "z")
    assert graph.memory_model == "torchscript; 2 unmanaged values"
    managed = [b.name for b in graph.buffers if b.size and not b.external]
    assert managed == ["h", "y"]
    assert graph.predecessors[2] == (0, 1)


def test_info_lists_what_is_unmanaged(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(LSTM)]) == 0
    assert "unmanaged      cy, 26" in capsys.readouterr().out


def test_views_containers_and_writes_in_place() -> None:
    graph = graph_of(
        "%one : int = prim::Constant[value=1]()",
        "%w : Float(4, strides=[1]) = prim::Constant[value= 1  2",
        "  3  4",
        "[ CPUFloatType{4} ]]()",
        made("add", "x", "w", "one", name="a"),
        "%parts : Tensor[] = aten::split(%a, %one, %one)",
        "%p : Float(2), %q : Float(2) = prim::ListUnpack(%parts)",
        made("relu", "p", name="r", kind="Float(2)"),
        made("mul_", "q", "one", name="q2", kind="Float(2)"),
        "%list : Tensor[] = prim::ListConstruct(%r, %p)",
        made("cat", "list", "one", name="c"),
        "return (%c)",
    )
    ids = {b.name: i for i, b in enumerate(graph.buffers)}
    assert graph.buffers[ids["w"]].input is InputPolicy.CONSTANT
    assert graph.buffers[ids["x"]].input is InputPolicy.EXCLUDED
    assert {graph.roots[ids[name]] for name in ("a", "parts", "q2")} == {ids["a"]}
    assert graph.buffers[ids["q2"]].mutates
    # A reader of `a` after a write in place reads the new name, by any of the old names.
    cat = next(op for op in graph.ops if op.kind == "aten::cat")
    assert ids["q2"] in cat.reads
    # `relu` reads `p` before that: it has to run before.
    order = [graph.op_ids[name] for name in ("a", "parts", "q2", "r", "c")]
    with pytest.raises(OptschedError, match=r"'q2' \(step 2\) before 'r'"):
        packing_problem(graph, order)


def test_what_may_be_a_copy_has_bytes_of_its_own_and_keeps_its_source() -> None:
    graph = graph_of(
        made("relu", "x", name="a"),
        made("reshape", "a", name="b"),
        made("relu", "b", name="c"),
        made("relu", "c", name="d"),
        "return (%d)",
    )
    problem, _ = packing_problem(graph, range(4))
    spans = dict(zip(problem.names, zip(problem.start, problem.end, strict=True), strict=True))
    assert spans == {"a": (0, 3), "b": (1, 3), "c": (2, 4)}


def test_a_long_chain_of_what_may_be_copies_keeps_its_source() -> None:
    count = 1200
    chain = [made("contiguous", f"c{i}" if i else "x", name=f"c{i + 1}") for i in range(count)]
    graph = graph_of(*chain, f"return (%c{count})")
    assert len(graph.ops[-1].uses) == count - 1


def test_results_outlive_the_slab() -> None:
    graph = graph_of(
        made("relu", "x", name="a"),
        made("view", "a", name="v"),
        "%t : (Tensor, Tensor) = prim::TupleConstruct(%v, %x)",
        "return (%t)",
    )
    assert unmanaged_values(graph) == ("a",)
    assert graph.buffers[graph.buffer_ids["a"]].output is OutputPolicy.OWN


def test_ops_without_results_keep_their_order() -> None:
    graph = graph_of(
        made("relu", "x", name="a"), "prim::Print(%a)", "prim::Print(%x)", "return (%a)"
    )
    assert graph.predecessors[2] == (1,)


def test_a_size_among_what_is_no_space_to_everyone_is_a_size() -> None:
    assert tensor_bytes("x", "Float(2, 3\x1d)") == 24


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            ["%s : Storage = prim::AllocateSlab[total_size=64]()"],
            "memory of this graph is already planned",
        ),
        (["%t : Tensor = prim::AllocateTensor[size=4](%x)"], "line 2: prim::AllocateTensor"),
        (["prim::ReleaseSlab(%x)"], "memory of this graph is already planned"),
        (
            ["%y : Tensor = prim::If(%x)", "  block0():"],
            "line 3: control flow does not have a single order",
        ),
        ([made("relu", "nowhere")], "aten::relu uses %nowhere, which nothing defines"),
        ([made("relu", "x"), made("tanh", "x")], "aten::tanh defines %y a second time"),
        ([made("relu", "x", name="x")], "aten::relu defines %x a second time"),
        (
            [f"%a : {FLOAT} = prim::ListUnpack(%x, %x)"],
            "line 2: prim::ListUnpack of 2 containers at once",
        ),
        (["what is this"], "line 2: not a statement: 'what is this'"),
        (["%y : Tensor = aten::relu"], "no operands"),
        (["%y : Tensor = 5"], "not a statement"),
        (["%y = aten::relu(%x)"], "expected a value with its type|not a statement"),
    ],
)
def test_what_is_refused_is_one_line(lines: list[str], words: str) -> None:
    with pytest.raises(FormatError, match=words) as found:
        graph_of(*lines, "return (%x)")
    assert "\n" not in str(found.value)


def test_a_text_that_is_cut_off_anywhere_is_refused() -> None:
    text = LSTM.read_text()
    for length in range(7, len(text) - 40, 37):
        with pytest.raises(FormatError):
            read_torchscript(text[:length])
    with pytest.raises(FormatError, match="after the graph's return"):
        read_torchscript(text + f"  {made('relu', 'x', name='late')}\n")


def test_shuffled_lines_never_crash() -> None:
    lines = LSTM.read_text().split("\n")
    rng = np.random.default_rng(5)
    for _ in range(60):
        at = rng.permutation(len(lines))
        text = "graph(%x : Tensor):\n" + "\n".join(lines[i] for i in at)
        with suppress(OptschedError):
            read_torchscript(text)
