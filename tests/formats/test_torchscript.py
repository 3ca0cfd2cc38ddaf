"""TorchScript's text: managed and unmanaged values, sizes, sharing, and what is refused."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from heuristics import PACKINGS
from optsched.check.plan import check_plan
from optsched.check.replay import replay_plan
from optsched.errors import FormatError, OptschedError
from optsched.formats import read_graph, sniff_file
from optsched.formats.torchscript import read_torchscript, tensor_bytes
from optsched.model.elements import InputPolicy, OutputPolicy
from optsched.model.graph import Graph
from optsched.model.liveness import live_ranges
from optsched.model.memory_model import MemoryModel
from optsched.model.packing_problem import packing_problem
from optsched.reports.results import describe
from optsched.solver.pipeline import solve
from tests.support.commands import Cli
from tests.support.generators import random_order

TUPLE = "(Tensor, Tensor)"
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
    assert describe(graph)["unmanaged"] == ["cy", "26"]
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
    assert describe(graph)["unmanaged"] == ["where", "z"]
    assert graph.memory_model == "torchscript; 2 unmanaged values"
    managed = [b.name for b in graph.buffers if b.size and not b.external]
    assert managed == ["h", "y"]
    assert graph.predecessors[2] == (0, 1)


def test_info_lists_what_is_unmanaged(cli: Cli) -> None:
    assert "unmanaged      cy, 26" in cli("info", LSTM)


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
    assert describe(graph)["unmanaged"] == ["a"]
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


def test_what_a_result_may_be_a_view_of_is_unmanaged() -> None:
    graph = graph_of(made("relu", "x", name="a"), made("reshape", "a", name="b"), "return (%b)")
    assert describe(graph)["unmanaged"] == ["a", "b"]


def test_an_in_place_op_on_a_perhaps_view_keeps_its_place_among_uses_of_the_operand() -> None:
    graph = graph_of(
        made("relu", "x", name="a"),
        made("reshape", "a", name="b"),
        made("sin", "a", name="early"),
        made("add_", "b", "x", name="c"),
        made("exp", "a", name="late"),
        "return (%early, %c, %late)",
    )
    assert {2, 3} <= set(graph.predecessors[4]) | set(graph.predecessors[3])
    assert 2 in graph.predecessors[3]
    assert 3 in graph.predecessors[4]


def test_an_element_that_is_a_container_keeps_its_own_elements() -> None:
    graph = graph_of(
        made("relu", "x", name="a"),
        made("sin", "x", name="b"),
        f"%t : {TUPLE} = prim::TupleConstruct(%a, %b)",
        f"%u : ({TUPLE}, Tensor) = prim::TupleConstruct(%t, %a)",
        f"%p : {TUPLE}, %q : {FLOAT} = prim::TupleUnpack(%u)",
        f"%r : {FLOAT}, %s : {FLOAT} = prim::TupleUnpack(%p)",
        made("exp", "q", name="c"),
        made("exp", "s", name="d"),
        "return (%c, %d)",
    )
    names = [b.name for b in graph.buffers]
    reads = {op.name: [names[b] for b in op.reads] for op in graph.ops}
    assert reads["c"] == ["a"]
    assert reads["d"] == ["b"]


def test_a_list_that_changes_is_refused() -> None:
    with pytest.raises(FormatError, match=r"line 3: aten::append changes a list"):
        graph_of(
            f"%l : {FLOAT}[] = prim::ListConstruct(%x)",
            f"%m : {FLOAT}[] = aten::append(%l, %x)",
            "return (%m)",
        )


def random_statements(rng: np.random.Generator) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return statements as op, result and operands; containers are unpacked in the next one."""
    values, statements = ["x"], []
    for i in range(rng.integers(3, 12)):
        op = str(rng.choice(["relu", "view", "reshape", "reshape", "add_", "mul", "pair"]))
        count = 2 if op in ("add_", "mul", "pair") else 1
        operands = tuple(values[k] for k in rng.integers(len(values), size=count))
        statements.append((op, f"v{i}", operands))
        values += [f"v{i}p", f"v{i}q"] if op == "pair" else [f"v{i}"]
    return statements


def text_of(op: str, name: str, operands: tuple[str, ...]) -> list[str]:
    if op != "pair":
        return [made(op, *operands, name=name)]
    given = ", ".join(f"%{value}" for value in operands)
    return [
        f"%{name} : {TUPLE} = prim::TupleConstruct({given})",
        f"%{name}p : {FLOAT}, %{name}q : {FLOAT} = prim::TupleUnpack(%{name})",
    ]


def outcome(
    statements: list[tuple[str, str, tuple[str, ...]]], order: list[str], views: set[str]
) -> tuple[dict[str, object], list[tuple[str, str]]]:
    """Return each op's result as a formula, and pairs of an op and the op whose bytes it uses.

    `views` are the ops `reshape` that do not copy.
    """
    place: dict[str, list[object]] = {"x": ["x", "x"]}
    computed: dict[str, object] = {}
    used: list[tuple[str, str]] = []
    by_name = {name: (op, operands) for op, name, operands in statements}
    elements = {
        f"{name}{end}": value
        for op, name, operands in statements
        if op == "pair"
        for end, value in zip("pq", operands, strict=True)
    }

    def storage(value: str) -> list[object]:
        while value in elements:
            value = elements[value]
        return place[value]

    for name in order:
        op, operands = by_name[name]
        contents = tuple(storage(value)[1] for value in operands)
        used += [(name, str(storage(value)[0])) for value in operands]
        shares = op in ("view", "add_") or name in views
        place[name] = storage(operands[0]) if shares else [name, contents[0]]
        if op in ("add_", "relu", "mul"):
            place[name][1] = (op, contents)
        computed[name] = place[name][1]
    return computed | {f"end of {name}": place[name][1] for name in order}, used


def test_every_order_of_random_programs_is_right_whatever_copies() -> None:
    """Orders of the graph compute the same if reshapes copy or not, and what is used is live."""
    rng = np.random.default_rng(4)
    for _ in range(300):
        statements = random_statements(rng)
        text = [line for statement in statements for line in text_of(*statement)]
        names = [name for op, name, _ in statements if op != "pair"]
        results = sorted({str(name) for name in rng.choice(names, size=2)}) if names else ["x"]
        graph = graph_of(*text, f"return ({', '.join('%' + name for name in results)})")
        views = {name for op, name, _ in statements if op == "reshape" and rng.integers(2)}
        expected, _ = outcome(statements, names, views)
        numbers = {buffer.name: i for i, buffer in enumerate(graph.buffers)}
        for _ in range(3):
            steps = random_order(rng, graph)
            order = [graph.ops[v].name for v in steps]
            values, used = outcome(statements, order, views)
            assert values == expected, text
            live = live_ranges(graph, steps)
            for name, owner in used:
                first, end = live[numbers[owner]]
                assert owner == "x" or first <= order.index(name) < end, (text, name, owner)
